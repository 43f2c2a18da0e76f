/* freeze.c - a box stands still, or goes on: the engine pauses its container. One that is parked then gives its memory back,
 * where the engine's processes can be seen. */
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/mem.h"
#include "base/str.h"

/* On a busy machine runtimes give up when a control group does not stand still at once. */
enum { TRIES = 3 };

/* `priv` of the request. */
struct freezing {
    struct call call;
    struct call look; /* it was refused: what is it? */
    struct docker *docker;
    struct backend_freeze *request;
    unsigned tries;
    struct err err;
    char container[DOCKER_CONTAINER_MAX + 1];
};

/* --- its memory --- */

/* Which process it is: the control group is found by it. */
struct seeking {
    struct call call;
    struct docker *docker;
    uint64_t box_id;
    char container[DOCKER_CONTAINER_MAX + 1];
};

static void reclaim(struct docker *d, uint64_t box_id, const char *container, uint64_t pid)
{
    struct json_out j;
    struct buf plan;

    buf_init(&plan, 1024);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "container", container);
    json_put_u64(&j, "pid", pid);
    json_end(&j);
    json_out_finish(&j, &plan);
    reclaims_add(&d->reclaims, box_id, &plan);
}

static void on_sought(struct op *op)
{
    struct seeking *s = container_of(op, struct seeking, call.op);
    struct docker *d = s->docker;
    struct json_doc *doc = NULL;
    struct err err;
    uint64_t pid = 0;

    if (docker_call_json(&s->call, &doc, &err) == SP_OK &&
        json_u64(json_get(json_get(json_root(doc), "State"), "Pid"), &pid) && pid >= 2)
        reclaim(d, s->box_id, s->container, pid);
    (void) json_doc_free(doc);
    call_fini(&s->call);
    free(s);
    closing_settle(&d->closing);
}

static void seek(struct docker_box *b)
{
    struct docker *d = b->docker;
    struct seeking *s;

    if (docker_mount_check(d, NULL) != SP_OK || d->closing.is_closing || str_is_empty(b->container))
        return;
    if (b->pid != 0) {
        reclaim(d, b->entry.id, b->container, b->pid);
        return;
    }
    s = xcalloc(1, sizeof(*s));
    s->docker = d;
    s->box_id = b->entry.id;
    str_copy_cut(s->container, sizeof(s->container), b->container);
    docker_call_init(d, &s->call, "GET");
    buf_printf(&s->call.path, "/containers/%s/json", s->container);
    docker_call_start(&s->call, RT_NEVER, on_sought);
}

/* --- the pause --- */

static void end(struct freezing *f, int rc, const struct err *err)
{
    struct docker *d = f->docker;
    struct backend_freeze *r = f->request;
    struct docker_box *b = docker_box_find(d, r->box.labels.box_id);

    if (b != NULL && rc != SP_OK && b->is_paused == r->is_frozen)
        b->is_paused = !r->is_frozen;
    if (b != NULL && rc == SP_OK && r->is_frozen && r->is_unused)
        seek(b);
    r->priv = NULL;
    closing_finish(&d->closing, &r->op, rc, err);
    call_fini(&f->call);
    call_fini(&f->look);
    free(f);
}

static void try_it(struct freezing *f);

/* It runs, and is not as it should be: it may have been too busy for that. */
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
    else if (rc == SP_OK && found.is_running && f->tries < TRIES)
        try_it(f);
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
    call_fini(&f->look);
    docker_call_init(d, &f->look, "GET");
    buf_printf(&f->look.path, "/containers/%s/json", f->container);
    docker_call_start(&f->look, RT_NEVER, on_looked);
}

static void try_it(struct freezing *f)
{
    f->tries++;
    call_fini(&f->call);
    docker_call_init(f->docker, &f->call, "POST");
    buf_puts(&f->call.path, "/containers/");
    call_put(&f->call, f->container);
    buf_puts(&f->call.path, f->request->is_frozen ? "/pause" : "/unpause");
    docker_call_start(&f->call, RT_NEVER, on_called);
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
    try_it(f);
}
