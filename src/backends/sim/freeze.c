/* freeze.c - a box stands still, or goes on. Only the machine in this process can do that. */
#include "backends/sim/internal.h"

void sim_freeze(struct backend *b, struct backend_freeze *r, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    struct world_box *box = world_find(&s->world, r->box.labels.box_id);
    struct err err;
    int rc = SP_OK;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    if (box != NULL)
        box->is_frozen = r->is_frozen;
    else
        rc = err_set(&err, ERR_BOX_DEAD, "there is no such box");
    sim_finish(s, &r->op, rc, &err);
}
