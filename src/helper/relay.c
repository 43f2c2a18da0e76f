/* relay.c - starts the relay of a box, and is it. What it does all its life is in relay_loop.c. */
#include "helper/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"
#include "helper/plan.h"
#include "helper/relay_filter.h"
#include "helper/relay_loop.h"
#include "helper/relay_spawn.h"

/* Descriptors of the process. The lock is only kept, unless it is a FIFO, which ends the relay. */
enum { FD_LISTEN = 3, FD_CHANNEL, FD_LOCK, FD_LOCAL, FD_REPORT, FD_END };

#define BACKLOG 1024

/* How much may wait in the channel: about eighty connections. The kernel counts descriptors under way
 * per user, and those of others must not suffer from a box that takes none. */
#define CHANNEL_BYTES (32 * 1024)

/* --- starting it --- */

/* What it makes from now on belongs to a network with nothing in it. An ordinary user may only do so as
 * the root of another user namespace. Where neither is allowed, the box gets Unix sockets of the
 * host's network: they are connected for life, so nothing can be reached by them. */
static void leave_network(void)
{
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        errno = 0;
}

/* Without it callers use the other socket; then there is something in its place that epoll does not take. */
static int listen_locally(const char *dir)
{
    const struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = HELPER_LOCAL_SOCKET};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    /* Relative, as the path of a directory can be longer than an address. */
    if (fd >= 0 && chdir(dir) == 0 &&
        bind(fd, (const struct sockaddr *) &name, sizeof(name)) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    if (fd >= 0)
        (void) close(fd); /* nobody has connected to it */
    return -1;
}

NORETURN static void become_relay(const struct relay_place *at, int listen, int lock, int report)
{
    char number[16];
    const char *const argv[] = {"sandpool-helper", "relay", at->dir, number, NULL};
    int local = at->want_local ? listen_locally(at->dir) : -1;
    const int small = CHANNEL_BYTES;
    int channel[2];

    (void) snprintf(number, sizeof(number), "%u", at->id);
    if (local < 0)
        local = open("/dev/null", O_RDONLY | O_CLOEXEC);
    leave_network();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0 ||
        setsockopt(channel[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) != 0 ||
        !fdpass_send(report, channel[1])) {
        (void) dprintf(report, " make the channel: %s", strerror(errno));
        _exit(127);
    }
    relay_exec(argv, (int[]){listen, channel[0], lock, local, report}, FD_END - FD_LISTEN);
}

int relay_begin(const struct relay_place *at, int listen, int lock, struct relay_process *ret,
                struct err *err)
{
    int ends[2];

    *ret = (struct relay_process){.pid = -1, .report = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return err_sys(err, SP_IO, errno, "socketpair");
    ret->pid = fork();
    if (ret->pid == 0)
        become_relay(at, listen, lock, ends[1]);
    (void) close(ends[1]); /* else the end of the report is never seen */
    ret->report = ends[0];
    if (ret->pid < 0) {
        (void) close(TAKE_FD(ret->report));
        return err_sys(err, SP_IO, errno, "fork");
    }
    return SP_OK;
}

int relay_await(struct relay_process *r, int *ret_channel, struct err *err)
{
    AUTO_CLOSE int report = TAKE_FD(r->report);
    AUTO_CLOSE int channel = fdpass_receive(report);
    int rc = relay_read_report(report, "relay", err);

    if (rc == SP_OK && channel < 0)
        rc = err_set(err, SP_BACKEND_FAILED, "the relay gave no channel");
    if (rc != SP_OK) {
        (void) kill(r->pid, SIGKILL); /* our own child, not waited for */
        while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return rc;
    }
    *ret_channel = TAKE_FD(channel);
    return SP_OK;
}

/* --- the process itself --- */

static int take(const struct relay_loop *config UNUSED, int source)
{
    return accept4(source, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static int enter(const struct relay_loop *config)
{
    int pair[2];
    bool is_sent;
    int code;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    is_sent = fdpass_send(config->end, pair[1]);
    code = errno;
    (void) close(pair[1]); /* the box has its own, or nobody */
    if (is_sent)
        return pair[0];
    (void) close(pair[0]); /* likewise */
    errno = code;
    return -1;
}

void relay_run(const char *id)
{
    const struct relay_loop config = {.sources = {FD_LISTEN, FD_LOCAL},
                                      .end = FD_CHANNEL,
                                      .leash = FD_LOCK,
                                      .is_end_asked = true,
                                      .take = take,
                                      .enter = enter};

    for (int fd = FD_LISTEN; fd < FD_END; fd++)
        (void) fcntl(fd, F_SETFD, FD_CLOEXEC); /* it starts nothing; missing ones are found later */
    (void) prctl(PR_SET_NAME, "sandpool-relay"); /* the arguments show it, too */
    relay_loop_prepare();
    if (fcntl(FD_LISTEN, F_SETFL, O_NONBLOCK) != 0 || fcntl(FD_LOCAL, F_SETFL, O_NONBLOCK) != 0 ||
        !relay_drop_privileges(id) || !relay_filter_install()) {
        (void) dprintf(FD_REPORT, "give up what it does not need: %s", strerror(errno));
        return;
    }
    if (send(FD_REPORT, ".", 1, RELAY_SEND_FLAGS) == 1) { /* else nobody waits for the box */
        (void) close(FD_REPORT);
        relay_loop_run(&config);
    }
    /* At once, with whatever is still open. Not by _exit(): sanitizers do more there than is allowed. */
    (void) syscall(SYS_exit_group, 0);
}
