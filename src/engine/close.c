/* close.c - the engine's end: ask for nothing new, let what runs come to its end, then close
 * the store and free. Rows are still written meanwhile; what was cut short is found again by its
 * row at the next start. Boxes are left running. */
#include "base/fault.h"
#include "base/str.h"
#include "engine/internal.h"
#include "engine/sampler.h"
#include "engine/snapshots.h"

static void on_wake_closed(void *ctx)
{
    struct engine *e = ctx;
    void (*on_closed)(void *) = e->on_closed;
    void *closed_ctx = e->closed_ctx;

    engine_free(e);
    on_closed(closed_ctx);
}

/* On a thread: the last checkpoint waits for the disk, and a disk can hang. */
static int shut(struct work *work, struct err *err UNUSED)
{
    FAULT_POINT("takeover.old_shut");
    store_shut(container_of(work, struct engine, shut_work)->store);
    return SP_OK;
}

static void close_wake(struct engine *e)
{
    if (e->has_wake)
        wake_close(&e->store_wake, on_wake_closed, e);
    else
        on_wake_closed(e);
}

static void on_shut(struct op *op)
{
    struct engine *e = container_of(op, struct engine, shut_work.op);

    e->store = store_close(e->store);
    close_wake(e);
}

static void on_quiet(struct rt_task *task)
{
    struct engine *e = container_of(task, struct engine, close_task);

    if (e->in_flight > 0 || e->is_store_closed)
        return;             /* something was started in between; its end comes back here */
    if (e->store == NULL) { /* engine_new() has failed */
        close_wake(e);
        return;
    }
    if (!e->is_marked_clean) {
        e->is_marked_clean = true;
        clock_note(e);
        meta_put(e, META_CLEAN, "1"); /* its end comes back here */
        return;
    }
    e->is_store_closed = true;
    e->shut_ns = rt_now(e->rt);
    e->shut_work.run = shut;
    work_start(e->loop, &e->shut_work, NULL, RT_NEVER, on_shut);
}

bool engine_is_store_hung(struct engine *e)
{
    if (e->shut_ns > 0 &&
        rt_after(e->shut_ns, e->config->config->store.timeout_s * NS_PER_S) <= rt_now(e->rt)) {
        str_copy_cut(e->store_trouble, sizeof(e->store_trouble),
                     "the disk does not answer: the database cannot be closed");
        return true;
    }
    return e->store != NULL && store_is_hung(e->store);
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
    struct engine_backend *b = ctx;

    b->backend = NULL;
    engine_op_ended(b->engine);
}

/* What it does of itself. */
static void cancel_all(struct engine *e)
{
    rt_timer_cancel(e->rt, &e->wake_timer);
    rt_timer_cancel(e->rt, &e->reconcile_timer);
    rt_timer_cancel(e->rt, &e->space_timer);
    rt_timer_cancel(e->rt, &e->hibernate.timer);
    rt_timer_cancel(e->rt, &e->keep_timer);
    trend_close(e);
    health_close(e);
    leases_close(e);
    snapshots_close(e);
    reconcile_settle(e);
    op_cancel_all(&e->probes);
    uses_cancel(e);
    binds_close(e);
    usage_close(e);
    sampler_close(e);
    events_flush(e);
}

static void ignore_death(void *ctx UNUSED, uint64_t box_id UNUSED, const char *reason UNUSED)
{
}

static void ignore_resync(void *ctx UNUSED)
{
}

void engine_close(struct engine *e, void (*on_closed)(void *ctx), void *ctx)
{
    assert(!e->is_closing);
    e->is_closing = true;
    e->on_closed = on_closed;
    e->closed_ctx = ctx;
    engine_op_begun(e); /* so that the last end comes after all of this */
    if (e->store != NULL)
        cancel_all(e);
    for (unsigned i = 0; i < e->backend_count; i++) {
        struct engine_backend *b = &e->backends[i];

        if (e->store == NULL) /* there may be no pool that could be notified */
            b->events =
                (struct backend_events){.on_died = ignore_death, .on_resync = ignore_resync};
        rt_timer_cancel(e->rt, &b->relist_timer);
        engine_op_begun(e);
        b->ops->close(b->backend, on_backend_closed, b);
    }
    engine_op_ended(e);
}
