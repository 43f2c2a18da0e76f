/* update.c - late binding: limits by the engine, mounts by sandpool-helper, environment by the agent, in this
 * order. The first that fails ends it. */
#include "backend/update.h"

#include "backends/docker/internal.h"
#include "base/fault.h"
#include "base/mem.h"

enum { CPU_PERIOD_US = 100000 };

struct docker_updating {
    struct updating common;
    struct docker *docker;
    struct call call;
    struct docker_mounting mounting;
};

static struct docker_updating *own_of(struct updating *u)
{
    return container_of(u, struct docker_updating, common);
}

static void fini(struct updating *u)
{
    struct docker_updating *own = own_of(u);

    call_fini(&own->call);
    docker_mount_fini(&own->mounting);
}

/* --- mounts --- */

static void on_mounted(struct op *op)
{
    struct docker_updating *own = container_of(op, struct docker_updating, mounting.op);

    updating_next(&own->common, op->result, &op->err);
}

static void mount_all(struct updating *u)
{
    struct docker_updating *own = own_of(u);
    const struct backend_update *r = u->request;
    const struct docker_box *b = docker_box_find(own->docker, r->box.labels.box_id);

    if (b == NULL || b->entry.state != BOX_RUNNING) {
        updating_next(u, ERR_BOX_DEAD, NULL);
        return;
    }
    own->mounting.extras = &r->extras;
    own->mounting.has_agent = r->profile != NULL && r->profile->agent == CONFIG_AGENT_INJECT;
    u->at_work = &own->mounting.op;
    docker_mount_start(own->docker, &own->mounting, b->container, on_mounted);
}

/* --- limits --- */

/* Podman's "no such container" is JSON, its "no such call" is not. */
static bool has_cause(const struct call *c)
{
    return c->http.response.len > 0 && c->http.response.data[0] == '{';
}

static void on_limited(struct op *op)
{
    struct docker_updating *own = container_of(op, struct docker_updating, call.op);
    struct err err;
    int rc = docker_call_result(&own->call, &err);

    FAULT_POINT("docker.after_limits");
    if (rc == SP_NOT_FOUND && own->docker->is_podman && !has_cause(&own->call))
        rc = err_set(&err, SP_UNSUPPORTED, "Podman before 4.3 cannot change limits");
    else if (rc == SP_NOT_FOUND)
        rc = err_set(&err, ERR_BOX_DEAD, "the box does not run");
    updating_next(&own->common, rc, &err);
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

static void set_limits(struct updating *u)
{
    struct docker_updating *own = own_of(u);
    const struct docker_box *b = docker_box_find(own->docker, u->request->box.labels.box_id);
    bool is_podman = own->docker->is_podman;
    struct json_out j;

    docker_call_init(own->docker, &own->call, "POST");
    buf_printf(&own->call.path, "%s/containers/%s/update", is_podman ? "/libpod" : "",
               b->container); /* it was there a moment ago */
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    if (is_podman)
        put_podman_limits(&j, &u->request->extras);
    else
        put_limits(&j, &u->request->extras);
    json_end(&j);
    json_out_finish(&j, &own->call.body);
    u->at_work = &own->call.op;
    docker_call_start(&own->call, RT_NEVER, on_limited);
}

static int check(const struct docker *d, const struct docker_box *b, const struct backend_update *r,
                 struct err *err)
{
    const struct backend_extras *x = &r->extras;

    if (b == NULL || b->entry.state != BOX_RUNNING)
        return err_set(err, ERR_BOX_DEAD, "the box does not run");
    if (x->mount_count > 0 && docker_mount_check(d, err) != SP_OK)
        return err->code;
    if (x->env_count > 0 &&
        (b->is_foreign || (r->profile != NULL && r->profile->agent == CONFIG_AGENT_IMAGE)))
        return err_set(err, SP_UNSUPPORTED,
                       "an image that serves the API itself takes no environment once it runs");
    return SP_OK;
}

void docker_update(struct backend *backend, struct backend_update *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    static const struct updating_ops ops = {.limit = set_limits, .mount = mount_all, .fini = fini};
    struct docker *d = docker_of(backend);
    struct docker_updating *own = xcalloc(1, sizeof(*own));
    struct err err;
    int rc = check(d, docker_box_find(d, r->box.labels.box_id), r, &err);

    own->docker = d;
    updating_begin(&own->common, &ops, r, &d->closing, d->http, deadline_ns, on_done);
    updating_next(&own->common, rc, &err);
}
