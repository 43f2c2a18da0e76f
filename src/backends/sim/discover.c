/* discover.c - is there a box with this public id? */
#include <string.h>

#include "backends/sim/internal.h"

/* --- the machine in this process --- */

void sim_discover(struct backend *b, struct backend_discover *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    const struct world_box *box = world_find_sandbox(&s->world, s->instance, r->sandbox_id);

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    r->is_found = box != NULL && sim_fill_box(box, &r->box);
    sim_finish(s, &r->op, SP_OK, NULL);
}

/* --- sandpool-sim --- */

static void on_call_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_discover, op)->priv);
}

static void on_discovered(struct sim_call *c)
{
    struct backend_discover *r = container_of(c->op, struct backend_discover, op);
    const struct json *boxes;
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 200, &doc, &err);

    boxes = doc != NULL ? json_get(json_root(doc), "boxes") : NULL;
    if (rc == SP_OK && !json_is_arr(boxes))
        rc = err_set(&err, SP_PROTOCOL, "sandpool-sim's answer has no boxes");
    if (rc == SP_OK && json_len(boxes) > 0) {
        rc = sim_call_get(json_at(boxes, 0), &r->box, &err);
        r->is_found = rc == SP_OK && strcmp(r->box.labels.instance, c->host->instance) == 0;
    }
    (void) json_doc_free(doc);
    sim_call_end(c, rc, &err);
}

void sim_host_discover(struct backend *b, struct backend_discover *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(sim_host_of(b), &r->op, deadline_ns, on_call_cancel, on_done, on_discovered);

    r->priv = c;
    r->is_found = false;
    buf_puts(&c->url, "/boxes?instance=");
    buf_put_escaped(&c->url, c->host->instance);
    buf_puts(&c->url, "&sandbox_id=");
    buf_put_escaped(&c->url, r->sandbox_id);
    sim_call_send(c, "GET");
}
