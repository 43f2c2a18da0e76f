/* fx_backend.c - the short questions and orders to a backend: destroy, discover. Every answer becomes one event with the epoch of its effect. */
#include <stdlib.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/probe.h"
#include "engine/internal.h"

/* --- destroy --- */

struct destroy_op {
    struct backend_destroy destroy;
    struct engine *engine;
    struct engine_config_ref *config;
    uint64_t epoch;
};

static void on_destroyed(struct op *op)
{
    struct destroy_op *d = container_of(op, struct destroy_op, destroy.op);
    struct engine *e = d->engine;
    struct box_id box = {d->destroy.box.labels.box_id};
    struct pool_event ev = {.kind = POOL_EV_DESTROYED, .box = box, .epoch = d->epoch};

    FAULT_POINT("engine.after_destroy");
    ev.u.failed.code = err_for_caller(op->result);
    if (op->result != SP_OK) {
        str_copy_cut(ev.u.failed.reason, sizeof(ev.u.failed.reason), op->err.msg);
        log_warn("box.destroy_failed", LF_HEX("box", box.v), LF_STR("reason", op->err.msg));
    } else {
        report_note(e, box, &d->destroy.released);
    }
    config_ref_put(d->config);
    free(d);
    engine_post(e, &ev);
    /* A box the pool does not know (a late create) has no row whose end would drop its notes. */
    if (pool_find_box(e->pool, box) == NULL)
        note_drop(e, box);
    engine_op_ended(e);
}

void fx_destroy(struct engine *e, const struct pool_fx *fx)
{
    struct backend *backend = e->backends[fx->snapshot.backend].backend;
    struct destroy_op *d = xcalloc(1, sizeof(*d));

    FAULT_POINT("engine.before_destroy");
    update_cancel(e, fx->box);
    d->engine = e;
    d->epoch = fx->epoch;
    d->config = config_ref_get(e->config);
    d->destroy.profile = profiles_of_box(e, &fx->snapshot);
    box_to_backend(e, &fx->snapshot, &d->destroy.box);
    engine_op_begun(e);
    backend->ops->destroy(backend, &d->destroy, fx->deadline_ns, on_destroyed);
}

/* --- discover --- */

struct discover_op {
    struct backend_discover discover;
    struct probe probe;
    uint64_t deadline_ns;
    struct engine *engine;
    unsigned backend;
    struct box_id box;
    uint64_t epoch;
};

static void end_discovery(struct discover_op *d, bool is_unknown, bool is_found)
{
    struct engine *e = d->engine;
    struct pool_event ev = {.kind = POOL_EV_DISCOVERED, .box = d->box, .epoch = d->epoch};

    if (is_found && !seen_from_backend(&d->discover.box, &ev.u.discovered.seen)) {
        is_found = false; /* something runs under the id, but what it is cannot be said */
        is_unknown = true;
    }
    ev.u.discovered.is_unknown = is_unknown;
    ev.u.discovered.is_found = is_found;
    free(d);
    engine_post(e, &ev);
    engine_op_ended(e);
}

static void on_answered(struct op *op)
{
    struct discover_op *d = container_of(op, struct discover_op, probe.op);

    if (op->result != SP_OK)
        log_warn("box.not_adopted", LF_STR("sandbox_id", d->discover.sandbox_id),
                 LF_STR("ref", d->discover.box.ref), LF_STR("reason", op->err.msg));
    str_copy_cut(d->discover.box.life, sizeof(d->discover.box.life), d->probe.life);
    end_discovery(d, false, op->result == SP_OK);
}

static void on_discovered(struct op *op)
{
    struct discover_op *d = container_of(op, struct discover_op, discover.op);
    struct engine *e = d->engine;
    const struct backend_box *box = &d->discover.box;
    bool is_cut_short = e->is_closing && d->discover.want_probe;
    bool is_found = op->result == SP_OK && d->discover.is_found && !is_cut_short;

    if (!is_found || !d->discover.want_probe) {
        end_discovery(d, op->result != SP_OK || is_cut_short, is_found);
        return;
    }
    str_copy_cut(d->probe.url, sizeof(d->probe.url), box->url);
    str_copy_cut(d->probe.token, sizeof(d->probe.token), box->token);
    d->probe.want_life = !e->backends[d->backend].ops->is_watched;
    probe_start(e->http, e->rt, &d->probe, &e->probes, d->deadline_ns, on_answered);
}

void fx_discover(struct engine *e, const struct pool_fx *fx)
{
    struct backend *backend = e->backends[fx->snapshot.backend].backend;
    struct discover_op *d = xcalloc(1, sizeof(*d));

    d->engine = e;
    d->backend = fx->snapshot.backend;
    d->box = fx->box;
    d->epoch = fx->epoch;
    d->deadline_ns = fx->deadline_ns;
    str_copy_cut(d->discover.sandbox_id, sizeof(d->discover.sandbox_id), fx->snapshot.sandbox_id);
    engine_op_begun(e);
    backend->ops->discover(backend, &d->discover, fx->deadline_ns, on_discovered);
}
