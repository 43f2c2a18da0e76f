/* socket_guard.c - starts the process that answers a box's requests for sockets, and hands it what it
 * needs. What it then does is in guard_loop.c. */
#include "helper/socket_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/str.h"
#include "helper/cgroup.h"
#include "helper/guard_loop.h"
#include "helper/proc.h"

#define HAND_OVER_MS 2000
#define FDS_MAX 8 /* in one message of a runtime; one is usual */

/* --- descriptors in messages --- */

union control {
    char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    struct cmsghdr align;
};

static bool send_fds(int to, const int *fds, size_t count)
{
    char byte = '.';
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    union control control = {0};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    return sendmsg(to, &m, MSG_NOSIGNAL) == 1;
}

/* Exactly `want` descriptors come in; true, or none is left open. */
static bool receive_fds(int from, int *fds, size_t want)
{
    char bytes[4096]; /* the runtime sends what it knows about the box as well */
    struct iovec data = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    union control control = {0};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    int got[FDS_MAX];
    size_t count = 0;
    ssize_t n;

    do {
        n = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    for (struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL; c != NULL; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(got, CMSG_DATA(c), count * sizeof(int));
    }
    if (count == want)
        memcpy(fds, got, want * sizeof(int));
    for (size_t i = 0; count != want && i < count; i++)
        (void) close(got[i]); /* not what was asked for */
    return count == want;
}

/* --- in `run` --- */

NORETURN static void become_process(const struct plan *p, int to_parent)
{
    char id[16];
    char sockets[24];
    const char *const argv[] = {"sandpool-helper", "guard", p->dir, id, sockets, NULL};
    char *const env[] = {NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void) snprintf(id, sizeof(id), "%u", p->id_base);
    (void) snprintf(sockets, sizeof(sockets), "%llu", (unsigned long long) p->sockets);
    (void) signal(SIGTERM, SIG_DFL); /* cannot fail for this signal */
    if (setsid() > 0 && null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 &&
        dup2(null, 2) == 2 && dup2(to_parent, GUARD_PARENT_FD) == GUARD_PARENT_FD &&
        close_range(GUARD_PARENT_FD + 1, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        (void) execve("/proc/self/exe", (char *const *) (uintptr_t) argv, env);
    _exit(127);
}

int guard_start(const struct plan *p, const struct box_dir *d, struct guard *g, struct err *err)
{
    AUTO_CLOSE int other = -1;
    char text[64];
    int ends[2];
    pid_t pid;

    if (p->guard == NULL)
        return SP_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return err_sys(err, SP_IO, errno, "socketpair");
    g->process = ends[0];
    other = ends[1];
    pid = fork();
    if (pid < 0)
        return err_sys(err, SP_IO, errno, "fork");
    if (pid == 0)
        become_process(p, other);
    g->pid = (int) pid;
    (void) snprintf(text, sizeof(text), "%d %llu\n", (int) pid,
                    (unsigned long long) proc_start_time(pid));
    return box_dir_write(d, "guard.pid", text, err);
}

int guard_listen(const struct plan *p, struct guard *g, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (p->guard == NULL)
        return SP_OK;
    if (!str_copy(address.sun_path, sizeof(address.sun_path), p->guard))
        return err_set(err, SP_TOO_BIG, "plan: 'guard' is too long for a socket");
    g->listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (g->listen < 0 ||
        bind(g->listen, (const struct sockaddr *) &address, sizeof(address)) != 0 ||
        listen(g->listen, 1) != 0)
        return err_sys(err, SP_IO, errno, "listen on '%.100s'", p->guard);
    return SP_OK;
}

static bool wait_readable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int n;

    do {
        n = poll(&wait, 1, HAND_OVER_MS);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

int guard_serve(const struct plan *p, const struct box_dir *d, struct guard *g, struct err *err)
{
    unsigned long long init[2];
    AUTO_CLOSE int from_runtime = -1;
    AUTO_CLOSE int questions = -1;
    AUTO_CLOSE int network = -1;
    char path[64];
    char byte = 0;

    if (p->guard == NULL)
        return SP_OK;
    if (wait_readable(g->listen))
        from_runtime = accept4(g->listen, NULL, NULL, SOCK_CLOEXEC);
    if (from_runtime < 0 || !wait_readable(from_runtime) ||
        !receive_fds(from_runtime, &questions, 1))
        return err_set(err, SP_BACKEND_FAILED,
                       "%.80s did not hand over the system call filter's listener (it needs "
                       "SCMP_ACT_NOTIFY: runc 1.1, crun 0.19)",
                       p->runtime[0]);
    box_dir_numbers(d, "init", init);
    (void) snprintf(path, sizeof(path), "/proc/%llu/ns/net", init[0]);
    network = open(path, O_RDONLY | O_CLOEXEC);
    if (network < 0)
        return err_sys(err, SP_IO, errno, "open the box's network namespace");
    if (!send_fds(g->process, (int[]){questions, network}, 2) || !wait_readable(g->process) ||
        read(g->process, &byte, 1) != 1)
        return err_set(err, SP_BACKEND_FAILED, "'sandpool-helper guard' ended at once");
    return p->cgroup != NULL ? cgroup_add(p->cgroup, g->pid, err) : SP_OK;
}

void guard_close(struct guard *g)
{
    if (g->process >= 0)
        (void) close(g->process); /* the process ends if it was not given anything */
    if (g->listen >= 0)
        (void) close(g->listen);
    *g = GUARD_NONE;
}

/* --- the process itself --- */

void guard_run(const char *id, const char *sockets)
{
    uint64_t number;
    uint64_t limit;
    int fds[2];

    (void) fcntl(GUARD_PARENT_FD, F_SETFD, FD_CLOEXEC); /* it starts nothing */
    if (!str_parse_u64(id, 0, UINT32_MAX - 1, &number) ||
        !str_parse_u64(sockets, 0, UINT32_MAX, &limit) || chdir("/") != 0 ||
        !receive_fds(GUARD_PARENT_FD, fds, ARRAY_LEN(fds)))
        return;
    guard_loop_run(fds[0], fds[1], (uint32_t) number, limit);
}
