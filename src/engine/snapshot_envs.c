/* snapshot_envs.c - a snapshot keeps the variables that its lease was given. Only the box knows them all, so it is asked before
 * the snapshot is made, and they are on the disk before it exists. */
#include "engine/internal.h"
#include "engine/snapshot_side.h"
#include "engine/snapshots.h"

#define ASK_NS (10 * NS_PER_S)

static int run_write(struct work *w, struct err *err)
{
    struct engine_capture *c = container_of(w, struct engine_capture, side);

    return side_write(c->side_dir, c->request.snapshot.id, c->envs, c->request.snapshot.created_ms,
                      err);
}

static void on_written(struct op *op)
{
    struct engine_capture *c = container_of(op, struct engine_capture, side.op);

    if (op->result == SP_OK)
        snapshots_capture(c);
    else
        snapshots_not_captured(c, op->result, &op->err);
}

static void on_asked(struct op *op)
{
    struct engine_capture *c = container_of(op, struct engine_capture, env.request.op);
    struct err err;
    int rc = agent_env_take(&c->env, &c->envs, &err);

    if (rc == SP_OK && c->engine->is_closing)
        rc = err_set(&err, SP_DRAINING, "the daemon is stopping");
    if (rc != SP_OK) {
        (void) err_wrap(&err, "the variables of the box");
        snapshots_not_captured(c, rc, &err);
        return;
    }
    if (c->envs == NULL) {
        snapshots_capture(c);
        return;
    }
    side_dir(c->engine, c->side_dir);
    c->side.run = run_write;
    work_start(c->engine->loop, &c->side, NULL, RT_NEVER, on_written);
}

void capture_ask_envs(struct engine_capture *c)
{
    struct engine *e = c->engine;

    agent_env_ask(e->http, &c->env, &c->request.box, rt_after(rt_now(e->rt), ASK_NS), on_asked);
}
