/* stats.c - what a box has used, as its backend counts it now. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/internal.h"

struct stats_op {
    struct backend_stats stats;
    struct engine *engine;
    void (*on_done)(void *ctx, const struct backend_counters *counters);
    void *ctx;
};

static void on_counted(struct op *op)
{
    struct stats_op *s = container_of(op, struct stats_op, stats.op);
    struct engine *e = s->engine;

    if (op->result != SP_OK)
        log_debug("box.not_counted", LF_HEX("box", s->stats.box.labels.box_id),
                  LF_STR("reason", op->err.msg));
    s->on_done(s->ctx, op->result == SP_OK ? &s->stats.counters : NULL);
    free(s);
    engine_op_ended(e);
}

bool engine_can_count(const struct engine *e, const struct pool_box *box)
{
    return e->backends[box->backend].ops->stats != NULL && !e->is_closing;
}

void stats_start(struct engine *e, const struct pool_box *box, uint64_t limit_ns,
                 void (*on_done)(void *ctx, const struct backend_counters *counters), void *ctx)
{
    struct backend *backend = e->backends[box->backend].backend;
    struct stats_op *s = xcalloc(1, sizeof(*s));

    assert(engine_can_count(e, box));
    s->engine = e;
    s->on_done = on_done;
    s->ctx = ctx;
    box_to_backend(e, box, &s->stats.box);
    engine_op_begun(e);
    backend->ops->stats(backend, &s->stats, rt_after(rt_now(e->rt), limit_ns), on_counted);
}

void engine_count_box(struct engine *e, struct box_id id,
                      void (*on_done)(void *ctx, const struct backend_counters *counters),
                      void *ctx)
{
    const struct pool_box *box = pool_find_box(e->pool, id);

    assert(box != NULL);
    stats_start(e, box, ENGINE_STATS_NS, on_done, ctx);
}
