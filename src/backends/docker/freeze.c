/* freeze.c - a box stands still, or goes on: the engine pauses its container. */
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/mem.h"
#include "base/str.h"

/* `priv` of the request. */
struct freezing {
    struct call call;
    struct call look; /* it was refused: what is it? */
    struct docker *docker;
    struct backend_freeze *request;
    struct err err;
    char container[DOCKER_CONTAINER_MAX + 1];
};

static void end(struct freezing *f, int rc, const struct err *err)
{
    struct docker *d = f->docker;
    struct backend_freeze *r = f->request;
    struct docker_box *b = docker_box_find(d, r->box.labels.box_id);

    if (b != NULL && rc != SP_OK && b->is_paused == r->is_frozen)
        b->is_paused = !r->is_frozen;
    r->priv = NULL;
    closing_finish(&d->closing, &r->op, rc, err);
    call_fini(&f->call);
    call_fini(&f->look);
    free(f);
}

static void on_looked(struct op *op)
{
    struct freezing *f = container_of(op, struct freezing, look.op);
    struct docker_found found = {0};
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&f->look, &doc, &err);

    if (rc == SP_OK)
        docker_read_state(json_get(json_root(doc), "State"), &found);
    (void) json_doc_free(doc);
    if (rc == SP_OK && found.is_running && found.is_paused == f->request->is_frozen)
        end(f, SP_OK, NULL);
    else
        end(f, f->err.code, &f->err);
}

/* Engines refuse it in different words when it is so already. */
static void on_called(struct op *op)
{
    struct freezing *f = container_of(op, struct freezing, call.op);
    struct docker *d = f->docker;
    int rc = docker_call_result(&f->call, &f->err);

    if (rc == SP_OK || op->result != SP_OK || rc == SP_NOT_FOUND) {
        end(f, rc, &f->err);
        return;
    }
    docker_call_init(d, &f->look, "GET");
    buf_printf(&f->look.path, "/containers/%s/json", f->container);
    docker_call_start(&f->look, RT_NEVER, on_looked);
}

static void on_cancel(struct op *op)
{
    struct freezing *f = container_of(op, struct backend_freeze, op)->priv;

    op_cancel(op_is_active(&f->look.op) ? &f->look.op : &f->call.op);
}

void docker_freeze(struct backend *backend, struct backend_freeze *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct docker_box *b = docker_box_find(d, r->box.labels.box_id);
    struct freezing *f = xcalloc(1, sizeof(*f));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_cancel, on_done);
    f->docker = d;
    f->request = r;
    r->priv = f;
    str_copy_cut(f->container, sizeof(f->container), b != NULL ? b->container : r->box.ref);
    if (b != NULL)
        b->is_paused = r->is_frozen; /* it is no notice that the engine's event is of our doing */
    docker_call_init(d, &f->call, "POST");
    buf_puts(&f->call.path, "/containers/");
    call_put(&f->call, f->container);
    buf_puts(&f->call.path, r->is_frozen ? "/pause" : "/unpause");
    docker_call_start(&f->call, RT_NEVER, on_called);
}
