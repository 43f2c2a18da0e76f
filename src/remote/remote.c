/* remote.c - the `remote` backend: opened, closed, and its vtable. */
#include "remote/remote.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "remote/internal.h"

static bool is_idle(const struct remote *r)
{
    return list_is_empty(&r->ops) && list_is_empty(&r->inner) && list_is_empty(&r->pauses);
}

static void on_closed_task(struct rt_task *task)
{
    struct remote *r = container_of(task, struct remote, closed);
    void (*on_closed)(void *ctx) = r->on_closed;
    void *ctx = r->ctx;

    if (!is_idle(r))
        return; /* a completion that was under way has begun something: its end comes back here */
    while (!list_is_empty(&r->box_list))
        remote_box_drop(container_of(list_first(&r->box_list), struct remote_box, link));
    rt_timer_cancel(&r->loop->rt, &r->close_limit);
    map_fini(&r->boxes);
    remote_gone_fini(r);
    free(r);
    on_closed(ctx);
}

void remote_settle(struct remote *r)
{
    /* Deferred after the last completion, so every on_done() comes before on_closed(). */
    if (r->is_closing && is_idle(r))
        rt_defer(&r->loop->rt, &r->closed, on_closed_task);
}

void remote_finish(struct remote *r, struct op *op, int result, const struct err *err)
{
    op_finish(op, result, err);
    remote_settle(r);
}

static int remote_open(const struct backend_env *env, const struct config_profile *profile,
                       struct backend **ret, struct err *err)
{
    struct remote *r = xcalloc(1, sizeof(*r));
    int rc;

    r->base.ops = &remote_ops;
    r->loop = env->loop;
    r->http = env->http;
    str_copy_cut(r->instance, sizeof(r->instance), env->instance);
    list_init(&r->ops);
    list_init(&r->inner);
    list_init(&r->pauses);
    list_init(&r->box_list);
    rc = remote_setup(r, env->config, profile, err);
    if (rc != SP_OK) {
        free(r);
        return rc;
    }
    map_init(&r->boxes, env->config->pool.max_boxes);
    remote_gone_init(r);
    *ret = &r->base;
    return SP_OK;
}

static void on_close_limit(struct rt_timer *timer)
{
    struct remote *r = container_of(timer, struct remote, close_limit);

    /* The provisioner is stuck. What it does in the end is found by the next start. */
    op_cancel_all(&r->inner);
    rt_timer_set(&r->loop->rt, &r->close_limit, rt_after(rt_now(&r->loop->rt), NS_PER_S / 10),
                 on_close_limit);
}

static void remote_close(struct backend *backend, void (*on_closed)(void *ctx), void *ctx)
{
    struct remote *r = remote_of(backend);

    assert(!r->is_closing);
    r->on_closed = on_closed;
    r->ctx = ctx;
    r->is_closing = true;
    op_cancel_all(&r->ops);
    op_cancel_all(&r->pauses);
    rt_timer_set(&r->loop->rt, &r->close_limit, rt_after(rt_now(&r->loop->rt), REMOTE_CLOSE_NS),
                 on_close_limit);
    remote_settle(r);
}

const struct backend_ops remote_ops = {
    .name = "remote",
    .is_local = false,
    .is_watched = false,
    .can_discover = true,
    .can_bind = false,
    .late = BACKEND_LATE_ENVS,
    .at_create = BACKEND_LATE_MOUNTS,
    .open = remote_open,
    .close = remote_close,
    .prepare = remote_prepare,
    .create = remote_create,
    .destroy = remote_destroy,
    .is_alive = remote_is_alive,
    .discover = remote_discover,
    .list = remote_list,
    .update = remote_update,
    .examine = remote_examine,
};
