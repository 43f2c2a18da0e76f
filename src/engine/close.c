/* close.c - the engine's end: ask for nothing new, let what runs come to its end, then close
 * the store and free. Rows are still written meanwhile; what was cut short is found again by its
 * row at the next start. Boxes are left running. */
#include "engine/internal.h"

static void on_wake_closed(void *ctx)
{
    struct engine *e = ctx;
    void (*on_closed)(void *) = e->on_closed;
    void *closed_ctx = e->closed_ctx;

    engine_free(e);
    on_closed(closed_ctx);
}

static void on_quiet(struct rt_task *task)
{
    struct engine *e = container_of(task, struct engine, close_task);

    if (e->in_flight > 0 || e->is_store_closed)
        return; /* something was started in between; its end comes back here */
    if (!e->is_marked_clean) {
        e->is_marked_clean = true;
        meta_put(e, META_CLEAN, "1"); /* its end comes back here */
        return;
    }
    e->is_store_closed = true;
    e->store = store_close(e->store);
    wake_close(&e->store_wake, on_wake_closed, e);
}

void engine_op_begun(struct engine *e)
{
    e->in_flight++;
}

void engine_op_ended(struct engine *e)
{
    assert(e->in_flight > 0);
    e->in_flight--;
    if (e->is_closing && e->in_flight == 0)
        rt_defer(e->rt, &e->close_task, on_quiet);
}

static void on_backend_closed(void *ctx)
{
    engine_op_ended(ctx);
}

void engine_close(struct engine *e, void (*on_closed)(void *ctx), void *ctx)
{
    assert(!e->is_closing);
    e->is_closing = true;
    e->on_closed = on_closed;
    e->closed_ctx = ctx;
    rt_timer_cancel(e->rt, &e->wake_timer);
    rt_timer_cancel(e->rt, &e->reconcile_timer);
    rt_timer_cancel(e->rt, &e->space_timer);
    engine_op_begun(e); /* so that the last end comes after all of this */
    reconcile_settle(e);
    op_cancel_all(&e->probes);
    binds_close(e);
    events_flush(e);
    for (unsigned i = 0; i < e->backend_count; i++) {
        rt_timer_cancel(e->rt, &e->backends[i].relist_timer);
        engine_op_begun(e);
        e->backends[i].backend->ops->close(e->backends[i].backend, on_backend_closed, e);
    }
    engine_op_ended(e);
}
