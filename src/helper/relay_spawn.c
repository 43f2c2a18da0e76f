/* relay_spawn.c - starts the processes that stay outside a box, and takes from them what they do not
 * need. They are started by exec: what this process knows, the box's token among it, stays here. */
#include "helper/relay_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

#define FD_FIRST 3

/* Puts the descriptors where the program wants them; nothing else stays open beyond exec. */
static bool place(const int *fds, size_t count)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high[RELAY_FDS_MAX];

    assert(count <= RELAY_FDS_MAX);
    for (size_t i = 0; i < count; i++) {
        high[i] = fcntl(fds[i], F_DUPFD, FD_FIRST + RELAY_FDS_MAX); /* out of each other's way */
        if (high[i] < 0)
            return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (dup2(high[i], FD_FIRST + (int) i) < 0)
            return false;
    }
    return null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2 &&
           close_range(FD_FIRST + (unsigned) count, ~0u, CLOSE_RANGE_CLOEXEC) == 0;
}

void relay_exec(const char *const *argv, const int *fds, size_t count)
{
    char *const env[] = {NULL};
    int report = fcntl(fds[count - 1], F_DUPFD_CLOEXEC, FD_FIRST + RELAY_FDS_MAX);

    (void) signal(SIGTERM, SIG_DFL); /* neither can fail for these signals */
    (void) signal(SIGPIPE, SIG_DFL);
    if (setsid() > 0 && place(fds, count))
        (void) execve("/proc/self/exe", (char *const *) (uintptr_t) argv, env);
    (void) dprintf(report, "start it: %s", strerror(errno));
    _exit(127);
}

int relay_read_report(int fd, const char *who, struct err *err)
{
    char text[128] = "";
    size_t len = 0;
    ssize_t n;

    do {
        n = read(fd, text + len, sizeof(text) - 1 - len);
        len += n > 0 ? (size_t) n : 0;
    } while (n > 0 || (n < 0 && errno == EINTR));
    if (strcmp(text, ".") == 0)
        return SP_OK;
    return err_set(err, SP_BACKEND_FAILED, "the %s ended at once: %s", who, text);
}

static bool set_limit(unsigned which, rlim_t value)
{
    const struct rlimit limit = {.rlim_cur = value, .rlim_max = value};

    return setrlimit(which, &limit) == 0;
}

/* All but these of the first 32. */
static bool drop_capabilities(uint32_t kept)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3] = {
        {.effective = kept, .permitted = kept}};

    return syscall(SYS_capset, &header, own) == 0;
}

static bool settle(void)
{
    return chdir("/") == 0 && set_limit(RLIMIT_CORE, 0) && set_limit(RLIMIT_FSIZE, 0) &&
           set_limit(RLIMIT_NPROC, 0) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

bool relay_keep_network(void)
{
    return drop_capabilities(1U << CAP_NET_ADMIN) && settle();
}

bool relay_drop_privileges(const char *id)
{
    uint64_t number;

    if (!str_parse_u64(id, 0, UINT32_MAX - 1, &number)) {
        errno = EINVAL;
        return false;
    }
    if (number > 0 && (setgroups(0, NULL) != 0 ||
                       setresgid((gid_t) number, (gid_t) number, (gid_t) number) != 0 ||
                       setresuid((uid_t) number, (uid_t) number, (uid_t) number) != 0))
        return false;
    return drop_capabilities(0) && settle();
}
