/* fx_create.c - making a box. */
#include <stdlib.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"
#include "engine/snapshots.h"

struct create_op {
    struct backend_create create;
    struct engine *engine;
    struct engine_config_ref *config;
    struct backend_extras *extras;
    unsigned backend;
    uint64_t epoch;
};

static void post_failure(struct engine *e, struct box_id box, uint64_t epoch, int code,
                         const char *reason)
{
    struct pool_event ev = {.kind = POOL_EV_CREATE_FAILED, .box = box, .epoch = epoch};

    ev.u.failed.code = code;
    str_copy_cut(ev.u.failed.reason, sizeof(ev.u.failed.reason), reason);
    engine_post(e, &ev);
}

/* Our own end stopped it, which says nothing about the box: its row stands, and the next start asks
 * the backend. */
static bool is_cut_short(const struct engine *e, const struct op *op)
{
    return e->is_closing && op->result != SP_OK;
}

static void on_created(struct op *op)
{
    struct create_op *c = container_of(op, struct create_op, create.op);
    struct engine *e = c->engine;
    const struct backend_box *made = &c->create.box;
    struct box_id box = {c->create.labels.box_id};
    struct pool_event ev = {.kind = POOL_EV_CREATED, .box = box, .epoch = c->epoch};

    FAULT_POINT("engine.after_create");
    if (op->result == SP_OK) {
        str_copy_cut(ev.u.created.url, sizeof(ev.u.created.url), made->url);
        str_copy_cut(ev.u.created.ref, sizeof(ev.u.created.ref), made->ref);
        ev.u.created.is_ready = made->is_ready;
        ev.u.created.backend = c->backend;
        engine_post(e, &ev);
    } else if (!is_cut_short(e, op)) {
        post_failure(e, box, c->epoch, err_for_caller(op->result), op->err.msg);
    }
    config_ref_put(c->config);
    free(c->extras);
    free(c);
    engine_op_ended(e);
}

/* Takes `extras`. */
static struct backend_extras *with_snapshot(struct backend_extras *extras, const char *id)
{
    struct backend_extras all = {0};
    struct backend_extras *made;

    if (extras != NULL)
        all = *extras;
    all.snapshot = id;
    made = backend_extras_copy(&all);
    free(extras);
    return made;
}

void fx_create(struct engine *e, const struct pool_fx *fx)
{
    const struct pool_box *box = &fx->snapshot;
    const struct config_profile *profile = profiles_config(e, box->profile);
    struct backend *backend = e->backends[box->backend].backend;
    struct backend_box as_backend;
    char lack[POOL_REASON_MAX + 1];
    struct create_op *c;

    if (profile == NULL) {
        post_failure(e, fx->box, fx->epoch, SP_NOT_FOUND,
                     "the profile is gone from the configuration");
        return;
    }
    if (engine_profile_lacks(e, box->profile, lack, sizeof(lack))) {
        post_failure(e, fx->box, fx->epoch, SP_BACKEND_FAILED, lack);
        return;
    }
    space_refresh(e);
    FAULT_POINT("engine.before_create");
    c = xcalloc(1, sizeof(*c));
    c->engine = e;
    c->backend = box->backend;
    c->epoch = fx->epoch;
    c->config = config_ref_get(e->config);
    c->create.profile = profile;
    c->extras = special_take(e, box->id);
    if (!str_is_empty(profile->snapshot) && (c->extras == NULL || c->extras->snapshot == NULL))
        c->extras = with_snapshot(c->extras, profile->snapshot);
    c->create.extras = c->extras;
    box_to_backend(e, box, &as_backend);
    c->create.labels = as_backend.labels;
    str_copy_cut(c->create.token, sizeof(c->create.token), box->token);
    engine_op_begun(e);
    backend->ops->create(backend, &c->create, fx->deadline_ns, on_created);
}
