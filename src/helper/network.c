/* network.c - slirp4netns or pasta, in the box's control group. The first says on a descriptor when it has set the
 * network up; the other says nothing, and is ready when the box has a way out. */
#include "helper/network.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "helper/cgroup.h"
#include "helper/start.h"

#define READY_MS 10000
#define LOOK_MS 2 /* between two looks at the box's routes */
#define FILES_OWN 64
#define FILES_MAX \
    1024 /* also where the box's sockets are not counted; the machine has about 28,000 ports for all */

enum { READY_FD = 3 };

/* --- the process --- */

/* Who owns the box's user namespace, and may join it without further rights; root's own where that cannot be asked. */
static uid_t owner_of(int box_pid)
{
    char path[64];
    AUTO_CLOSE int fd = -1;
    uid_t owner = 0;

    (void) snprintf(path, sizeof(path), "/proc/%d/ns/user", box_pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && ioctl(fd, NS_GET_OWNER_UID, &owner) == 0 ? owner : 0;
}

/* With "{pid}", "{ready}" and "{owner}" replaced, each once. */
static char *filled(const char *arg, int pid)
{
    const char *const names[] = {"{pid}", "{ready}", "{owner}"};
    const unsigned values[] = {(unsigned) pid, READY_FD, owner_of(pid)};
    size_t cap = strlen(arg) + 16;
    char *text = xcalloc(1, cap);

    (void) snprintf(text, cap, "%s", arg);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *at = strstr(arg, names[i]);

        if (at != NULL)
            (void) snprintf(text, cap, "%.*s%u%s", (int) (at - arg), arg, values[i],
                            at + strlen(names[i]));
    }
    return text;
}

static bool reports_ready(const struct plan *p)
{
    for (size_t i = 0; p->network[i] != NULL; i++)
        if (strstr(p->network[i], "{ready}") != NULL)
            return true;
    return false;
}

struct pipes {
    int said[2];  /* what it writes to standard error */
    int ready[2]; /* one byte: the network is up */
    int gate[2];  /* it begins when a byte comes */
};

static bool keep_ready(int fd)
{
    return fd == READY_FD ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, READY_FD) == READY_FD;
}

/* Each connection and each port that the box sends from takes a socket and a port of this machine, for minutes after the
 * box has closed its own. So there are twice as many as the box may have sockets, up to a limit. */
static bool limit_files(const struct plan *p)
{
    uint64_t count = p->sockets > 0 ? MIN_OF(2 * p->sockets + FILES_OWN, FILES_MAX) : FILES_MAX;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    limit.rlim_max = MIN_OF(limit.rlim_max, count);
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* It outlives us, in a session of its own; nobody reads what it says later, which must not end it. It
 * does not begin before its number is written down: nothing else leads to it. */
static void become_network(const struct plan *p, int box_pid, const struct pipes *pipes)
{
    char *argv[PLAN_ARGS_MAX + 1] = {NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char go;

    (void) close(pipes->gate[1]); /* else the end of our parent is never seen */
    if (read(pipes->gate[0], &go, 1) != 1)
        _exit(127);
    for (size_t i = 0; p->network[i] != NULL; i++)
        argv[i] = filled(p->network[i], box_pid);
    assert(argv[0] != NULL); /* else nobody asks for a network */
    /* pasta takes it for a failure when it finds the signal ignored; it ignores it by itself. */
    (void) signal(SIGPIPE, strstr(argv[0], "pasta") != NULL ? SIG_DFL : SIG_IGN);
    if (setsid() > 0 && limit_files(p) && null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 &&
        dup2(pipes->said[1], 2) == 2 && (!reports_ready(p) || keep_ready(pipes->ready[1])))
        (void) execv(argv[0], argv);
    (void) dprintf(2, "%s: %s", p->network[0], strerror(errno)); /* the tail of the error */
    _exit(127);
}

/* --- until it is ready --- */

/* A line of one of the box's tables of routes that leads anywhere: to 0.0.0.0, or to ::/0 but not by the loopback, where
 * the kernel has one that refuses. */
static bool has_way_out(int box_pid)
{
    char text[4096];

    if (proc_read(box_pid, "net/route", text, sizeof(text)) && strstr(text, "\t00000000\t") != NULL)
        return true;
    if (!proc_read(box_pid, "net/ipv6_route", text, sizeof(text)))
        return false;
    for (char *line = text, *end; line != NULL; line = end) {
        end = strchr(line, '\n');
        if (end != NULL)
            *end++ = '\0';
        if (strncmp(line, "00000000000000000000000000000000 00 ", 36) == 0 &&
            strstr(line, " lo") == NULL)
            return true;
    }
    return false;
}

static int fail(const struct plan *p, int said, const char *what, struct proc_tail *tail,
                struct err *err)
{
    ssize_t n = read(said, tail->text, sizeof(tail->text) - 1);

    tail->len = n < 0 ? 0 : (size_t) n;
    tail->text[tail->len] = '\0';
    return err_set(err, SP_BACKEND_FAILED, "%.80s %s", p->network[0], what);
}

static int wait_ready(const struct plan *p, const struct pipes *pipes, int pid_fd, int box_pid,
                      struct proc_tail *tail, struct err *err)
{
    struct pollfd fds[2] = {{.fd = pid_fd, .events = POLLIN},
                            {.fd = reports_ready(p) ? pipes->ready[0] : -1, .events = POLLIN}};
    uint64_t deadline = proc_now_ms() + READY_MS;
    char byte;

    for (uint64_t now = proc_now_ms(); now < deadline; now = proc_now_ms()) {
        int wait_ms = fds[1].fd < 0 ? LOOK_MS : (int) (deadline - now);

        if (start_is_stopped())
            return err_set(err, SP_CANCELLED, "stopped by a signal");
        if (fds[1].fd < 0 && has_way_out(box_pid))
            return SP_OK;
        if (poll(fds, ARRAY_LEN(fds), wait_ms) <= 0)
            continue;
        if (fds[1].revents != 0 && read(fds[1].fd, &byte, 1) == 1)
            return SP_OK;
        if (fds[0].revents != 0)
            return fail(p, pipes->said[0], "ended before the network was up", tail, err);
        fds[1].fd = -1; /* closed without a byte: its end follows, or the routes show it */
    }
    return fail(p, pipes->said[0], "did not set the network up in time", tail, err);
}

/* --- the start --- */

static int make_pipes(struct pipes *ret, struct err *err)
{
    *ret = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(ret->said, O_CLOEXEC | O_NONBLOCK) != 0 || pipe2(ret->ready, O_CLOEXEC) != 0 ||
        pipe2(ret->gate, O_CLOEXEC) != 0)
        return err_sys(err, SP_IO, errno, "pipe");
    return SP_OK;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        (void) close(*fd); /* a pipe: nothing to lose */
    *fd = -1;
}

static int begin(const struct plan *p, const struct box_dir *d, struct pipes *pipes, pid_t pid,
                 struct err *err)
{
    char text[64];
    int rc;

    close_end(&pipes->gate[0]);
    close_end(&pipes->ready[1]); /* else its end is never seen */
    (void) snprintf(text, sizeof(text), "%d %llu\n", (int) pid,
                    (unsigned long long) proc_start_time(pid));
    rc = box_dir_write(d, "net.pid", text, err);
    if (rc == SP_OK && write(pipes->gate[1], "x", 1) != 1)
        rc = err_sys(err, SP_IO, errno, "start %.80s", p->network[0]);
    return rc;
}

int network_start(const struct plan *p, const struct box_dir *d, int box_pid,
                  struct proc_tail *tail, struct err *err)
{
    AUTO_CLOSE int pid_fd = -1;
    struct pipes pipes;
    int rc = make_pipes(&pipes, err);
    pid_t pid = rc == SP_OK ? fork() : 0;

    if (rc == SP_OK && pid == 0)
        become_network(p, box_pid, &pipes);
    if (rc == SP_OK && pid < 0)
        rc = err_sys(err, SP_IO, errno, "fork");
    if (rc == SP_OK) {
        pid_fd = pidfd_open(pid, 0);
        rc = begin(p, d, &pipes, pid, err);
    }
    if (rc == SP_OK)
        rc = wait_ready(p, &pipes, pid_fd, box_pid, tail, err);
    /* Not sooner: processes of a box may not open the device that networks are made of. */
    if (rc == SP_OK && p->cgroup != NULL)
        rc = cgroup_add(p->cgroup, pid, err);
    for (size_t i = 0; i < 2; i++) {
        close_end(&pipes.said[i]);
        close_end(&pipes.ready[i]);
        close_end(&pipes.gate[i]);
    }
    return rc;
}
