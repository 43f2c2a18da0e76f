/* relay.c - makes and starts the relay of a box, and gives up what a relay does not need. What it
 * then does is in relay_loop.c. */
#include "hands/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
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
#include "hands/relay_loop.h"

/* Descriptors of the relay. */
enum { FD_LISTEN = 3, FD_LOCK, FD_DIR, FD_INIT, FD_REPORT, FD_END };

#define FD_COUNT (FD_END - FD_LISTEN)
#define CONNECTIONS_MAX 512U
#define FILES_OWN 32U
#define FILES_MAX (CONNECTIONS_MAX * 2 + FILES_OWN)

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

int relay_open_dir(const struct plan *p, int *ret_fd, struct err *err)
{
    char path[PLAN_PATH_MAX * 2];
    char dir[PLAN_PATH_MAX];

    (void) snprintf(path, sizeof(path), "%s/rootfs%s", p->stage, dir_of(p, dir, sizeof(dir)));
    *ret_fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "open '%.100s'", p->relay);
}

/* Puts the descriptors where the relay wants them; nothing else stays open beyond exec. */
static bool place(int *fds)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i < FD_COUNT; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD, FD_END); /* out of each other's way */
        if (fds[i] < 0)
            return false;
    }
    for (int i = 0; i < FD_COUNT; i++) {
        if (dup2(fds[i], FD_LISTEN + i) < 0)
            return false;
    }
    return null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2 &&
           close_range(FD_END, ~0u, CLOSE_RANGE_CLOEXEC) == 0;
}

NORETURN static void become_relay(const struct plan *p, int *fds)
{
    char id[16];
    const char *const argv[] = {
        "sandpool-oci", "relay", p->dir, id, strrchr(p->relay, '/') + 1, NULL};
    char *const env[] = {NULL};

    (void) snprintf(id, sizeof(id), "%u", p->id_base);
    (void) signal(SIGTERM, SIG_DFL); /* neither can fail for these signals */
    (void) signal(SIGPIPE, SIG_DFL);
    if (setsid() > 0 && place(fds))
        (void) execve("/proc/self/exe", (char *const *) (uintptr_t) argv, env);
    (void) dprintf(FD_REPORT, "start it: %s", strerror(errno));
    _exit(127);
}

/* Whoever watches the box watches the relay from now on: it ends with the box, and without it the box
 * is of no use. */
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

/* It says "." when all is well, or what is not. */
static int read_report(int fd, struct err *err)
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
    return err_set(err, SP_BACKEND_FAILED, "the relay ended at once: %s", text);
}

int relay_start(const struct plan *p, const struct box_dir *d, int dir, int *pid_of_box,
                struct err *err)
{
    AUTO_CLOSE int init = pidfd_open(*pid_of_box, 0);
    AUTO_CLOSE int in = -1;
    AUTO_CLOSE int out = -1;
    int ends[2];
    pid_t pid;
    int rc;

    if (init < 0)
        return err_sys(err, SP_IO, errno, "the box's init");
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(err, SP_IO, errno, "pipe");
    in = ends[0];
    out = ends[1];
    pid = fork();
    if (pid < 0)
        return err_sys(err, SP_IO, errno, "fork");
    if (pid == 0)
        become_relay(p, (int[FD_COUNT]){FD_LISTEN, d->lock, dir, init, out});
    (void) close(TAKE_FD(out)); /* else the end of the report is never seen */
    rc = read_report(in, err);
    if (rc == SP_OK)
        rc = note_pid(d, pid, err);
    *pid_of_box = (int) pid;
    return rc;
}

/* --- the process itself --- */

/* How many connections there can be with as many descriptors as we get. */
static unsigned raise_limit(void)
{
    struct rlimit limit = {0};

    (void) getrlimit(RLIMIT_NOFILE, &limit); /* cannot fail for a limit that exists */
    if (limit.rlim_cur < FILES_MAX) {
        limit.rlim_cur = MIN_OF(limit.rlim_max, (rlim_t) FILES_MAX);
        (void) setrlimit(RLIMIT_NOFILE, &limit); /* not above the hard limit */
    }
    return MIN_OF((unsigned) limit.rlim_cur, FILES_MAX) / 2 - FILES_OWN / 2;
}

/* From here on it may do what the box's root may, and less: it has no file but its own. */
static bool drop_privileges(uint32_t id)
{
    return id > 0 && setgroups(0, NULL) == 0 && setresgid(id, id, id) == 0 &&
           setresuid(id, id, id) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

void relay_run(const char *id, const char *name)
{
    struct relay_loop config = {
        .listen = FD_LISTEN, .dir = FD_DIR, .init = FD_INIT, .name = name, .max = raise_limit()};
    uint64_t number;

    for (int fd = FD_LISTEN; fd < FD_END; fd++)
        (void) fcntl(fd, F_SETFD, FD_CLOEXEC); /* it starts nothing; missing ones are found later */
    (void) prctl(PR_SET_NAME, "sandpool-relay"); /* the arguments tell it, too */
    if (!str_parse_u64(id, 1, UINT32_MAX - 1, &number) || chdir("/") != 0 ||
        !drop_privileges((uint32_t) number)) {
        (void) dprintf(FD_REPORT, "give up root: %s", strerror(errno));
        return;
    }
    if (write(FD_REPORT, ".", 1) != 1)
        return; /* nobody waits for the box */
    (void) close(FD_REPORT);
    relay_loop_run(&config);
    _exit(0); /* at once, with whatever is still open */
}
