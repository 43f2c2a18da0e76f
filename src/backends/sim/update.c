/* update.c - late binding: the machine notes what it was asked for; extras.c says how that goes. */
#include "backends/sim/internal.h"

/* --- the machine in this process --- */

static void end_update(struct sim_wait *w, int result, const struct err *err)
{
    const struct backend_update *r = container_of(w->op, struct backend_update, op);

    if (result == SP_OK)
        sim_write_down(w->sim, r->box.labels.box_id, &r->extras);
    else
        world_update_end(&w->sim->world, r->box.labels.box_id, NULL);
    sim_wait_end(w, result, err);
}

static void on_update_due(struct rt_timer *timer)
{
    struct sim_wait *w = container_of(timer, struct sim_wait, due);
    struct err err = w->err;

    end_update(w, w->result, &err);
}

static void on_update_cancel(struct op *op)
{
    end_update(container_of(op, struct backend_update, op)->priv, SP_CANCELLED, NULL);
}

void sim_update(struct backend *b, struct backend_update *r, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    struct sim_update_manners manners;
    struct sim_wait *w;
    struct err err;
    int rc;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, on_update_cancel, on_done);
    sim_update_manners(&r->extras, &manners);
    rc = world_update_begin(&s->world, r->box.labels.box_id, &err);
    if (rc != SP_OK) {
        sim_finish(s, &r->op, rc, &err);
        return;
    }
    w = sim_wait_until(s, &r->op, rt_after(rt_now(s->rt), manners.update_ms * NS_PER_MS),
                       on_update_due);
    r->priv = w;
    if (manners.error != NULL)
        w->result = err_set(&w->err, sp_error_from_name(manners.error),
                            "the simulated machine was asked to fail");
}

/* --- sandpool-sim --- */

static void on_call_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_update, op)->priv);
}

static void on_updated(struct sim_call *c)
{
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 204, &doc, &err);

    (void) json_doc_free(doc);
    sim_call_end(c, rc, &err);
}

void sim_host_update(struct backend *b, struct backend_update *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(sim_host_of(b), &r->op, deadline_ns, on_call_cancel, on_done, on_updated);
    struct sim_update_manners manners;
    struct json_out o;

    r->priv = c;
    sim_update_manners(&r->extras, &manners);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_u64(&o, "update_ms", manners.update_ms);
    if (manners.error != NULL)
        json_put_str(&o, "error", manners.error);
    sim_put_extras(&o, "extras", &r->extras);
    json_end(&o);
    json_out_finish(&o, &c->body);
    sim_call_box(c, r->box.labels.box_id, "/update");
    sim_call_send(c, "POST");
}
