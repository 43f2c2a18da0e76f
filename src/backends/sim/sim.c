/* sim.c - the `sim` backend with the machine in this process. The machine decides at once what
 * becomes of a create; the operation only waits until its answer is due. */
#include <stdlib.h>

#include "backends/sim/internal.h"
#include "base/mem.h"
#include "base/str.h"

struct sim_death {
    struct list_node link;
    uint64_t box_id;
    char reason[64];
};

static void on_closed_task(struct rt_task *task)
{
    struct sim *s = container_of(task, struct sim, closed);
    void (*on_closed)(void *ctx) = s->on_closed;
    void *ctx = s->ctx;

    while (!list_is_empty(&s->deaths))
        free(container_of(list_pop_front(&s->deaths), struct sim_death, link));
    rt_undefer(s->rt, &s->report);
    world_fini(&s->world);
    free(s);
    on_closed(ctx);
}

void sim_finish(struct sim *s, struct op *op, int result, const struct err *err)
{
    op_finish(op, result, err);
    /* Deferred after the completion, so every on_done() comes before on_closed(). */
    if (s->is_closing && list_is_empty(&s->ops))
        rt_defer(s->rt, &s->closed, on_closed_task);
}

/* --- deaths --- */

static void report_deaths(struct rt_task *task)
{
    struct sim *s = container_of(task, struct sim, report);

    while (!list_is_empty(&s->deaths) && !s->is_closing) {
        struct sim_death *d = container_of(list_pop_front(&s->deaths), struct sim_death, link);

        if (s->events != NULL && s->events->on_died != NULL)
            s->events->on_died(s->events->ctx, d->box_id, d->reason);
        free(d);
    }
}

static void on_died(void *ctx, uint64_t box_id, const char *reason)
{
    struct sim *s = ctx;
    struct sim_death *d = xcalloc(1, sizeof(*d));

    d->box_id = box_id;
    str_copy_cut(d->reason, sizeof(d->reason), reason);
    list_push_back(&s->deaths, &d->link);
    rt_defer(s->rt, &s->report, report_deaths);
}

bool sim_kill(struct backend *b, uint64_t box_id, const char *reason)
{
    assert(b->ops == &sim_ops);
    return world_kill(&sim_of(b)->world, box_id, reason);
}

const struct world *sim_world(const struct backend *b)
{
    assert(b->ops == &sim_ops);
    return &container_of(b, const struct sim, base)->world;
}

/* --- open and close --- */

static int sim_open(const struct backend_env *env, const struct config_profile *profile,
                    struct backend **ret, struct err *err)
{
    struct sim *s;

    if (!str_is_empty(profile->sim.socket))
        return sim_host_open(env, profile, ret, err);
    s = xcalloc(1, sizeof(*s));
    s->base.ops = &sim_ops;
    s->rt = &env->loop->rt;
    s->events = env->events;
    str_copy_cut(s->instance, sizeof(s->instance), env->instance);
    list_init(&s->ops);
    list_init(&s->deaths);
    world_init(&s->world, s->rt, WORLD_BOXES_MAX, on_died, s);
    *ret = &s->base;
    return SP_OK;
}

static void sim_close(struct backend *b, void (*on_closed)(void *ctx), void *ctx)
{
    struct sim *s = sim_of(b);

    assert(!s->is_closing);
    s->on_closed = on_closed;
    s->ctx = ctx;
    s->is_closing = true;
    op_cancel_all(&s->ops);
    if (list_is_empty(&s->ops))
        rt_defer(s->rt, &s->closed, on_closed_task);
}

/* --- answers that are not due yet --- */

struct sim_wait *sim_wait_until(struct sim *s, struct op *op, uint64_t at_ns,
                                void (*fire)(struct rt_timer *))
{
    struct sim_wait *w = xcalloc(1, sizeof(*w));

    w->sim = s;
    w->op = op;
    rt_timer_set(s->rt, &w->due, at_ns, fire);
    return w;
}

void sim_wait_end(struct sim_wait *w, int result, const struct err *err)
{
    struct sim *s = w->sim;
    struct op *op = w->op;

    rt_timer_cancel(s->rt, &w->due);
    sim_finish(s, op, result, err);
    free(w);
}

const struct backend_ops sim_ops = {
    .name = CONFIG_BACKEND_SIM,
    .is_local = true,
    .is_watched = true,
    .can_discover = true,
    .can_bind = true,
    .late = BACKEND_LATE_ALL,
    .late_of = sim_late_of,
    .at_create = BACKEND_LATE_ALL,
    .open = sim_open,
    .close = sim_close,
    .create = sim_create,
    .destroy = sim_destroy,
    .is_alive = sim_is_alive,
    .discover = sim_discover,
    .list = sim_list,
    .bind = sim_bind,
    .freeze = sim_freeze,
    .stats = sim_stats,
    .update = sim_update,
    .examine = sim_examine,
};
