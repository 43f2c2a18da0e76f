/* stats.c - what a box would have used, if it were one: a hundredth of a processor, 32 MB of memory, a little of network
 * and disk. So what is done with such numbers can be tried with any number of boxes. */
#include "backends/sim/internal.h"

enum { CPU_SHARE = 100, MEMORY = 32 * 1024 * 1024, BYTES_PER_MS = 2 };

void sim_stats(struct backend *b, struct backend_stats *r, uint64_t deadline_ns,
               void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    const struct world_box *box = world_find(&s->world, r->box.labels.box_id);
    uint64_t now_ns = rt_now(s->rt);
    struct err err;
    uint64_t ns;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    r->counters = (struct backend_counters){0};
    if (box == NULL) {
        sim_finish(s, &r->op, err_set(&err, ERR_BOX_DEAD, "there is no such box"), &err);
        return;
    }
    ns = now_ns > box->ready_ns ? now_ns - box->ready_ns : 0;
    r->counters.cpu_us = backend_counted(ns / NS_PER_US / CPU_SHARE);
    r->counters.memory = backend_counted(MEMORY);
    r->counters.net_in = backend_counted(ns / NS_PER_MS * BYTES_PER_MS);
    r->counters.net_out = backend_counted(ns / NS_PER_MS);
    r->counters.disk_read = backend_counted(0);
    r->counters.disk_write = backend_counted(ns / NS_PER_MS * BYTES_PER_MS);
    sim_finish(s, &r->op, SP_OK, NULL);
}
