/* snapshot_envs.c - a snapshot keeps the variables that its lease was given. Only the box knows them all, so it is asked before
 * the snapshot is made, and they are on the disk before it exists. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "engine/hibernate.h"
#include "engine/internal.h"
#include "engine/snapshot_side.h"
#include "engine/snapshots.h"

#define ASK_NS (10 * NS_PER_S)

static int run_write(struct work *w, struct err *err)
{
    struct engine_capture *c = container_of(w, struct engine_capture, side);

    const struct snapshot_side side = {.used_ms = c->request.snapshot.created_ms,
                                       .envs = c->envs,
                                       .was_unequipped = c->was_unequipped};

    return side_write(c->side_dir, c->request.snapshot.id, &side, err);
}

/* A box that is hibernated goes: its files count for more than its variables. */
static bool is_hibernated_without(struct engine_capture *c, const char *reason)
{
    if (!c->request.snapshot.is_hibernated || c->engine->is_closing)
        return false;
    log_warn("hibernate.envs_lost", LF_HEX("box", c->box.v), LF_STR("reason", reason));
    free(TAKE_PTR(c->envs));
    snapshots_capture(c);
    return true;
}

static void on_written(struct op *op)
{
    struct engine_capture *c = container_of(op, struct engine_capture, side.op);

    struct err closing;

    if (c->engine->is_closing) { /* its backend may be closed by now */
        snapshots_not_captured(c, err_set(&closing, SP_DRAINING, "the daemon is stopping"),
                               &closing);
        return;
    }
    if (op->result == SP_OK) {
        snapshots_capture(c);
        return;
    }
    side_remove(c->engine, c->request.snapshot.id);
    if (!is_hibernated_without(c, op->err.msg))
        snapshots_not_captured(c, op->result, &op->err);
}

static void start_write(struct engine_capture *c)
{
    side_dir(c->engine, c->side_dir);
    c->side.run = run_write;
    work_start(c->engine->loop, &c->side, NULL, RT_NEVER, on_written);
}

static bool lacks_room(const struct engine_capture *c)
{
    return c->request.snapshot.is_hibernated && c->envs != NULL &&
           !share_holds_envs(c->engine, c->request.snapshot.principal, share_env_bytes(c->envs));
}

static void on_asked(struct op *op)
{
    struct engine_capture *c = container_of(op, struct engine_capture, env.request.op);
    struct err err;
    int rc = agent_env_take(&c->env, &c->envs, &err);

    if (rc != SP_OK && is_hibernated_without(c, err.msg))
        return;
    if (rc == SP_OK && lacks_room(c) &&
        is_hibernated_without(c, "its caller has more of them than its share of "
                                 "snapshots.hibernated_envs"))
        return;
    if (rc == SP_OK && c->engine->is_closing)
        rc = err_set(&err, SP_DRAINING, "the daemon is stopping");
    if (rc != SP_OK) {
        (void) err_wrap(&err, "the variables of the box");
        snapshots_not_captured(c, rc, &err);
        return;
    }
    if (c->envs == NULL)
        snapshots_capture(c);
    else
        start_write(c);
}

void capture_ask_envs(struct engine_capture *c)
{
    struct engine *e = c->engine;
    const struct engine_snapshot *from = c->request.snapshot.is_hibernated
                                             ? hibernate_source(e, pool_find_box(e->pool, c->box))
                                             : NULL;

    if (from != NULL && from->envs != NULL) { /* the box does not have them yet */
        c->envs = backend_extras_copy(from->envs);
        c->was_unequipped = true;
        start_write(c);
        return;
    }
    agent_env_ask(e->http, &c->env, &c->request.box, rt_after(rt_now(e->rt), ASK_NS), on_asked);
}
