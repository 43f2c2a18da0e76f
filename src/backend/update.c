/* update.c - the course of an update(), for every backend that can change a box that runs. */
#include "backend/update.h"

#include <assert.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/compiler.h"

static void finish(struct updating *u, int rc, const struct err *err)
{
    struct backend_update *r = u->request;

    r->priv = NULL;
    closing_finish(u->closing, &r->op, rc, err); /* `err` may be in what is freed now */
    if (u->ops->fini != NULL)
        u->ops->fini(u);
    agent_env_fini(&u->env);
    free(u);
}

static void on_env_set(struct op *op)
{
    struct updating *u = container_of(op, struct updating, env.request.op);
    struct err err;
    int rc = agent_env_result(&u->env, &err);

    updating_next(u, rc, &err);
}

static bool has_work(const struct updating *u, enum updating_step step)
{
    unsigned kinds = backend_extras_kinds(&u->request->extras);

    switch (step) {
    case UPDATING_LIMITS:
        return u->ops->has_look || (kinds & BACKEND_LATE_LIMITS) != 0;
    case UPDATING_MOUNTS:
        return (kinds & BACKEND_LATE_MOUNTS) != 0;
    case UPDATING_ENVS:
        return (kinds & BACKEND_LATE_ENVS) != 0;
    case UPDATING_BEGUN:
    case UPDATING_DONE:
        break;
    }
    return true;
}

/* Deadlines are our own, and end what runs by a cancel. */
static void tick(struct updating *u)
{
    switch (u->step) {
    case UPDATING_LIMITS:
        u->ops->limit(u);
        return;
    case UPDATING_MOUNTS:
        u->ops->mount(u);
        return;
    case UPDATING_ENVS:
        u->at_work = &u->env.request.op;
        agent_env_start(u->http, &u->env, u->box, &u->request->extras, RT_NEVER, on_env_set);
        return;
    case UPDATING_DONE:
        finish(u, SP_OK, NULL);
        return;
    case UPDATING_BEGUN:
        break;
    }
    assert(false && "no such step");
}

void updating_next(struct updating *u, int rc, const struct err *err)
{
    u->at_work = NULL;
    if (rc != SP_OK) {
        finish(u, rc, err);
        return;
    }
    do
        u->step++;
    while (!has_work(u, u->step));
    if (u->step != UPDATING_DONE && u->request->op.state == OP_CANCELING)
        finish(u, SP_CANCELLED, NULL);
    else
        tick(u);
}

static void on_cancel(struct op *op)
{
    const struct updating *u = container_of(op, struct backend_update, op)->priv;

    if (u->at_work != NULL && op_is_active(u->at_work))
        op_cancel(u->at_work);
}

void updating_begin(struct updating *u, const struct updating_ops *ops, struct backend_update *r,
                    struct closing *closing, struct httpc *http, uint64_t deadline_ns,
                    void (*on_done)(struct op *))
{
    u->ops = ops;
    u->request = r;
    u->closing = closing;
    u->http = http;
    u->box = &r->box;
    r->priv = u;
    op_begin(&r->op, closing->rt, &closing->ops, deadline_ns, on_cancel, on_done);
}
