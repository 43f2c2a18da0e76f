/* remote.c - the `remote` backend: opened, closed, and its vtable. */
#include "backends/remote/remote.h"

#include <stdlib.h>

#include "backends/remote/internal.h"
#include "base/mem.h"
#include "base/str.h"

static bool free_owner(struct closing *c)
{
    struct remote *r = container_of(c, struct remote, closing);

    while (!list_is_empty(&r->boxes.all))
        remote_box_drop(container_of(list_first(&r->boxes.all), struct remote_box, entry.link));
    boxes_fini(&r->boxes);
    remote_gone_fini(r);
    free(r);
    return true;
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
    closing_init(&r->closing, &r->loop->rt, free_owner);
    rc = remote_setup(r, env->config, profile, err);
    if (rc != SP_OK) {
        free(r);
        return rc;
    }
    boxes_init(&r->boxes, &r->closing, env->config->pool.max_boxes);
    remote_gone_init(r);
    *ret = &r->base;
    return SP_OK;
}

static void remote_close(struct backend *backend, void (*on_closed)(void *ctx), void *ctx)
{
    closing_begin(&remote_of(backend)->closing, REMOTE_CLOSE_NS, on_closed, ctx);
}

const struct backend_ops remote_ops = {
    .name = CONFIG_BACKEND_REMOTE,
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
    .may_return = remote_may_return,
    .recall = remote_recall,
    .is_gone = remote_is_gone,
    .examine = remote_examine,
};
