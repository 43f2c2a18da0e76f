/* wake.c - an eventfd the loop polls. The message itself travels in the sender's own queue: a
 * wake-up only says "look there". Not uv_async: its receiver spins until the sender has left
 * uv_async_send(), and the sender has often just been put aside in favour of the loop it woke. */
#include "loop/wake.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/compiler.h"

static void on_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct wake *w = container_of(poll, struct wake, poll);
    uint64_t count;

    /* Emptied before the look: what is sent from here on wakes again. */
    if (read(w->fd, &count, sizeof(count)) == (ssize_t) sizeof(count))
        w->on_wake(w->ctx);
}

int wake_init(struct wake *w, struct loop *l, void (*on_wake)(void *ctx), void *ctx,
              struct err *err)
{
    int r;

    w->on_wake = on_wake;
    w->ctx = ctx;
    w->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->fd < 0)
        return err_sys(err, SP_IO, errno, "wake-up descriptor");
    r = uv_poll_init(&l->uv, &w->poll, w->fd);
    if (r != 0) {
        (void) close(w->fd); /* nothing to do about it here */
        return err_sys(err, SP_IO, -r, "wake-up descriptor");
    }
    r = uv_poll_start(&w->poll, UV_READABLE, on_readable);
    assert(r == 0); /* only links the watcher */
    return SP_OK;
}

void wake_send(struct wake *w)
{
    const uint64_t one = 1;
    ssize_t n = write(w->fd, &one, sizeof(one));

    assert(n == (ssize_t) sizeof(one) || errno == EAGAIN); /* full: it is awake already */
}

void wake_close(struct wake *w, void (*on_closed)(void *ctx), void *ctx)
{
    int r = uv_poll_stop(&w->poll);

    assert(r == 0);
    (void) close(w->fd); /* no longer polled; nothing to do about a failure here */
    loop_close_handle((uv_handle_t *) &w->poll, on_closed, ctx);
}
