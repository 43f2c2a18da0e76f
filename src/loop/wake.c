/* wake.c - uv_async with an owner. The message itself travels in the sender's own queue: a wake-up
 * only says "look there". */
#include "loop/wake.h"

#include "base/compiler.h"

static void on_async(uv_async_t *async)
{
    struct wake *w = container_of(async, struct wake, async);

    w->on_wake(w->ctx);
}

int wake_init(struct wake *w, struct loop *l, void (*on_wake)(void *ctx), void *ctx,
              struct err *err)
{
    int r = uv_async_init(&l->uv, &w->async, on_async);

    if (r != 0)
        return err_sys(err, SP_IO, -r, "wake-up descriptor");
    w->on_wake = on_wake;
    w->ctx = ctx;
    return SP_OK;
}

void wake_send(struct wake *w)
{
    int r = uv_async_send(&w->async);

    assert(r == 0); /* it fails only after close, which comes after the join */
}

void wake_close(struct wake *w, void (*on_closed)(void *ctx), void *ctx)
{
    loop_close_handle((uv_handle_t *) &w->async, on_closed, ctx);
}
