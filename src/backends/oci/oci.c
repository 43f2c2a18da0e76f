/* oci.c - the `oci` backend: opened, closed, and its vtable. */
#include "backends/oci/oci.h"

#include <stdlib.h>

#include "backends/oci/internal.h"
#include "base/mem.h"
#include "base/str.h"
#include "helper/plan.h"

#define CLOSE_GRACE_NS (1 * NS_PER_S)
#define CLOSE_BASE_NS (10 * NS_PER_S) /* while the base is made, which happens once after a start */

static void free_tables(struct oci *o)
{
    oci_snapshots_close(o);
    reclaims_fini(&o->reclaims);
    boxes_fini(&o->boxes);
    free(o->id_used);
    free(o->id_lived);
    free(o);
}

static bool free_owner(struct closing *c)
{
    struct oci *o = container_of(c, struct oci, closing);

    if (oci_rootless_clean(o))
        return false;
    while (!list_is_empty(&o->boxes.all))
        oci_box_drop(container_of(list_first(&o->boxes.all), struct oci_box, entry.link));
    oci_remove_cgroup_parent(o);
    free_tables(o);
    return true;
}

void oci_wake(struct oci *o)
{
    struct list woken;

    list_move(&o->waiters, &woken);
    waiter_resume_all(&woken);
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
    closing_init(&o->closing, &o->loop->rt, free_owner);
    for (int turn = 0; turn < OCI_TURN_COUNT; turn++)
        list_init(&o->waiting[turn]);
    list_init(&o->waiters);
    list_init(&o->keep_waiters);
    list_init(&o->record_writes);
    list_init(&o->pulls);
    boxes_init(&o->boxes, &o->closing, env->config->pool.max_boxes);
    o->reclaims = (struct reclaims){.loop = o->loop, .closing = &o->closing, .helper = o->helper};
    reclaims_open(&o->reclaims);
    o->snapshots.reserve = env->config->store.min_free;
    rc = oci_setup(o, env, err);
    if (rc == SP_OK)
        rc = oci_snapshots_open(o, err);
    if (rc != SP_OK) {
        free_tables(o);
        return rc;
    }
    oci_hoard_open(o, env->config->oci.kernel_memory);
    *ret = &o->base;
    return SP_OK;
}

/* A base that is cut off leaves files of other ids, which an ordinary user cannot remove. A removal that is cut off is
 * done again by the next start. */
static void on_limit(struct closing *c)
{
    struct oci *o = container_of(c, struct oci, closing);

    c->on_limit = NULL;
    closing_extend(c, o->is_base_asked && str_is_empty(o->base_dir) && o->base_err.code == SP_OK
                          ? CLOSE_BASE_NS
                          : 0);
}

static void oci_close(struct backend *backend, void (*on_closed)(void *ctx), void *ctx)
{
    struct oci *o = oci_of(backend);

    kernel_watch_close(&o->kernel_watch);
    reclaims_close(&o->reclaims);
    o->closing.on_limit = on_limit;
    closing_begin(&o->closing, CLOSE_GRACE_NS, on_closed, ctx);
    oci_pulls_cancel(o);
    oci_flatten_cancel(o);
    /* Removals that have begun may end; the next start sees to the others. */
    oci_helper_cancel_waiting(o);
}

static const char *oci_disk_dir(struct backend *backend)
{
    return oci_of(backend)->boxes_dir;
}

/* Boxes of an older version have none. */
static bool oci_local(struct backend *backend, uint64_t box_id, char *dst, size_t cap)
{
    struct oci *o = oci_of(backend);
    const struct oci_box *b = oci_box_find(o, box_id);
    char hex[17];

    if (b == NULL || !b->has_local || b->entry.state != BOX_RUNNING)
        return false;
    str_hex64(hex, box_id);
    return (size_t) snprintf(dst, cap, "%s/%s/" HELPER_LOCAL_SOCKET, o->boxes_dir, hex) < cap;
}

const struct backend_ops oci_ops = {
    .name = CONFIG_BACKEND_OCI,
    .is_local = true,
    .is_watched = true,
    .counts_ended = true,
    .may_leave_frozen = true,
    .can_discover = true,
    .can_bind = true,
    .late = BACKEND_LATE_ALL,
    .at_create = BACKEND_SNAPSHOT,
    .open = oci_open,
    .close = oci_close,
    .create = oci_create,
    .destroy = oci_destroy,
    .is_alive = oci_is_alive,
    .discover = oci_discover,
    .list = oci_list,
    .bind = oci_bind,
    .egress = oci_egress,
    .allowed = oci_allowed,
    .freeze = oci_freeze,
    .stats = oci_stats,
    .capture = oci_capture,
    .snapshots = oci_list_snapshots,
    .drop = oci_drop,
    .export = oci_export,
    .import = oci_import,
    .update = oci_update,
    .disk_dir = oci_disk_dir,
    .local = oci_local,
    .trouble = oci_trouble,
    .examine = oci_examine,
};
