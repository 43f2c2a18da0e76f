/* docker.c - the `docker` backend: opened, closed, and its vtable. */
#include "backends/docker/docker.h"

#include <stdlib.h>

#include "backends/docker/internal.h"
#include "backends/docker/stats.h"
#include "base/mem.h"
#include "base/str.h"

void docker_notify(struct docker *d, const struct backend_notice *n)
{
    if (!d->closing.is_closing && d->events != NULL && d->events->on_notice != NULL)
        d->events->on_notice(d->events->ctx, n);
}

/* --- open and close --- */

static bool free_owner(struct closing *c)
{
    struct docker *d = container_of(c, struct docker, closing);

    while (!list_is_empty(&d->boxes.all))
        docker_box_drop(container_of(list_first(&d->boxes.all), struct docker_box, entry.link));
    call_fini(&d->hello);
    call_fini(&d->watch.call);
    docker_prefetch_free(d);
    docker_adopt_free(d);
    docker_remove_group(d);
    boxes_fini(&d->boxes);
    docker_hoard_fini(d);
    reclaims_fini(&d->reclaims);
    docker_unclaim(d);
    free(d->old);
    free(d->unfinished);
    free(d);
    return true;
}

static const struct backend_ops mountless_ops;

static int docker_open(const struct backend_env *env, const struct config_profile *profile,
                       struct backend **ret, struct err *err)
{
    struct docker *d = xcalloc(1, sizeof(*d));
    int rc;

    d->base.ops = &docker_ops;
    d->claim_fd = -1;
    d->loop = env->loop;
    d->http = env->http;
    d->events = env->events;
    str_copy_cut(d->instance, sizeof(d->instance), env->instance);
    closing_init(&d->closing, &d->loop->rt, free_owner);
    list_init(&d->awaiting_version);
    list_init(&d->pulls);
    list_init(&d->wants);
    list_init(&d->adoptions);
    list_init(&d->bindings);
    list_init(&d->captures);
    rc = docker_setup(d, env, profile, err);
    if (rc != SP_OK) {
        free(d->old);
        free(d->unfinished);
        free(d);
        return rc;
    }
    if (docker_mount_check(d, NULL) != SP_OK)
        d->base.ops = &mountless_ops;
    boxes_init(&d->boxes, &d->closing, env->config->pool.max_boxes);
    d->reclaims = (struct reclaims){.loop = d->loop, .closing = &d->closing, .helper = d->helper};
    reclaims_open(&d->reclaims);
    docker_hoard_open(d, env->config, profile->docker.kernel_memory);
    docker_events_start(d);
    *ret = &d->base;
    return SP_OK;
}

static void docker_close(struct backend *backend, void (*on_closed)(void *ctx), void *ctx)
{
    struct docker *d = docker_of(backend);

    docker_events_stop(d);
    kernel_watch_close(&d->kernel_watch);
    reclaims_close(&d->reclaims);
    closing_begin(&d->closing, DOCKER_CLOSE_NS, on_closed, ctx);
    docker_images_cancel(d);
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
    .name = CONFIG_BACKEND_DOCKER, \
    .is_local = true, \
    .is_watched = true, \
    .can_discover = true, \
    .can_bind = true, \
    .put_key = docker_put_key, \
    .late_of = late_of, \
    .at_create = BACKEND_LATE_ALL | BACKEND_SNAPSHOT, \
    .capture = docker_capture, \
    .snapshots = docker_list_snapshots, \
    .drop = docker_drop, \
    .export = docker_export, \
    .import = docker_import, \
    .open = docker_open, \
    .close = docker_close, \
    .prepare = docker_prepare, \
    .create = docker_create, \
    .destroy = docker_destroy, \
    .is_alive = docker_is_alive, \
    .discover = docker_discover, \
    .list = docker_list_boxes, \
    .bind = docker_bind, \
    .freeze = docker_freeze, \
    .stats = docker_stats, \
    .update = docker_update, \
    .examine = docker_examine, \
    .disk_limit = docker_disk_limit, \
    .late = BACKEND_LATE_ENVS | BACKEND_LATE_LIMITS | (how), \
}
/* clang-format on */

const struct backend_ops docker_ops = OPS(BACKEND_LATE_MOUNTS);
/* Of an engine elsewhere, and where the daemon is not root. */
static const struct backend_ops mountless_ops = OPS(0);
