/* hibernate_destroy.c - a hibernated sandbox is not wanted any more: its owner, or an operator, destroys it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/hibernate.h"
#include "engine/internal.h"

struct destroying {
    struct engine *engine;
    struct req_id req;
    struct pool_box box; /* as it is reported */
};

static void on_destroyed(void *ctx, int code, const char *reason)
{
    struct destroying *d = ctx;
    struct engine_call *call = engine_call_find(d->engine, d->req);
    struct pool_fx fx = {.kind = POOL_FX_REPLY, .req = d->req, .snapshot = d->box};

    fx.u.reply.code = code;
    str_copy_cut(fx.reason, sizeof(fx.reason), reason);
    if (call != NULL)
        engine_call_end(d->engine, call, &fx);
    free(d);
}

static void describe(struct engine *e, const struct snapshot *s, struct pool_box *ret)
{
    int profile = pool_profile_index(e->pool, s->profile);

    ret->state = POOL_FREE;
    ret->end = POOL_END_DESTROYED;
    ret->profile = profile >= 0 ? (unsigned) profile : 0;
    ret->generation = s->generation;
    ret->principal = s->principal;
    ret->expires_ns = POOL_NEVER;
    ret->idle_ns = POOL_NEVER;
    str_copy_cut(ret->sandbox_id, sizeof(ret->sandbox_id), s->sandbox_id);
    str_copy_cut(ret->user, sizeof(ret->user), s->user);
    str_copy_cut(ret->thread, sizeof(ret->thread), s->thread);
}

bool hibernate_destroy(struct engine *e, struct engine_call *call, const struct pool_event *ev)
{
    bool is_destroy =
        ev->kind == POOL_EV_DESTROY || (ev->kind == POOL_EV_RELEASE && ev->u.on.want_destroy);
    struct engine_snapshot *s =
        is_destroy && ev->box.v == 0 ? engine_hibernated_find(e, ev->u.on.sandbox_id) : NULL;
    struct destroying *d;

    if (s == NULL || pool_find_sandbox(e->pool, ev->u.on.sandbox_id) != NULL ||
        (s->info.principal != ev->u.on.principal && !ev->u.on.is_operator))
        return false;
    if (ev->u.on.generation != 0 && ev->u.on.generation != s->info.generation) {
        hibernate_refuse(e, call->req, SP_STALE_GENERATION,
                         sp_error_info(SP_STALE_GENERATION)->text);
        return true;
    }
    d = xcalloc(1, sizeof(*d));
    d->engine = e;
    d->req = call->req;
    describe(e, &s->info, &d->box);
    engine_snapshot_drop(e, s, on_destroyed, d);
    return true;
}
