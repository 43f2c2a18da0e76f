/* egress.c - what a running box may reach is changed: by sandpool-helper, in the box's resolver and in its rules. */
#include <stdlib.h>

#include "backends/oci/internal.h"
#include "base/mem.h"

enum { PLAN_MAX = 16 * 1024 };

/* `priv` of the request. */
struct changing {
    struct oci_helper helper;
    struct oci *oci;
    struct backend_egress *request;
};

const char *oci_allowed(struct backend *backend, uint64_t box_id)
{
    const struct oci_box *b = oci_box_find(oci_of(backend), box_id);

    return b != NULL && b->entry.state == BOX_RUNNING ? b->egress : NULL;
}

static void on_changed(struct op *op)
{
    struct changing *c = container_of(op, struct changing, helper.op);
    struct backend_egress *r = c->request;
    struct oci *o = c->oci;
    struct oci_box *b = oci_box_find(o, r->box.labels.box_id);

    if (op->result == SP_OK && b != NULL) {
        free(b->egress);
        b->egress = xstrdup(r->allow);
    }
    r->priv = NULL;
    oci_helper_fini(&c->helper);
    closing_finish(&o->closing, &r->op, op->result, &op->err);
    free(c);
}

static void on_cancel(struct op *op)
{
    struct changing *c = container_of(op, struct backend_egress, op)->priv;

    op_cancel(&c->helper.op);
}

void oci_egress(struct backend *backend, struct backend_egress *r, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct changing *c = xcalloc(1, sizeof(*c));

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, on_cancel, on_done);
    c->oci = o;
    c->request = r;
    r->priv = c;
    buf_init(&c->helper.plan, PLAN_MAX);
    oci_plan_egress(o, r->box.labels.box_id, r->allow, &c->helper.plan);
    c->helper.verb = "egress";
    c->helper.pass_fd = -1;
    oci_helper_start(o, &c->helper, RT_NEVER, on_changed);
}
