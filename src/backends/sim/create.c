/* create.c - one box from nothing. The machine in this process decides at once what becomes of it; the operation only
 * waits until its answer is due. */
#include "backends/sim/internal.h"
#include "sim/wire.h"

/* --- the machine in this process --- */

static void on_create_due(struct rt_timer *timer)
{
    struct sim_wait *w = container_of(timer, struct sim_wait, due);

    sim_wait_end(w, w->result, &w->err);
}

static void on_create_cancel(struct op *op)
{
    struct backend_create *r = container_of(op, struct backend_create, op);
    struct sim_wait *w = r->priv;

    r->priv = NULL;
    if (w->can_undo)
        (void) world_destroy(&w->sim->world, r->labels.box_id); /* absent is as good */
    sim_wait_end(w, SP_CANCELLED, NULL);
}

void sim_create(struct backend *b, struct backend_create *r, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    struct world_manners manners;
    struct world_spec spec;
    struct sim_wait *w;
    struct err err = {0};
    uint64_t at_ns;
    bool is_new;
    int rc;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, on_create_cancel, on_done);
    sim_spec_from_labels(&r->labels, r->token, &spec);
    sim_manners_from_profile(r->profile, &manners);
    rc = sim_check_extras(r->extras, &err);
    if (rc != SP_OK) {
        sim_finish(s, &r->op, rc, &err);
        return;
    }
    rc = world_create(&s->world, &spec, &manners, &at_ns, &is_new, &err);
    if (rc == SP_OK && !sim_fill_box(world_find(&s->world, spec.box_id), &r->box))
        rc = err_set(&err, SP_INTERNAL, "a label of the box is too long");
    if (rc == SP_OK && is_new && r->extras != NULL &&
        world_update_begin(&s->world, spec.box_id, &err) == SP_OK)
        sim_write_down(s, spec.box_id, r->extras);
    if (at_ns <= rt_now(s->rt)) {
        sim_finish(s, &r->op, rc, &err);
        return;
    }
    w = sim_wait_until(s, &r->op, at_ns, on_create_due);
    w->can_undo = is_new && at_ns != RT_NEVER;
    w->result = rc;
    w->err = err;
    r->priv = w;
}

/* --- sandpool-sim --- */

static void on_call_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_create, op)->priv);
}

static void on_created(struct sim_call *c)
{
    struct backend_create *r = container_of(c->op, struct backend_create, op);
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 201, &doc, &err);

    if (rc == SP_OK)
        rc = sim_call_get(json_root(doc), &r->box, &err);
    (void) json_doc_free(doc);
    sim_call_end(c, rc, &err);
}

void sim_host_create(struct backend *b, struct backend_create *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(sim_host_of(b), &r->op, deadline_ns, on_call_cancel, on_done, on_created);
    struct sim_update_manners update = {0};
    struct world_manners manners;
    struct world_spec spec;
    struct json_out o;

    r->priv = c;
    if (r->extras != NULL)
        sim_update_manners(r->extras, &update);
    sim_spec_from_labels(&r->labels, r->token, &spec);
    sim_manners_from_profile(r->profile, &manners);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    wire_put_box(&o, &spec, NULL);
    wire_put_manners(&o, &manners);
    if (r->extras != NULL)
        sim_put_extras(&o, "extras", r->extras);
    if (update.error != NULL)
        json_put_str(&o, "error", update.error);
    json_end(&o);
    json_out_finish(&o, &c->body);
    buf_puts(&c->url, "/boxes");
    sim_call_send(c, "POST");
}
