/* stats.c - what a box has used, read on a thread. */
#include <stdlib.h>

#include "backend/counters.h"
#include "backends/oci/internal.h"
#include "base/mem.h"

/* `priv` of the request, which may end before. */
struct counting {
    struct work work;
    struct oci *oci;
    struct backend_stats *request; /* NULL: nobody waits any more */
    int pid;                       /* 0: it has ended */
    bool is_there;
    char group[OCI_GROUP_MAX];
    struct backend_counters counters;
};

static int run(struct work *w, struct err *err UNUSED)
{
    struct counting *c = container_of(w, struct counting, work);

    c->is_there = c->pid != 0 ? counters_read(c->pid, c->group, &c->counters)
                              : counters_read_ended(c->group, &c->counters);
    return SP_OK;
}

static void finish(struct oci *o, struct backend_stats *r, bool is_there)
{
    struct err err;
    int rc = is_there ? SP_OK : err_set(&err, ERR_BOX_DEAD, "the box does not run");

    r->priv = NULL;
    closing_finish(&o->closing, &r->op, rc, &err);
}

static void on_counted(struct op *op)
{
    struct counting *c = container_of(op, struct counting, work.op);
    struct oci *o = c->oci;
    struct backend_stats *r = c->request;

    if (r != NULL) {
        r->counters = c->counters;
        finish(o, r, op->result == SP_OK && c->is_there);
    }
    free(c);
    closing_settle(&o->closing);
}

static void on_cancel(struct op *op)
{
    struct backend_stats *r = container_of(op, struct backend_stats, op);
    struct counting *c = r->priv;

    c->request = NULL;
    r->priv = NULL;
    closing_finish(&c->oci->closing, op, SP_CANCELLED, NULL);
}

void oci_stats(struct backend *backend, struct backend_stats *r, uint64_t deadline_ns,
               void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    const struct oci_box *b = oci_box_find(o, r->box.labels.box_id);
    struct counting *c;

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, on_cancel, on_done);
    r->counters = (struct backend_counters){0};
    if (b == NULL || (b->entry.state != BOX_RUNNING && b->entry.state != BOX_DEAD)) {
        finish(o, r, false);
        return;
    }
    c = xcalloc(1, sizeof(*c));
    c->oci = o;
    c->request = r;
    c->pid = b->entry.state == BOX_RUNNING ? b->pid : 0;
    oci_cgroup(o, b->entry.id, c->group, sizeof(c->group));
    r->priv = c;
    c->work.run = run;
    work_start(o->loop, &c->work, &o->closing.inner, RT_NEVER, on_counted);
}
