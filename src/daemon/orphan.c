/* orphan.c - a service manager takes a new main process for its own only when it is its child; else it would not wait
 * for its end, and kill it at once when the service is stopped. So a process between starts the program and ends:
 * the program passes to the one above. */
#include "daemon/orphan.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

struct word {
    int error;
    pid_t pid;
};

/* Of a process with threads only this one was copied: no function that could want one of their locks. All signals are
 * blocked here, as their handlers would speak for our parent. */
static void be_between(int line, const char *program, char *const argv[], const sigset_t *mask)
{
    struct word w = {0};
    posix_spawnattr_t attr;
    char end;

    /* Libraries open descriptors of which they do not say so. */
    (void) close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    w.error = posix_spawnattr_init(&attr);
    if (w.error == 0)
        w.error = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    if (w.error == 0)
        w.error = posix_spawnattr_setsigmask(&attr, mask);
    if (w.error == 0)
        w.error = posix_spawn(&w.pid, program, NULL, &attr, argv, environ);
    /* Until the other end is closed its number is its own, even when it has ended: we have not waited for it. */
    if (write(line, &w, sizeof(w)) == sizeof(w))
        while (read(line, &end, 1) < 0 && errno == EINTR)
            ;
    _exit(0);
}

static int take_word(int line, pid_t *ret_pid, int *ret_pid_fd)
{
    struct word w;
    ssize_t len;

    do
        len = read(line, &w, sizeof(w));
    while (len < 0 && errno == EINTR);
    if (len != sizeof(w))
        return ECHILD;
    if (w.error != 0)
        return w.error;
    *ret_pid = w.pid;
    *ret_pid_fd = pidfd_open(w.pid, 0);
    return *ret_pid_fd < 0 ? errno : 0;
}

int orphan_start(const char *program, char *const argv[], pid_t *ret_pid, int *ret_pid_fd)
{
    AUTO_CLOSE int ours = -1;
    AUTO_CLOSE int theirs = -1;
    sigset_t all;
    sigset_t before;
    int ends[2];
    pid_t between;
    int r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    ours = ends[0];
    theirs = ends[1];
    (void) sigfillset(&all); /* cannot fail */
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    between = fork();
    if (between == 0) {
        (void) close(ours); /* else the end of our parent is never seen */
        be_between(theirs, program, argv, &before);
    }
    r = errno;
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (between < 0)
        return r;
    (void) close(TAKE_FD(theirs)); /* else its end is never seen */
    r = take_word(ours, ret_pid, ret_pid_fd);
    (void) close(TAKE_FD(ours)); /* it may go */
    while (waitpid(between, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}
