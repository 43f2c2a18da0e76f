/* wire.c - a non-blocking Unix socket that is waited for with poll, so that each step ends at the
 * call's deadline whatever the daemon does. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "client/internal.h"

enum { BACKLOG_PAUSE_MS = 5 };

uint64_t wire_now_ms(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / NS_PER_MS;
}

void wire_close(struct sp_client *c)
{
    if (c->fd >= 0)
        (void) close(c->fd); /* nothing to do about it here */
    c->fd = -1;
}

static int fail_timeout(const struct sp_client *c, struct sp_failure *f)
{
    return client_fail(f, SP_TIMEOUT, "the daemon at '%s' did not answer in time", c->socket);
}

/* Waits for the socket, or for a pause when `fd` is -1. */
static int wait_for(const struct sp_client *c, int fd, short events, uint64_t deadline_ms,
                    struct sp_failure *f)
{
    for (;;) {
        uint64_t now_ms = wire_now_ms();
        struct pollfd p[2] = {{.fd = fd, .events = events},
                              {.fd = c->interrupt_fd, .events = POLLIN}};
        int n;

        if (now_ms >= deadline_ms)
            return fail_timeout(c, f);
        uint64_t left_ms = MIN_OF(deadline_ms - now_ms, (uint64_t) 1000 * 1000);
        if (fd < 0)
            left_ms = MIN_OF(left_ms, (uint64_t) BACKLOG_PAUSE_MS);
        n = poll(p, 2, (int) left_ms); /* a negative descriptor is passed over */
        if (n > 0 && p[0].revents == 0)
            return client_fail(f, SP_CANCELLED, "interrupted");
        if (n > 0 || (n == 0 && fd < 0))
            return SP_OK;
        if (n < 0 && errno != EINTR)
            return client_fail(f, SP_IO, "poll failed: %s", strerror(errno));
    }
}

static int fail_connect(const struct sp_client *c, int sys, struct sp_failure *f)
{
    if (sys == ENOENT || sys == ECONNREFUSED)
        return client_fail(f, SP_CONNECT_FAILED,
                           "no daemon listens at '%s' (%s): start sandpoold, or name its socket",
                           c->socket, strerror(sys));
    if (sys == EACCES || sys == EPERM)
        return client_fail(f, SP_CONNECT_FAILED,
                           "no permission for '%s': join the socket's group or ask its owner",
                           c->socket);
    return client_fail(f, SP_CONNECT_FAILED, "cannot connect to '%s': %s", c->socket,
                       strerror(sys));
}

int wire_connect(struct sp_client *c, uint64_t deadline_ms, struct sp_failure *f)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int r = SP_OK;

    wire_close(c);
    if (!str_copy(addr.sun_path, sizeof(addr.sun_path), c->socket))
        return client_fail(f, SP_CONNECT_FAILED, "'%s' is longer than a socket's path can be",
                           c->socket);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return fail_connect(c, errno, f);
    while (r == SP_OK) {
        if (connect(c->fd, (const struct sockaddr *) &addr, sizeof(addr)) == 0)
            return SP_OK;
        /* A full backlog cannot be polled for. */
        if (errno == EAGAIN)
            r = wait_for(c, -1, 0, deadline_ms, f);
        else if (errno != EINTR)
            r = fail_connect(c, errno, f);
    }
    wire_close(c);
    return r;
}

bool wire_is_open(const struct sp_client *c)
{
    char byte;

    if (c->fd < 0)
        return false;
    /* Nothing was asked, so anything but "nothing yet" makes the connection useless. */
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

int wire_send(struct sp_client *c, const char *data, size_t len, uint64_t deadline_ms,
              size_t *ret_sent, struct sp_failure *f)
{
    *ret_sent = 0;
    while (*ret_sent < len) {
        ssize_t n = send(c->fd, data + *ret_sent, len - *ret_sent, MSG_NOSIGNAL);

        if (n >= 0) {
            *ret_sent += (size_t) n;
        } else if (errno == EAGAIN) {
            int r = wait_for(c, c->fd, POLLOUT, deadline_ms, f);

            if (r != SP_OK)
                return r;
        } else if (errno != EINTR) {
            return client_fail(f, SP_IO, "the daemon at '%s' closed the connection: %s", c->socket,
                               strerror(errno));
        }
    }
    return SP_OK;
}

int wire_recv(struct sp_client *c, char *data, size_t cap, uint64_t deadline_ms,
              struct sp_failure *f)
{
    for (;;) {
        ssize_t n = recv(c->fd, data, cap, 0);
        int r;

        if (n >= 0)
            return (int) n;
        if (errno == EINTR)
            continue;
        if (errno == ECONNRESET)
            return 0;
        if (errno != EAGAIN)
            return client_fail(f, SP_IO, "reading from '%s' failed: %s", c->socket,
                               strerror(errno));
        r = wait_for(c, c->fd, POLLIN, deadline_ms, f);
        if (r != SP_OK)
            return r;
    }
}
