/* docker.c - the `docker` backend: opened, closed, and its vtable. */
#include "docker/docker.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "docker/internal.h"

/* --- turns --- */

bool docker_gate_enter(struct docker_gate *g, struct docker_waiter *w)
{
    if (g->inside < g->max) {
        g->inside++;
        return true;
    }
    list_push_back(&g->waiting, &w->link);
    return false;
}

void docker_gate_leave(struct docker_gate *g)
{
    if (list_is_empty(&g->waiting)) {
        g->inside--;
        return;
    }
    struct docker_waiter *w = container_of(list_pop_front(&g->waiting), struct docker_waiter, link);

    w->resume(w); /* it has our place */
}

void docker_resume_all(struct list *waiters)
{
    while (!list_is_empty(waiters)) {
        struct docker_waiter *w = container_of(list_pop_front(waiters), struct docker_waiter, link);

        w->resume(w);
    }
}

void docker_tell(struct docker *d, const struct backend_notice *n)
{
    if (!d->is_closing && d->events != NULL && d->events->on_notice != NULL)
        d->events->on_notice(d->events->ctx, n);
}

/* --- open and close --- */

static void on_closed_task(struct rt_task *task)
{
    struct docker *d = container_of(task, struct docker, closed);
    void (*on_closed)(void *ctx) = d->on_closed;
    void *ctx = d->ctx;

    if (!list_is_empty(&d->ops) || !list_is_empty(&d->inner))
        return; /* a completion that was under way has begun something: its end comes back here */
    while (!list_is_empty(&d->box_list))
        docker_box_drop(container_of(list_first(&d->box_list), struct docker_box, link));
    rt_timer_cancel(&d->loop->rt, &d->close_limit);
    docker_call_fini(&d->hello);
    docker_call_fini(&d->watch.call);
    docker_prefetch_free(d);
    docker_adopt_free(d);
    docker_remove_group(d);
    map_fini(&d->boxes);
    free(d->old);
    free(d);
    on_closed(ctx);
}

void docker_settle(struct docker *d)
{
    /* Deferred after the last completion, so every on_done() comes before on_closed(). */
    if (d->is_closing && list_is_empty(&d->ops) && list_is_empty(&d->inner))
        rt_defer(&d->loop->rt, &d->closed, on_closed_task);
}

void docker_finish(struct docker *d, struct op *op, int result, const struct err *err)
{
    op_finish(op, result, err);
    docker_settle(d);
}

static const struct backend_ops mountless_ops;

static int docker_open(const struct backend_env *env, const struct config_profile *profile,
                       struct backend **ret, struct err *err)
{
    struct docker *d = xcalloc(1, sizeof(*d));
    int rc;

    d->base.ops = &docker_ops;
    d->loop = env->loop;
    d->http = env->http;
    d->events = env->events;
    str_copy_cut(d->instance, sizeof(d->instance), env->instance);
    list_init(&d->ops);
    list_init(&d->inner);
    list_init(&d->box_list);
    list_init(&d->unspoken);
    list_init(&d->creates.waiting);
    list_init(&d->removes.waiting);
    list_init(&d->stops.waiting);
    list_init(&d->mounts.waiting);
    list_init(&d->pulls);
    list_init(&d->wants);
    list_init(&d->adoptions);
    list_init(&d->bindings);
    rc = docker_setup(d, env, profile, err);
    if (rc != SP_OK) {
        free(d->old);
        free(d);
        return rc;
    }
    if (docker_mount_check(d, NULL) != SP_OK)
        d->base.ops = &mountless_ops;
    map_init(&d->boxes, env->config->pool.max_boxes);
    docker_events_start(d);
    *ret = &d->base;
    return SP_OK;
}

static void on_close_limit(struct rt_timer *timer)
{
    struct docker *d = container_of(timer, struct docker, close_limit);

    /* The engine is stuck. What it does in the end is found by the next start. */
    op_cancel_all(&d->inner);
    rt_timer_set(&d->loop->rt, &d->close_limit, rt_after(rt_now(&d->loop->rt), NS_PER_S / 10),
                 on_close_limit);
}

static void docker_close(struct backend *backend, void (*on_closed)(void *ctx), void *ctx)
{
    struct docker *d = docker_of(backend);

    assert(!d->is_closing);
    d->on_closed = on_closed;
    d->ctx = ctx;
    d->is_closing = true;
    docker_events_stop(d);
    op_cancel_all(&d->ops);
    docker_images_cancel(d);
    rt_timer_set(&d->loop->rt, &d->close_limit, rt_after(rt_now(&d->loop->rt), DOCKER_CLOSE_NS),
                 on_close_limit);
    docker_settle(d);
}

/* Variables are given to a running box by our agent. */
static unsigned late_of(const struct config_profile *p)
{
    unsigned kinds = BACKEND_LATE_ALL;

    if (p->agent == CONFIG_AGENT_IMAGE)
        kinds &= ~(unsigned) BACKEND_LATE_ENVS;
    if (docker_is_other_kernel(p->runtime))
        kinds &= ~(unsigned) BACKEND_LATE_MOUNTS;
    return kinds;
}

/* clang-format off */
#define OPS(how) { \
    .name = "docker", \
    .is_local = true, \
    .is_watched = true, \
    .can_discover = true, \
    .can_bind = true, \
    .put_key = docker_put_key, \
    .late_of = late_of, \
    .at_create = BACKEND_LATE_ALL, \
    .open = docker_open, \
    .close = docker_close, \
    .prepare = docker_prepare, \
    .create = docker_create, \
    .destroy = docker_destroy, \
    .is_alive = docker_is_alive, \
    .discover = docker_discover, \
    .list = docker_list_boxes, \
    .bind = docker_bind, \
    .update = docker_update, \
    .examine = docker_examine, \
    .late = BACKEND_LATE_ENVS | BACKEND_LATE_LIMITS | (how), \
}
/* clang-format on */

const struct backend_ops docker_ops = OPS(BACKEND_LATE_MOUNTS);
/* Of an engine elsewhere, and where the daemon is not root. */
static const struct backend_ops mountless_ops = OPS(0);
