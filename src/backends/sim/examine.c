/* examine.c - findings for `sandpool doctor`. */
#include "backends/sim/internal.h"

/* --- the machine in this process --- */

void sim_examine(struct backend *b, struct backend_exam *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    backend_report(r, BACKEND_FINDING_WARN, "simulated boxes",
                   "nothing runs in them, and they end with the daemon");
    sim_finish(s, &r->op, SP_OK, NULL);
}

/* --- sandpool-sim --- */

static void on_call_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_exam, op)->priv);
}

static void on_examined(struct sim_call *c)
{
    struct backend_exam *r = container_of(c->op, struct backend_exam, op);
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 200, &doc, &err);

    (void) json_doc_free(doc);
    if (rc != SP_OK && c->op->state != OP_RUNNING) {
        sim_call_end(c, rc, &err);
        return;
    }
    if (rc == SP_OK)
        backend_report(r, BACKEND_FINDING_OK, "sandpool-sim", "answers at %s", c->host->socket);
    else
        backend_report(r, BACKEND_FINDING_FAIL, "sandpool-sim", "%s; start it with --socket",
                       err.msg);
    backend_report(r, BACKEND_FINDING_WARN, "simulated boxes",
                   "nothing runs in them: only for trying things out");
    sim_call_end(c, SP_OK, NULL);
}

void sim_host_examine(struct backend *b, struct backend_exam *r, uint64_t deadline_ns,
                      void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(sim_host_of(b), &r->op, deadline_ns, on_call_cancel, on_done, on_examined);

    r->priv = c;
    buf_puts(&c->url, "/healthz");
    sim_call_send(c, "GET");
}
