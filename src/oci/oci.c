/* oci.c - the `oci` backend: opened, closed, and its vtable. */
#include "oci/oci.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "oci/internal.h"

#define CLOSE_GRACE_NS (1 * NS_PER_S)
#define CLOSE_BASE_NS (10 * NS_PER_S) /* while the base is made, which happens once after a start */

static void on_closed_task(struct rt_task *task)
{
    struct oci *o = container_of(task, struct oci, closed);
    void (*on_closed)(void *ctx) = o->on_closed;
    void *ctx = o->ctx;

    if (!list_is_empty(&o->ops) || !list_is_empty(&o->inner))
        return; /* a completion that was under way has begun something: its end comes back here */
    rt_timer_cancel(&o->loop->rt, &o->close_timer);
    if (oci_rootless_clean(o))
        return;
    while (!list_is_empty(&o->box_list))
        oci_box_drop(container_of(list_first(&o->box_list), struct oci_box, link));
    oci_remove_cgroup_parent(o);
    map_fini(&o->boxes);
    free(o->id_used);
    free(o->id_lived);
    free(o);
    on_closed(ctx);
}

void oci_settle(struct oci *o)
{
    /* Deferred after the last completion, so every on_done() comes before on_closed(). */
    if (o->is_closing && list_is_empty(&o->ops) && list_is_empty(&o->inner))
        rt_defer(&o->loop->rt, &o->closed, on_closed_task);
}

void oci_finish(struct oci *o, struct op *op, int result, const struct err *err)
{
    op_finish(op, result, err);
    oci_settle(o);
}

void oci_wake(struct oci *o)
{
    struct list woken;

    list_move(&o->waiters, &woken);
    while (!list_is_empty(&woken)) {
        struct oci_waiter *w = container_of(list_pop_front(&woken), struct oci_waiter, link);

        w->resume(w);
    }
}

static int oci_open(const struct backend_env *env, const struct config_profile *profile UNUSED,
                    struct backend **ret, struct err *err)
{
    struct oci *o = xcalloc(1, sizeof(*o));
    int rc;

    o->base.ops = &oci_ops;
    o->loop = env->loop;
    o->http = env->http;
    o->events = env->events;
    str_copy_cut(o->instance, sizeof(o->instance), env->instance);
    list_init(&o->ops);
    list_init(&o->inner);
    list_init(&o->box_list);
    for (int turn = 0; turn < OCI_TURN_COUNT; turn++)
        list_init(&o->waiting[turn]);
    list_init(&o->waiters);
    list_init(&o->record_writes);
    list_init(&o->pulls);
    map_init(&o->boxes, env->config->pool.max_boxes);
    rc = oci_setup(o, env, err);
    if (rc != SP_OK) {
        map_fini(&o->boxes);
        free(o->id_used);
        free(o->id_lived);
        free(o);
        return rc;
    }
    *ret = &o->base;
    return SP_OK;
}

/* A removal that is cut off is done again by the next start. Nobody is served meanwhile. */
static void on_close_timer(struct rt_timer *timer)
{
    op_cancel_all(&container_of(timer, struct oci, close_timer)->inner);
}

/* A base that is cut off leaves files of other ids, which an ordinary user cannot remove. */
static void on_close_grace(struct rt_timer *timer)
{
    struct oci *o = container_of(timer, struct oci, close_timer);

    if (o->is_base_asked && str_is_empty(o->base_dir) && o->base_err.code == SP_OK)
        rt_timer_set(&o->loop->rt, timer, rt_after(rt_now(&o->loop->rt), CLOSE_BASE_NS),
                     on_close_timer);
    else
        on_close_timer(timer);
}

static void oci_close(struct backend *backend, void (*on_closed)(void *ctx), void *ctx)
{
    struct oci *o = oci_of(backend);

    assert(!o->is_closing);
    o->on_closed = on_closed;
    o->ctx = ctx;
    o->is_closing = true;
    op_cancel_all(&o->ops);
    oci_pulls_cancel(o);
    /* Removals that have begun may end; the next start sees to the others. */
    oci_hands_cancel_waiting(o);
    rt_timer_set(&o->loop->rt, &o->close_timer, rt_after(rt_now(&o->loop->rt), CLOSE_GRACE_NS),
                 on_close_grace);
    oci_settle(o);
}

static const char *oci_disk_dir(struct backend *backend)
{
    return oci_of(backend)->boxes_dir;
}

const struct backend_ops oci_ops = {
    .name = "oci",
    .is_local = true,
    .is_watched = true,
    .can_discover = true,
    .can_bind = true,
    .late = BACKEND_LATE_ALL,
    .open = oci_open,
    .close = oci_close,
    .create = oci_create,
    .destroy = oci_destroy,
    .is_alive = oci_is_alive,
    .discover = oci_discover,
    .list = oci_list,
    .bind = oci_bind,
    .update = oci_update,
    .disk_dir = oci_disk_dir,
    .trouble = oci_trouble,
    .examine = oci_examine,
};
