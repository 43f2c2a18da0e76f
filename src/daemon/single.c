/* single.c - the lock of the state directory, and the process's limits. */
#include "daemon/single.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

enum { SOON_MS = 5000, POLL_MS = 20 };

static int make_state_dir(const char *path, struct err *err)
{
    char partial[512];
    size_t len = strlen(path);

    if (len >= sizeof(partial))
        return err_set(err, SP_CONFIG, "state_dir is longer than %zu characters",
                       sizeof(partial) - 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(partial, path, i);
        partial[i] = '\0';
        /* Parents may be shared, the directory itself holds tokens. */
        if (mkdir(partial, i == len ? 0700 : 0755) != 0 && errno != EEXIST)
            return err_sys(err, SP_IO, errno,
                           "state_dir (or --state-dir): cannot make the directory '%s'", partial);
    }
    return SP_OK;
}

static void read_holder(int fd, char *dst, size_t cap)
{
    ssize_t n = pread(fd, dst, cap - 1, 0);

    dst[n > 0 ? n : 0] = '\0';
    dst[strcspn(dst, "\n")] = '\0';
}

void single_sign(int fd)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%d\n", (int) getpid());

    /* The pid in the file is a courtesy to people; the lock itself does not need it. */
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t) len, 0) != len)
        log_debug("lock.pid_not_written", LF_I64("errno", errno));
}

static int lock_wait(int fd, struct err *err)
{
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return err_sys(err, SP_IO, errno, "cannot wait for the lock");
    return SP_OK;
}

/* For a holder that is about to end. */
static int lock_soon(int fd)
{
    int r = flock(fd, LOCK_EX | LOCK_NB);

    for (int i = 0; i < SOON_MS / POLL_MS && r != 0 && errno == EWOULDBLOCK; i++) {
        (void) poll(NULL, 0, POLL_MS); /* only the time */
        r = flock(fd, LOCK_EX | LOCK_NB);
    }
    return r;
}

int single_lock(const char *state_dir, enum single_wait wait, int *ret_fd, struct err *err)
{
    AUTO_CLOSE int fd = -1;
    char path[512];
    char holder[32];
    int r = make_state_dir(state_dir, err);

    if (r != SP_OK)
        return r;
    (void) snprintf(path, sizeof(path), "%s/lock", state_dir); /* the config bounds state_dir */
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, SP_IO, errno, "cannot open '%s'", path);
    if ((wait == SINGLE_WAIT_SOON ? lock_soon(fd) : flock(fd, LOCK_EX | LOCK_NB)) != 0) {
        if (errno != EWOULDBLOCK)
            return err_sys(err, SP_IO, errno, "cannot lock '%s'", path);
        read_holder(fd, holder, sizeof(holder));
        if (wait != SINGLE_WAIT_LONG)
            return err_set(err, SP_LOCKED,
                           "another daemon (pid %s) uses the state directory '%s'; stop it, choose "
                           "another --state-dir, or start with --takeover to replace it, or with "
                           "--standby to wait for its end",
                           holder[0] != '\0' ? holder : "unknown", state_dir);
        log_info("daemon.standby", LF_STR("waits_for_pid", holder));
        log_flush_wait();
        r = lock_wait(fd, err);
        if (r != SP_OK)
            return r;
    }
    single_sign(fd);
    *ret_fd = TAKE_FD(fd);
    return SP_OK;
}

uint64_t single_raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1024;
    limit.rlim_cur = limit.rlim_max;
    (void) setrlimit(RLIMIT_NOFILE, &limit); /* what it is now is read back below */
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1024;
    return limit.rlim_cur;
}
