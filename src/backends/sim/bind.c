/* bind.c - the owner of a box. */
#include "backends/sim/internal.h"
#include "sim/wire.h"

/* --- the machine in this process --- */

void sim_bind(struct backend *b, struct backend_bind *r, uint64_t deadline_ns,
              void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    struct world_spec spec;
    struct err err;
    int rc;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    sim_spec_from_labels(&r->box.labels, "", &spec);
    rc = world_bind(&s->world, &spec, &err);
    sim_finish(s, &r->op, rc, &err);
}

/* --- sandpool-sim --- */

static void on_call_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_bind, op)->priv);
}

static void on_bound(struct sim_call *c)
{
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 200, &doc, &err);

    (void) json_doc_free(doc);
    sim_call_end(c, rc, &err);
}

void sim_host_bind(struct backend *b, struct backend_bind *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(sim_host_of(b), &r->op, deadline_ns, on_call_cancel, on_done, on_bound);
    struct world_spec spec;
    struct json_out o;

    r->priv = c;
    sim_spec_from_labels(&r->box.labels, "", &spec);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    wire_put_box(&o, &spec, NULL);
    json_end(&o);
    json_out_finish(&o, &c->body);
    sim_call_box(c, r->box.labels.box_id, "/bind");
    sim_call_send(c, "POST");
}
