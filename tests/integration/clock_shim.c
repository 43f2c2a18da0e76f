/* clock_shim.c - preloaded into a program under test: its wall clock is off by the seconds that the file
 * $SANDPOOL_TEST_CLOCK_FILE says, from one call to the next. The other clocks are left alone. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *ts)
{
    const char *path = getenv("SANDPOOL_TEST_CLOCK_FILE");
    int rc = (int) syscall(SYS_clock_gettime, id, ts);
    char text[32] = "";
    int fd;

    if (rc != 0 || id != CLOCK_REALTIME || path == NULL)
        return rc;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rc;
    if (read(fd, text, sizeof(text) - 1) > 0)
        ts->tv_sec += strtol(text, NULL, 10);
    (void) close(fd);
    return rc;
}
