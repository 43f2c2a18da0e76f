/* update.c - late binding: limits by the engine, mounts by sandpool-helper, environment by the agent, in this
 * order. The first that fails ends it. */
#include <stdlib.h>

#include "backends/docker/internal.h"
#include "base/fault.h"
#include "base/mem.h"
#include "box/agent_env.h"

enum { CPU_PERIOD_US = 100000 };

/* `priv` of the request. */
struct updating {
    struct docker *docker;
    struct backend_update *request;
    struct call call;
    struct docker_mounting mounting;
    struct agent_env env;
};

static void finish(struct updating *u, int rc, const struct err *err)
{
    struct docker *d = u->docker;
    struct backend_update *r = u->request;

    r->priv = NULL;
    closing_finish(&d->closing, &r->op, rc, err);
    call_fini(&u->call);
    docker_mount_fini(&u->mounting);
    agent_env_fini(&u->env);
    free(u);
}

/* --- environment --- */

static void on_env_set(struct op *op)
{
    struct updating *u = container_of(op, struct updating, env.request.op);
    struct err err;
    int rc = agent_env_result(&u->env, &err);

    finish(u, rc, &err);
}

static void set_env(struct updating *u)
{
    const struct backend_update *r = u->request;

    if (r->extras.env_count == 0)
        finish(u, SP_OK, NULL);
    else /* our own deadline cancels it */
        agent_env_start(u->docker->http, &u->env, &r->box, &r->extras, RT_NEVER, on_env_set);
}

/* --- mounts --- */

static void on_mounted(struct op *op)
{
    struct updating *u = container_of(op, struct updating, mounting.op);

    if (op->result != SP_OK)
        finish(u, op->result, &op->err);
    else if (u->request->op.state == OP_CANCELING)
        finish(u, SP_CANCELLED, NULL);
    else
        set_env(u);
}

static void mount_all(struct updating *u)
{
    struct docker *d = u->docker;
    const struct backend_update *r = u->request;
    const struct docker_box *b = docker_box_find(d, r->box.labels.box_id);
    struct err err;

    if (r->extras.mount_count == 0) {
        set_env(u);
        return;
    }
    if (b == NULL || b->entry.state != BOX_RUNNING) {
        finish(u, err_set(&err, ERR_BOX_DEAD, "the box does not run"), &err);
        return;
    }
    u->mounting.extras = &r->extras;
    u->mounting.has_agent = r->profile != NULL && r->profile->agent == CONFIG_AGENT_INJECT;
    docker_mount_start(d, &u->mounting, b->container, on_mounted);
}

/* --- limits --- */

/* Podman's "no such container" is JSON, its "no such call" is not. */
static bool has_cause(const struct call *c)
{
    return c->http.response.len > 0 && c->http.response.data[0] == '{';
}

static void on_limited(struct op *op)
{
    struct updating *u = container_of(op, struct updating, call.op);
    struct err err;
    int rc = docker_call_result(&u->call, &err);

    FAULT_POINT("docker.after_limits");
    if (rc == SP_NOT_FOUND && u->docker->is_podman && !has_cause(&u->call))
        rc = err_set(&err, SP_UNSUPPORTED, "Podman before 4.3 cannot change limits");
    else if (rc == SP_NOT_FOUND)
        rc = err_set(&err, ERR_BOX_DEAD, "the box does not run");
    if (rc != SP_OK)
        finish(u, rc, &err);
    else if (u->request->op.state == OP_CANCELING)
        finish(u, SP_CANCELLED, NULL);
    else
        mount_all(u);
}

static void put_limits(struct json_out *j, const struct backend_extras *x)
{
    if (x->memory > 0) {
        json_put_u64(j, "Memory", x->memory);
        json_put_u64(j, "MemorySwap", x->memory);
    }
    if (x->cpus > 0)
        json_put_u64(j, "NanoCpus", x->cpus * 1000000);
    if (x->pids > 0)
        json_put_u64(j, "PidsLimit", x->pids);
}

/* Podman knows the call only among its own, with the words of an OCI runtime. */
static void put_podman_limits(struct json_out *j, const struct backend_extras *x)
{
    if (x->memory > 0) {
        json_begin_obj(j, "memory");
        json_put_u64(j, "limit", x->memory);
        json_put_u64(j, "swap", x->memory);
        json_end(j);
    }
    if (x->cpus > 0) {
        json_begin_obj(j, "cpu");
        json_put_u64(j, "quota", x->cpus * (CPU_PERIOD_US / 1000));
        json_put_u64(j, "period", CPU_PERIOD_US);
        json_end(j);
    }
    if (x->pids > 0) {
        json_begin_obj(j, "pids");
        json_put_u64(j, "limit", x->pids);
        json_end(j);
    }
}

static void set_limits(struct updating *u, const char *container)
{
    bool is_podman = u->docker->is_podman;
    struct json_out j;

    docker_call_init(u->docker, &u->call, "POST");
    buf_printf(&u->call.path, "%s/containers/%s/update", is_podman ? "/libpod" : "", container);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    if (is_podman)
        put_podman_limits(&j, &u->request->extras);
    else
        put_limits(&j, &u->request->extras);
    json_end(&j);
    json_out_finish(&j, &u->call.body);
    docker_call_start(&u->call, RT_NEVER, on_limited);
}

static void on_cancel(struct op *op)
{
    struct updating *u = container_of(op, struct backend_update, op)->priv;

    if (op_is_active(&u->call.op))
        op_cancel(&u->call.op);
    else if (op_is_active(&u->mounting.op))
        op_cancel(&u->mounting.op);
    else
        op_cancel(&u->env.request.op);
}

void docker_update(struct backend *backend, struct backend_update *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    const struct docker_box *b = docker_box_find(d, r->box.labels.box_id);
    const struct backend_extras *x = &r->extras;
    struct updating *u = xcalloc(1, sizeof(*u));
    struct err err;

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_cancel, on_done);
    u->docker = d;
    u->request = r;
    r->priv = u;
    if (b == NULL || b->entry.state != BOX_RUNNING)
        finish(u, err_set(&err, ERR_BOX_DEAD, "the box does not run"), &err);
    else if (x->mount_count > 0 && docker_mount_check(d, &err) != SP_OK)
        finish(u, err.code, &err);
    else if (x->env_count > 0 &&
             (b->is_foreign || (r->profile != NULL && r->profile->agent == CONFIG_AGENT_IMAGE)))
        finish(u,
               err_set(&err, SP_UNSUPPORTED,
                       "an image that serves the API itself takes no environment once it runs"),
               &err);
    else if (x->memory > 0 || x->cpus > 0 || x->pids > 0)
        set_limits(u, b->container);
    else
        mount_all(u);
}
