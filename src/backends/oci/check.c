/* check.c - is_alive: what the table knows, else a look at the box's directory. */
#include <stdlib.h>

#include "backends/oci/internal.h"
#include "base/mem.h"

struct check {
    struct work work;
    struct oci *oci;
    struct backend_check *request;
    struct oci_found found;
};

static int run_check(struct work *w, struct err *err)
{
    struct check *c = container_of(w, struct check, work);

    return oci_look(c->oci->boxes_dir, c->found.id, &c->found, err);
}

static void on_checked(struct op *op)
{
    struct check *c = container_of(op, struct check, work.op);
    struct backend_check *r = c->request;

    r->verdict = c->found.is_running ? BACKEND_ALIVE : BACKEND_DEAD;
    if (c->found.is_unsettled ||
        c->found.has_remains) /* which the next listing keeps for its owner */
        r->verdict = BACKEND_UNKNOWN;
    oci_found_drop(&c->found);
    closing_finish(&c->oci->closing, &r->op, op->result, &op->err);
    free(c);
}

void oci_is_alive(struct backend *backend, struct backend_check *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    const struct oci_box *b = oci_box_find(o, r->box.labels.box_id);
    struct check *c;

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, NULL, on_done);
    if (b != NULL && b->entry.state == BOX_RUNNING) { /* its pidfd would have reported its end */
        r->verdict = BACKEND_ALIVE;
        closing_finish(&o->closing, &r->op, SP_OK, NULL);
        return;
    }
    if (b != NULL && b->is_keeping) { /* what it is by then is reported */
        r->verdict = BACKEND_UNKNOWN;
        closing_finish(&o->closing, &r->op, SP_OK, NULL);
        return;
    }
    c = xcalloc(1, sizeof(*c));
    c->oci = o;
    c->request = r;
    oci_found_init(&c->found);
    c->found.id = r->box.labels.box_id;
    c->work.run = run_check;
    work_start(o->loop, &c->work, &o->closing.inner, RT_NEVER, on_checked);
}
