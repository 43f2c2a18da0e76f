/* channel.c - accepts connections as descriptors, a few in each turn of the loop. Data of accepted
 * connections is read before more are accepted, so that many new connections cannot push out one
 * that has just been authenticated. */
#include "agent/core/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"
#include "base/mem.h"
#include "base/str.h"

enum { WAIT_S = 5, TURN_MAX = 64 };

struct channel {
    uv_poll_t poll;
    int fd;
    struct http_server *server;
    void (*on_end)(void *ctx);
    void *ctx;
};

static void on_event(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct channel *c = container_of(poll, struct channel, poll);
    struct err err;

    for (int i = 0; i < TURN_MAX; i++) {
        int fd = fdpass_receive(c->fd);

        if (fd >= 0) {
            if (http_server_take(c->server, fd, &err) != SP_OK)
                errno = 0; /* that connection is lost; try the next one */
        } else if (errno == EAGAIN || errno == EINTR) {
            return;
        } else if (errno != EBADMSG) { /* otherwise it arrived, but there was no room for it */
            (void) uv_poll_stop(poll); /* cannot fail on an initialised handle */
            c->on_end(c->ctx);
            return;
        }
    }
}

int channel_open(struct loop *l, int fd, struct http_server *server, void (*on_end)(void *ctx),
                 void *ctx, struct channel **ret, struct err *err)
{
    struct channel *c = xcalloc(1, sizeof(*c));
    int domain = 0;
    socklen_t len = sizeof(domain);
    int rc;

    c->fd = fd;
    c->server = server;
    c->on_end = on_end;
    c->ctx = ctx;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || domain != AF_UNIX)
        rc = UV_ENOTSOCK;
    else
        rc = uv_poll_init(&l->uv, &c->poll, fd); /* it is non-blocking from here on */
    if (rc != 0) {
        (void) close(fd); /* nothing can be done about it here */
        free(c);
        return err_sys(err, SP_CONFIG, -rc, "descriptor %d is not a channel", fd);
    }
    rc = uv_poll_start(&c->poll, UV_READABLE, on_event);
    assert(rc == 0); /* only links the watcher */
    *ret = c;
    return SP_OK;
}

void channel_close(struct channel *c)
{
    if (c == NULL)
        return;
    (void) uv_poll_stop(&c->poll); /* cannot fail on an initialised handle */
    (void) close(c->fd);           /* nothing can be done about it here */
    loop_close_handle((uv_handle_t *) &c->poll, free, c);
}

int channel_fetch(const char *path, int *ret_fd, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval wait = {.tv_sec = WAIT_S};
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (!str_copy(address.sun_path, sizeof(address.sun_path), path))
        return err_set(err, SP_CONFIG, "--channel-from: the path is too long for a socket");
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) != 0 ||
        connect(fd, (const struct sockaddr *) &address, sizeof(address)) != 0)
        return err_sys(err, SP_IO, errno, "--channel-from '%.100s'", path);
    *ret_fd = fdpass_receive(fd);
    return *ret_fd >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "--channel-from: no socket received");
}
