/* dir.c - checks as the user that a directory can be entered, before a shell is started there: a
 * process switches to the user, enters it and returns its path. It runs in our memory while we are
 * suspended, so it only makes system calls; /proc/self is that process, which has none of our
 * descriptors open. */
#include "agent/shell/dir.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/descriptors.h"
#include "base/str.h"

NORETURN static void go(const struct identity *id, const char *dir, char *real)
{
    if (descriptors_close_from(0) && identity_become(id) == 0 && chdir(dir) == 0 &&
        syscall(SYS_getcwd, real, SHELL_DIR_MAX) > 0 && real[0] == '/')
        _exit(0);
    _exit(1);
}

/* False: the user cannot go there, or its name does not fit. */
static bool can_enter(const struct identity *id, const char *dir, char *real)
{
    sigset_t all;
    sigset_t before;
    siginfo_t info = {0};
    pid_t pid;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = vfork();
    if (pid == 0)
        go(id, dir, real);
    if (pid > 0)
        (void) waitid(P_PID, (id_t) pid, &info, WEXITED); /* it has: vfork() waited for it */
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid > 0 && info.si_code == CLD_EXITED && info.si_status == 0;
}

int shell_dir_pick(const struct agent *a, const char *dir, bool keep_links, char *dst,
                   struct err *err)
{
    char real[SHELL_DIR_MAX];

    if (dir[0] == '/' && can_enter(&a->user, dir, real) &&
        str_copy(dst, SHELL_DIR_MAX, keep_links ? dir : real))
        return SP_OK;
    return err_set(err, SP_INVALID_FIELD, "'exec_dir' is not a directory that can be entered");
}
