/* relay.c - makes and starts the relay of a box, and gives up what a relay does not need. What it
 * then does is in relay_loop.c. */
#include "hands/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/str.h"
#include "hands/inside.h"
#include "hands/proc.h"
#include "hands/relay_loop.h"

enum { FD_LISTEN = 3, FD_LOCK, FD_DIR, FD_INIT, FD_END };

/* The directory of the agent's socket. */
static const char *dir_of(const struct plan *p, char *dst, size_t cap)
{
    const char *slash = strrchr(p->relay, '/');

    (void) snprintf(dst, cap, "%.*s", (int) (slash - p->relay), p->relay);
    return dst;
}

int relay_make_dir(const struct plan *p, int root, struct err *err)
{
    AUTO_CLOSE int target = -1;
    char dir[PLAN_PATH_MAX];
    char options[96];
    char path[32];
    int rc = inside_target(root, dir_of(p, dir, sizeof(dir)), true, p->id_base, &target, err);

    if (rc != SP_OK)
        return rc;
    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", target);
    /* Its own, so that what a box puts there costs the host nothing. */
    (void) snprintf(options, sizeof(options), "mode=0700,uid=%u,gid=%u,size=64k,nr_inodes=8",
                    p->id_base, p->id_base);
    if (mount("sandpool", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) != 0)
        return err_sys(err, SP_IO, errno, "mount a tmpfs at '%.100s'", p->relay);
    return SP_OK;
}

/* Puts the descriptors where the relay wants them; nothing else is left open. */
static bool place(int *fds)
{
    int null = open("/dev/null", O_RDWR);

    for (int i = 0; i < FD_END - FD_LISTEN; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD, FD_END); /* out of each other's way */
        if (fds[i] < 0)
            return false;
    }
    for (int i = 0; i < FD_END - FD_LISTEN; i++) {
        if (dup2(fds[i], FD_LISTEN + i) < 0)
            return false;
    }
    return null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2 &&
           close_range(FD_END, ~0u, 0) == 0;
}

NORETURN static void become_relay(const struct plan *p, int *fds, int report)
{
    char id[16];
    char *const argv[] = {(char *) (uintptr_t) "sandpool-oci",
                          (char *) (uintptr_t) "relay",
                          (char *) (uintptr_t) p->dir,
                          id,
                          (char *) (uintptr_t) strrchr(p->relay, '/') + 1,
                          NULL};
    char *const env[] = {NULL};
    int sys;

    (void) snprintf(id, sizeof(id), "%u", p->id_base);
    (void) signal(SIGTERM, SIG_DFL); /* neither can fail for these signals */
    (void) signal(SIGPIPE, SIG_DFL);
    if (setsid() > 0 && place(fds))
        (void) execve("/proc/self/exe", argv, env);
    sys = errno;
    if (write(report, &sys, sizeof(sys)) < 0)
        _exit(126); /* the parent sees the end of the pipe, and no relay */
    _exit(127);
}

int relay_start(const struct plan *p, const struct box_dir *d, int init_pid, struct err *err)
{
    char path[PLAN_PATH_MAX * 2];
    char inner[PLAN_PATH_MAX];
    AUTO_CLOSE int init = pidfd_open(init_pid, 0);
    AUTO_CLOSE int dir = -1;
    int fds[FD_END - FD_LISTEN];
    pid_t pid;

    (void) snprintf(path, sizeof(path), "%s/rootfs%s", p->stage, dir_of(p, inner, sizeof(inner)));
    dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (init < 0 || dir < 0)
        return err_sys(err, SP_IO, errno, "look at the box");
    fds[0] = FD_LISTEN;
    fds[1] = d->lock;
    fds[2] = dir;
    fds[3] = init;
    pid = fork();
    if (pid < 0)
        return err_sys(err, SP_IO, errno, "fork");
    if (pid == 0)
        become_relay(p, fds, 2);
    return SP_OK;
}
