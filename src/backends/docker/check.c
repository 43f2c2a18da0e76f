/* check.c - is_alive: the engine is asked for the container. No answer is never taken for "no such box". */
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/mem.h"
#include "base/str.h"

/* `priv` of the request. */
struct check {
    struct call call;
    struct docker_list look; /* only when the container is not known */
    struct docker *docker;
    struct backend_check *request;
};

static void end_check(struct check *c, int rc, const struct err *err, enum backend_verdict verdict)
{
    struct backend_check *r = c->request;

    r->verdict = rc == SP_OK ? verdict : BACKEND_UNKNOWN;
    r->priv = NULL;
    closing_finish(&c->docker->closing, &r->op, rc, err);
    call_fini(&c->call);
    docker_list_fini(&c->look);
    free(c);
}

/* A prefix that was taken out of the configuration takes its containers with it. */
static int read_foreign(struct check *c, const struct json *doc, struct docker_found *ret)
{
    const char *name = json_str(json_get(doc, "Name"));

    if (name == NULL || !docker_is_adopted(c->docker, c->request->box.labels.box_id, name))
        return SP_NOT_FOUND;
    docker_read_state(json_get(doc, "State"), ret);
    return SP_OK;
}

static void on_inspected(struct op *op)
{
    struct check *c = container_of(op, struct check, call.op);
    struct json_doc *doc = NULL;
    struct docker_found f;
    struct err err;
    int rc = docker_call_json(&c->call, &doc, &err);

    if (rc == SP_OK && docker_is_foreign(&c->request->box))
        rc = read_foreign(c, json_root(doc), &f);
    else if (rc == SP_OK)
        rc = docker_read_inspect(c->docker, json_root(doc), &f, &err);
    (void) json_doc_free(doc);
    if (rc == SP_NOT_FOUND)
        end_check(c, SP_OK, NULL, BACKEND_DEAD);
    else
        end_check(c, rc, &err, rc == SP_OK && f.is_running ? BACKEND_ALIVE : BACKEND_DEAD);
}

static void on_looked(struct op *op)
{
    struct check *c = container_of(op, struct check, look.op);
    bool is_running = op->result == SP_OK && c->look.count > 0 && c->look.found[0].is_running;

    end_check(c, op->result, &op->err, is_running ? BACKEND_ALIVE : BACKEND_DEAD);
}

static void on_check_cancel(struct op *op)
{
    struct check *c = container_of(op, struct backend_check, op)->priv;

    if (op_is_active(&c->call.op))
        op_cancel(&c->call.op);
    else
        op_cancel(&c->look.op);
}

void docker_is_alive(struct backend *backend, struct backend_check *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    const struct docker_box *b = docker_box_find(d, r->box.labels.box_id);
    const char *container = b != NULL ? b->container : r->box.ref;
    struct check *c = xcalloc(1, sizeof(*c));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_check_cancel, on_done);
    c->docker = d;
    c->request = r;
    r->priv = c;
    if (str_is_empty(container)) {
        c->look.only = r->box.labels.box_id;
        docker_list_start(d, &c->look, RT_NEVER, on_looked);
        return;
    }
    docker_call_init(d, &c->call, "GET");
    buf_puts(&c->call.path, "/containers/");
    call_put(&c->call, container);
    buf_puts(&c->call.path, "/json");
    docker_call_start(&c->call, RT_NEVER, on_inspected);
}
