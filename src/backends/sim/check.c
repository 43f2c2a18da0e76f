/* check.c - does a box live? */
#include "backends/sim/internal.h"

/* --- the machine in this process --- */

void sim_is_alive(struct backend *b, struct backend_check *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    bool is_there = world_find(&s->world, r->box.labels.box_id) != NULL;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    r->verdict = is_there ? BACKEND_ALIVE : BACKEND_DEAD;
    sim_finish(s, &r->op, SP_OK, NULL);
}

/* --- sandpool-sim --- */

static void on_call_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_check, op)->priv);
}

static void on_checked(struct sim_call *c)
{
    struct backend_check *r = container_of(c->op, struct backend_check, op);
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 200, &doc, &err);

    (void) json_doc_free(doc);
    r->verdict = rc == SP_OK ? BACKEND_ALIVE : rc == SP_NOT_FOUND ? BACKEND_DEAD : BACKEND_UNKNOWN;
    sim_call_end(c, rc == SP_NOT_FOUND ? SP_OK : rc, &err);
}

void sim_host_is_alive(struct backend *b, struct backend_check *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(sim_host_of(b), &r->op, deadline_ns, on_call_cancel, on_done, on_checked);

    r->priv = c;
    r->verdict = BACKEND_UNKNOWN;
    sim_call_box(c, r->box.labels.box_id, "");
    sim_call_send(c, "GET");
}
