/* fdwatch.c - one descriptor, one call. */
#include "loop/fdwatch.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

struct fdwatch {
    uv_poll_t poll;
    int fd;
    void (*on_readable)(void *ctx);
    void *ctx;
};

static void on_event(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct fdwatch *w = container_of(poll, struct fdwatch, poll);

    (void) uv_poll_stop(poll); /* cannot fail on an initialised handle */
    w->on_readable(w->ctx);
}

int fdwatch_new(struct loop *l, int fd, void (*on_readable)(void *ctx), void *ctx,
                struct fdwatch **ret, struct err *err)
{
    struct fdwatch *w = xcalloc(1, sizeof(*w));
    int rc = uv_poll_init(&l->uv, &w->poll, fd);

    if (rc != 0) {
        (void) close(fd); /* nothing to do about it here */
        free(w);
        return err_sys(err, SP_IO, -rc, "watching a descriptor");
    }
    w->fd = fd;
    w->on_readable = on_readable;
    w->ctx = ctx;
    rc = uv_poll_start(&w->poll, UV_READABLE, on_event);
    assert(rc == 0); /* only links the watcher */
    *ret = w;
    return SP_OK;
}

int fdwatch_fd(const struct fdwatch *w)
{
    return w->fd;
}

void fdwatch_free(struct fdwatch *w)
{
    if (w == NULL)
        return;
    (void) uv_poll_stop(&w->poll); /* cannot fail on an initialised handle */
    (void) close(w->fd);           /* nothing to do about it here */
    loop_close_handle((uv_handle_t *) &w->poll, free, w);
}
