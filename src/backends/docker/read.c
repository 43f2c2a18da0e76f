/* read.c - what is asked of boxes that exist: do they live, which are there. No answer of the engine is
 * never taken for "no such box". */
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/mem.h"
#include "base/str.h"

/* --- is it alive --- */

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

/* --- which are there --- */

struct listing {
    struct docker_list list;
    struct docker *docker;
    struct op *op;
    union {
        struct backend_list *list;
        struct backend_discover *discover;
    } for_;
    bool is_discover;
};

static void take(struct listing *l, const struct backend_box *box, bool is_paused)
{
    struct backend_list *r = l->for_.list;

    if (l->is_discover) {
        struct backend_discover *x = l->for_.discover;

        if (strcmp(box->labels.sandbox_id, x->sandbox_id) != 0 ||
            (box->is_foreign && (x->is_found || is_paused || str_is_empty(box->url))))
            return;
        x->is_found = true;
        x->want_probe = box->is_foreign;
        x->box = *box;
        return;
    }
    if (r->boxes == NULL)
        r->boxes = xcalloc(l->list.count, sizeof(r->boxes[0]));
    r->boxes[r->count++] = *box;
}

static void on_listed(struct op *op)
{
    struct listing *l = container_of(op, struct listing, list.op);
    struct docker *d = l->docker;

    for (size_t i = 0; op->result == SP_OK && i < l->list.count; i++) {
        const struct backend_box *box = &l->list.found[i].box;
        const struct docker_box *b = docker_box_find(d, box->labels.box_id);

        if (b != NULL && b->entry.state == BOX_RUNNING && strcmp(b->container, box->ref) == 0)
            take(l, box, l->list.found[i].is_paused);
    }
    closing_finish(&d->closing, l->op, op->result, &op->err);
    docker_list_fini(&l->list);
    free(l);
}

static void start(struct docker *d, struct listing *l, struct op *op)
{
    l->docker = d;
    l->op = op;
    docker_list_start(d, &l->list, RT_NEVER, on_listed);
}

static void on_list_cancel(struct op *op)
{
    struct listing *l = container_of(op, struct backend_list, op)->priv;

    op_cancel(&l->list.op);
}

void docker_list_boxes(struct backend *backend, struct backend_list *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct listing *l = xcalloc(1, sizeof(*l));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_list_cancel, on_done);
    r->boxes = NULL;
    r->count = 0;
    r->priv = l;
    l->for_.list = r;
    start(d, l, &r->op);
}

static void on_discover_cancel(struct op *op)
{
    struct listing *l = container_of(op, struct backend_discover, op)->priv;

    op_cancel(&l->list.op);
}

void docker_discover(struct backend *backend, struct backend_discover *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct listing *l = xcalloc(1, sizeof(*l));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_discover_cancel, on_done);
    r->is_found = false;
    r->want_probe = false;
    r->priv = l;
    l->for_.discover = r;
    l->is_discover = true;
    start(d, l, &r->op);
}
