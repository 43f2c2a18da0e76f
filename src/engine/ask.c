/* ask.c - does the program in a box answer? A backend that says that a box lives knows its process only:
 * an agent that was stopped or hangs is alive and useless. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "box/probe.h"
#include "engine/internal.h"

#define ASK_NS (2 * NS_PER_S)

struct ask {
    struct probe probe;
    struct engine *engine;
    void (*on_done)(void *ctx, bool answers);
    void *ctx;
};

static void on_probed(struct op *op)
{
    struct ask *a = container_of(op, struct ask, probe.op);
    struct engine *e = a->engine;

    a->on_done(a->ctx, op->result == SP_OK);
    free(a);
    engine_op_ended(e);
}

void engine_ask_box(struct engine *e, struct box_id id, void (*on_done)(void *ctx, bool answers),
                    void *ctx)
{
    const struct pool_box *box = pool_find_box(e->pool, id);
    struct ask *a = xcalloc(1, sizeof(*a));

    assert(box != NULL);
    a->engine = e;
    a->on_done = on_done;
    a->ctx = ctx;
    str_copy_cut(a->probe.url, sizeof(a->probe.url), box->url);
    str_copy_cut(a->probe.token, sizeof(a->probe.token), box->token);
    engine_op_begun(e);
    probe_start(e->http, e->rt, &a->probe, &e->probes, rt_after(rt_now(e->rt), ASK_NS), on_probed);
}
