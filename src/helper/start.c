/* start.c - the runtime as our child: it gets the box's end of the relay's channel, writes to a
 * pipe that we read, and dies if we do. The box is up when its agent has said so on that pipe. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/cgroup.h"
#include "helper/connector.h"
#include "helper/network.h"
#include "helper/proc.h"
#include "helper/start.h"
#include "helper/user_ns.h"

#define READY_MS 20000
#define READY_LINE "sandpool-agent: ready"

static volatile sig_atomic_t is_stopped;
static bool was_killed; /* the runtime, by a signal */

static void on_term(int signum)
{
    (void) signum;
    is_stopped = 1;
}

bool start_was_killed(void)
{
    return was_killed;
}

bool start_is_stopped(void)
{
    return is_stopped != 0;
}

int start_watch_parent(pid_t parent, struct err *err)
{
    static pid_t watched;
    struct sigaction act = {.sa_handler = on_term}; /* no SA_RESTART: waits shall end */

    watched = parent != 0 ? parent : watched;
    if (sigaction(SIGTERM, &act, NULL) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
        return err_sys(err, SP_IO, errno, "watch the parent");
    if (getppid() != watched)
        return err_set(err, SP_CANCELLED, "the parent is gone");
    return SP_OK;
}

/* --- the runtime --- */

struct wait {
    int pid_fd;
    int out;
    uint64_t deadline;
    bool is_exited;
    bool is_ready;
    bool is_ended;  /* nobody has the other end of the pipe */
    char line[128]; /* the beginning of the line that is being read */
    size_t line_len;
    struct proc_tail *tail;
};

static bool hand_over(const struct plan *p, int channel)
{
    if (p->connect != NULL)
        return true;
    if (channel == START_CHANNEL_FD)
        return fcntl(channel, F_SETFD, 0) == 0;
    return dup2(channel, START_CHANNEL_FD) >= 0;
}

static void become_runtime(const struct plan *p, pid_t parent, int channel, int out)
{
    struct err err;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0 && dup2(null, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2 &&
        hand_over(p, channel)) {
        if ((p->limits != NULL && cgroup_join(p, &err) != SP_OK) ||
            (p->connect != NULL && user_ns_own_nobody(p, &err) != SP_OK)) {
            (void) dprintf(2, "%s", err.msg); /* the tail of the error */
            _exit(127);
        }
        proc_die_with(parent); /* again: other rights end this */
        (void) execv(p->runtime[0], (char *const *) (uintptr_t) p->runtime);
    }
    (void) dprintf(2, "%s: %s", p->runtime[0], strerror(errno)); /* the tail of the error */
    _exit(127);
}

static void take_output(struct wait *w, const char *data, size_t len)
{
    proc_tail_add(w->tail, data, len);
    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n') {
            if (w->line_len < sizeof(w->line))
                w->line[w->line_len++] = data[i];
            continue;
        }
        if (w->line_len >= strlen(READY_LINE) &&
            memcmp(w->line, READY_LINE, strlen(READY_LINE)) == 0)
            w->is_ready = true;
        w->line_len = 0;
    }
}

static int read_output(struct wait *w, struct err *err)
{
    char chunk[2048];
    ssize_t n = read(w->out, chunk, sizeof(chunk));

    if (n > 0)
        take_output(w, chunk, (size_t) n);
    else if (n == 0)
        w->is_ended = true; /* nobody writes any more */
    else if (errno != EINTR && errno != EAGAIN)
        return err_sys(err, SP_IO, errno, "read what the runtime writes");
    return SP_OK;
}

/* What it wrote last says why it failed. */
static void drain(struct wait *w)
{
    char chunk[2048];
    ssize_t n;

    (void) fcntl(w->out, F_SETFL, O_NONBLOCK); /* at worst the reason is cut short */
    while ((n = read(w->out, chunk, sizeof(chunk))) > 0)
        take_output(w, chunk, (size_t) n);
}

static int take_exit(struct wait *w, const struct plan *p, struct err *err)
{
    siginfo_t info = {0};

    if (waitid(P_PIDFD, (id_t) w->pid_fd, &info, WEXITED) != 0)
        return err_sys(err, SP_IO, errno, "wait for the runtime");
    w->is_exited = true;
    if (info.si_code == CLD_EXITED && info.si_status == 0)
        return SP_OK;
    drain(w);
    was_killed = info.si_code != CLD_EXITED;
    return err_set(err, SP_BACKEND_FAILED, "%.80s %s %d", p->runtime[0],
                   info.si_code == CLD_EXITED ? "failed with status" : "was killed by signal",
                   info.si_status);
}

/* Until the runtime has done its part and the agent has spoken. */
static int wait_ready(struct wait *w, const struct plan *p, struct err *err)
{
    struct pollfd fds[2] = {{.fd = w->out, .events = POLLIN}, {.fd = w->pid_fd, .events = POLLIN}};
    int rc = SP_OK;

    while (rc == SP_OK && !(w->is_exited && w->is_ready)) {
        uint64_t now = proc_now_ms();

        if (start_is_stopped())
            return err_set(err, SP_CANCELLED, "stopped by a signal");
        if (now >= w->deadline)
            return err_set(err, SP_TIMEOUT, "the agent was not ready within %d s", READY_MS / 1000);
        if (poll(fds, 2, (int) (w->deadline - now)) < 0)
            continue;
        if (fds[1].revents != 0) {
            rc = take_exit(w, p, err);
            fds[1].fd = -1;
            fds[1].revents = 0;
        }
        if (rc == SP_OK && fds[0].revents != 0)
            rc = read_output(w, err);
        if (w->is_ended)
            fds[0].fd = -1;
        /* Files of a process are closed a moment before its end is seen: how the runtime ended says more. */
        if (rc == SP_OK && w->is_ended && w->is_exited && !w->is_ready)
            rc = err_set(err, SP_BACKEND_FAILED, "the box ended before its agent was ready");
    }
    return rc;
}

/* The runtime's file has the number only; with the start time nobody else can be taken for it. */
static int note_init(const struct box_dir *d, int *ret_pid, struct err *err)
{
    unsigned long long pid[2];
    char text[64];

    box_dir_numbers(d, "pid", pid);
    if (pid[0] <= 1 || pid[0] > INT32_MAX)
        return err_set(err, SP_BACKEND_FAILED, "the runtime wrote no pid file");
    *ret_pid = (int) pid[0];
    (void) snprintf(text, sizeof(text), "%d %llu\n", *ret_pid,
                    (unsigned long long) proc_start_time(*ret_pid));
    return box_dir_write(d, "init", text, err);
}

/* What serves the box from outside. All of them are processes of its group from now on: their memory counts as the
 * box's, and whoever ends the service that we belong to does not end them. */
static int start_beside(const struct plan *p, const struct box_dir *d,
                        const struct relay_process *relay, struct egress *egress, int channel,
                        int dir, int *pid, struct proc_tail *tail, struct err *err)
{
    int rc = SP_OK;

    if (p->cgroup != NULL)
        rc = cgroup_take_back(p->cgroup, err);
    if (rc == SP_OK && p->cgroup != NULL)
        rc = cgroup_add(p->cgroup, relay->pid, err);
    if (rc == SP_OK && p->network != NULL)
        rc = network_start(p, d, p->egress != NULL ? egress->resolver.pid : *pid, tail, err);
    if (rc == SP_OK)
        rc = egress_attach(p, egress, *pid, err);
    if (rc == SP_OK && p->connect != NULL)
        rc = connector_close_dir(p, dir, err);
    if (rc == SP_OK && p->connect != NULL)
        rc = connector_start(p, d, relay, channel, dir, pid, err);
    return rc;
}

/* Until its agent is ready. */
static int run_runtime(const struct plan *p, int *channel, struct proc_tail *tail, struct err *err)
{
    struct wait w = {.tail = tail, .deadline = proc_now_ms() + READY_MS};
    AUTO_CLOSE int in = -1;
    AUTO_CLOSE int out = -1;
    AUTO_CLOSE int pid_fd = -1;
    pid_t self = getpid();
    pid_t pid;
    int rc;

    pid = proc_fork(&in, &out, err);
    if (pid < 0)
        return SP_IO;
    if (pid == 0) {
        proc_die_with(self);
        become_runtime(p, self, *channel, out);
    }
    (void) close(TAKE_FD(out)); /* else the end of the output is never seen */
    if (p->connect == NULL)
        (void) close(TAKE_FD(*channel)); /* else the relay never sees the end of the box */
    pid_fd = pidfd_open(pid, 0);
    w.pid_fd = pid_fd;
    w.out = in;
    rc = wait_ready(&w, p, err);
    if (rc != SP_OK && !w.is_exited) {
        (void) kill(pid, SIGKILL); /* our own child, not waited for */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return rc;
}

int start_box(const struct plan *p, const struct box_dir *d, struct relay_process *relay,
              struct egress *egress, int *ret_pid, struct proc_tail *tail, struct err *err)
{
    AUTO_CLOSE int channel = -1;
    AUTO_CLOSE int dir = -1;
    int rc = relay_await(relay, &channel, err);

    if (rc == SP_OK && p->connect != NULL)
        rc = connector_open_dir(p, &dir, err);
    if (rc == SP_OK)
        rc = run_runtime(p, &channel, tail, err);
    if (rc == SP_OK)
        rc = note_init(d, ret_pid, err);
    if (rc == SP_OK)
        rc = start_beside(p, d, relay, egress, channel, dir, ret_pid, tail, err);
    return rc;
}
