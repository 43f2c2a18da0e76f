/* connector.c - connects to the Unix socket of a box for each connection of its relay. The box is not
 * trusted: only a socket in the one directory is connected to, in which the box can change nothing once
 * its agent listens. */
#include "helper/connector.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"
#include "helper/cgroup.h"
#include "helper/inside.h"
#include "helper/proc.h"
#include "helper/relay_filter.h"
#include "helper/relay_loop.h"
#include "helper/relay_spawn.h"

/* Descriptors of the process. */
enum { FD_CHANNEL = 3, FD_INIT, FD_DIR, FD_LOCK, FD_REPORT, FD_END };

/* The directory of the agent's socket. */
static const char *dir_of(const struct plan *p, char *dst, size_t cap)
{
    const char *slash = strrchr(p->connect, '/');

    (void) snprintf(dst, cap, "%.*s", (int) (slash - p->connect), p->connect);
    return dst;
}

int connector_make_dir(const struct plan *p, int root, struct err *err)
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
        return err_sys(err, SP_IO, errno, "mount a tmpfs at '%.100s'", p->connect);
    return SP_OK;
}

int connector_open_dir(const struct plan *p, int *ret_fd, struct err *err)
{
    char path[PLAN_PATH_MAX * 2];
    char dir[PLAN_PATH_MAX];

    (void) snprintf(path, sizeof(path), "%s/rootfs%s", p->stage, dir_of(p, dir, sizeof(dir)));
    *ret_fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "open '%.100s'", p->connect);
}

int connector_close_dir(const struct plan *p, int dir, struct err *err)
{
    char path[32];

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
    if (mount(NULL, path, NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) !=
        0)
        return err_sys(err, SP_IO, errno, "close the directory of '%.100s'", p->connect);
    return SP_OK;
}

static int note_pid(const struct box_dir *d, pid_t pid, struct err *err)
{
    char text[16];
    int rc;

    (void) snprintf(text, sizeof(text), "%d\n", (int) pid);
    rc = box_dir_write(d, "pid.new", text, err);
    if (rc == SP_OK && renameat(d->fd, "pid.new", d->fd, "pid") != 0)
        rc = err_sys(err, SP_IO, errno, "replace 'pid'");
    return rc;
}

NORETURN static void become_connector(const struct plan *p, int network, const int *fds)
{
    char id[16];
    const char *const argv[] = {
        "sandpool-helper", "connect", p->dir, id, strrchr(p->connect, '/') + 1, NULL};

    (void) snprintf(id, sizeof(id), "%u", p->id_base);
    if (setns(network, CLONE_NEWNET) != 0) {
        (void) dprintf(fds[FD_REPORT - FD_CHANNEL], "leave the host's network: %s",
                       strerror(errno));
        _exit(127);
    }
    relay_exec(argv, fds, FD_END - FD_CHANNEL);
}

int connector_start(const struct plan *p, const struct box_dir *d,
                    const struct relay_process *relay, int channel, int dir, int *pid_of_box,
                    struct err *err)
{
    AUTO_CLOSE int init = pidfd_open(*pid_of_box, 0);
    AUTO_CLOSE int network = pidfd_open(relay->pid, 0);
    AUTO_CLOSE int in = -1;
    AUTO_CLOSE int out = -1;
    pid_t pid;
    int rc;

    if (init < 0 || network < 0)
        return err_sys(err, SP_IO, errno, "the box's init, or its relay");
    pid = proc_fork(&in, &out, err);
    if (pid < 0)
        return SP_IO;
    if (pid == 0)
        become_connector(p, network, (int[]){channel, init, dir, d->lock, out});
    (void) close(TAKE_FD(out)); /* else the end of the report is never seen */
    rc = relay_read_report(in, "connector", err);
    if (rc == SP_OK && p->cgroup != NULL)
        rc = cgroup_add(p->cgroup, pid, err);
    if (rc == SP_OK)
        rc = note_pid(d, relay->pid, err);
    *pid_of_box = (int) relay->pid;
    return rc;
}

/* --- the process itself --- */

static int take(const struct relay_loop *config UNUSED, int source)
{
    return fdpass_receive(source);
}

/* A connected socket; -1: errno. EAGAIN: the box's queue is full. Never follows a link and never
 * connects to anything but a socket in the directory, whatever the box does meanwhile. */
static int enter(const struct relay_loop *config)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    AUTO_CLOSE int at = openat(config->dir, config->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int fd = -1;
    struct stat st;

    if (at < 0 || fstat(at, &st) != 0)
        return -1;
    if (!S_ISSOCK(st.st_mode)) {
        errno = ENOTSOCK;
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void) snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d", at);
    if (fd < 0 || connect(fd, (const struct sockaddr *) &addr, sizeof(addr)) != 0)
        return -1;
    return TAKE_FD(fd);
}

void connector_run(const char *id, const char *name)
{
    const struct relay_loop config = {.sources = {FD_CHANNEL, -1},
                                      .end = FD_INIT,
                                      .leash = -1,
                                      .dir = FD_DIR,
                                      .name = name,
                                      .take = take,
                                      .enter = enter};

    for (int fd = FD_CHANNEL; fd < FD_END; fd++)
        (void) fcntl(fd, F_SETFD, FD_CLOEXEC); /* it starts nothing; missing ones are found later */
    (void) prctl(PR_SET_NAME, "sandpool-conn"); /* the arguments show it, too */
    relay_loop_prepare();
    if (fcntl(FD_CHANNEL, F_SETFL, O_NONBLOCK) != 0 || !relay_drop_privileges(id)) {
        (void) dprintf(FD_REPORT, "give up what it does not need: %s", strerror(errno));
        return;
    }
    if (write(FD_REPORT, ".", 1) != 1)
        return; /* nobody waits for the box */
    (void) close(FD_REPORT);
    relay_loop_run(&config);
    _exit(0); /* at once, with whatever is still open */
}
