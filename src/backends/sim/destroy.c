/* destroy.c - the end of a box. */
#include "backends/sim/internal.h"
#include "base/str.h"

/* A simulated box has no process, no mount and no file: there is nothing to count. */
static void put_text(struct backend_destroy *r, bool is_removed)
{
    str_copy_cut(r->released.text, sizeof(r->released.text),
                 is_removed ? "the simulated box was removed" : "the box was not there");
}

/* --- the machine in this process --- */

static void destroy_now(struct sim *s, struct backend_destroy *r)
{
    bool is_removed = world_destroy(&s->world, r->box.labels.box_id);

    put_text(r, is_removed);
}

static void on_destroy_due(struct rt_timer *timer)
{
    struct sim_wait *w = container_of(timer, struct sim_wait, due);

    destroy_now(w->sim, container_of(w->op, struct backend_destroy, op));
    sim_wait_end(w, SP_OK, NULL);
}

static void on_destroy_cancel(struct op *op)
{
    sim_wait_end(container_of(op, struct backend_destroy, op)->priv, SP_CANCELLED, NULL);
}

void sim_destroy(struct backend *b, struct backend_destroy *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    uint64_t destroy_ms = r->profile != NULL ? r->profile->sim.destroy_ms : 0;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, on_destroy_cancel, on_done);
    if (destroy_ms > 0) {
        uint64_t at_ns = rt_after(rt_now(s->rt), destroy_ms * NS_PER_MS);

        r->priv = sim_wait_until(s, &r->op, at_ns, on_destroy_due);
        return;
    }
    destroy_now(s, r);
    sim_finish(s, &r->op, SP_OK, NULL);
}

/* --- sandpool-sim --- */

static void on_call_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_destroy, op)->priv);
}

static void on_destroyed(struct sim_call *c)
{
    struct backend_destroy *r = container_of(c->op, struct backend_destroy, op);
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 204, &doc, &err);

    (void) json_doc_free(doc);
    put_text(r, rc == SP_OK);
    sim_call_end(c, rc == SP_NOT_FOUND ? SP_OK : rc, &err);
}

void sim_host_destroy(struct backend *b, struct backend_destroy *r, uint64_t deadline_ns,
                      void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(sim_host_of(b), &r->op, deadline_ns, on_call_cancel, on_done, on_destroyed);

    r->priv = c;
    sim_call_box(c, r->box.labels.box_id, "");
    if (r->profile != NULL)
        buf_printf(&c->url, "&destroy_ms=%llu", (unsigned long long) r->profile->sim.destroy_ms);
    sim_call_send(c, "DELETE");
}
