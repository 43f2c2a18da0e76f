/* closing.c - the end of a backend. */
#include "backend/closing.h"

#include <assert.h>

#include "base/compiler.h"

#define TICK_NS (20 * NS_PER_MS)

static void arm(struct closing *c);

static bool is_idle(const struct closing *c)
{
    return list_is_empty(&c->ops) && list_is_empty(&c->inner);
}

static void on_task(struct rt_task *task)
{
    struct closing *c = container_of(task, struct closing, task);
    void (*on_closed)(void *ctx) = c->on_closed;
    void *ctx = c->ctx;

    if (!is_idle(c))
        return; /* a completion that was under way has begun something: its end comes back here */
    rt_timer_cancel(c->rt, &c->tick);
    if (c->free_owner(c)) {
        on_closed(ctx);
        return;
    }
    c->limit_ns = RT_NEVER; /* what it has begun has a deadline of its own */
    arm(c);
}

static void on_tick(struct rt_timer *timer)
{
    struct closing *c = container_of(timer, struct closing, tick);

    arm(c);
    if (rt_now(c->rt) >= c->limit_ns) {
        if (c->on_limit != NULL)
            c->on_limit(c);
        else /* whoever does the work is stuck: what comes of it is found by the next start */
            op_cancel_all(&c->inner);
    }
    closing_settle(c);
}

static void arm(struct closing *c)
{
    rt_timer_set(c->rt, &c->tick, rt_after(rt_now(c->rt), TICK_NS), on_tick);
}

void closing_init(struct closing *c, struct rt *rt, bool (*free_owner)(struct closing *c))
{
    *c = (struct closing){.rt = rt, .free_owner = free_owner};
    list_init(&c->ops);
    list_init(&c->inner);
}

void closing_extend(struct closing *c, uint64_t limit_ns)
{
    c->limit_ns = rt_after(rt_now(c->rt), limit_ns);
}

void closing_begin(struct closing *c, uint64_t limit_ns, void (*on_closed)(void *ctx), void *ctx)
{
    assert(!c->is_closing);
    c->is_closing = true;
    c->on_closed = on_closed;
    c->ctx = ctx;
    op_cancel_all(&c->ops);
    closing_extend(c, limit_ns);
    arm(c);
    closing_settle(c);
}

void closing_settle(struct closing *c)
{
    /* Deferred after the last completion, so every on_done() comes before on_closed(). */
    if (c->is_closing && is_idle(c))
        rt_defer(c->rt, &c->task, on_task);
}

void closing_finish(struct closing *c, struct op *op, int result, const struct err *err)
{
    op_finish(op, result, err);
    closing_settle(c);
}
