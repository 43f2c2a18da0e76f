/* update.c - late binding: variables, if the box has our agent. Mounts and limits are the provisioner's. */
#include <stdlib.h>

#include "backends/remote/internal.h"
#include "base/mem.h"
#include "box/agent_env.h"

/* `priv` of the request. */
struct updating {
    struct agent_env env;
    struct remote *remote;
    struct backend_update *request;
};

static void finish(struct updating *u, int rc, const struct err *err)
{
    struct backend_update *r = u->request;

    r->priv = NULL;
    closing_finish(&u->remote->closing, &r->op, rc, err);
    agent_env_fini(&u->env);
    free(u);
}

static void on_env_set(struct op *op)
{
    struct updating *u = container_of(op, struct updating, env.request.op);
    struct err err;
    int rc = agent_env_result(&u->env, &err);

    finish(u, rc, &err);
}

static void on_cancel(struct op *op)
{
    struct updating *u = container_of(op, struct backend_update, op)->priv;

    op_cancel(&u->env.request.op);
}

void remote_update(struct backend *backend, struct backend_update *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    struct remote *remote = remote_of(backend);
    const struct remote_box *b = remote_box_find(remote, r->box.labels.box_id);
    const struct backend_extras *x = &r->extras;
    struct updating *u = xcalloc(1, sizeof(*u));
    struct err err;

    op_begin(&r->op, &remote->loop->rt, &remote->closing.ops, deadline_ns, on_cancel, on_done);
    u->remote = remote;
    u->request = r;
    r->priv = u;
    if (b != NULL && b->entry.state != BOX_RUNNING)
        finish(u, err_set(&err, ERR_BOX_DEAD, "the box does not run"), &err);
    else if (x->mount_count > 0)
        finish(u, err_set(&err, SP_UNSUPPORTED, "a provisioner mounts nothing into a running box"),
               &err);
    else if (x->memory > 0 || x->cpus > 0 || x->pids > 0)
        finish(u, err_set(&err, SP_UNSUPPORTED, "the provisioner decides the limits of its boxes"),
               &err);
    else if (x->env_count == 0)
        finish(u, SP_OK, NULL);
    else /* our own deadline cancels it */
        agent_env_start(remote->http, &u->env, &r->box, x, RT_NEVER, on_env_set);
}
