/* history.c - events that are no longer in the journal, read back from the store page by page. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/internal.h"

enum { SCAN_MAX = 500 }; /* rows in one step of the store's thread: about a millisecond */

struct history_read {
    struct store_write write;
    struct engine *engine;
    void (*on_done)(void *ctx, int result);
    void *ctx;
};

static void on_read(struct op *op)
{
    struct history_read *r = container_of(op, struct history_read, write.op);
    struct engine *e = r->engine;

    r->on_done(r->ctx, op->result);
    free(r);
    engine_op_ended(e);
}

void engine_read_history(struct engine *e, struct store_history *h,
                         void (*on_done)(void *ctx, int result), void *ctx)
{
    struct history_read *r = xcalloc(1, sizeof(*r));

    r->engine = e;
    r->on_done = on_done;
    r->ctx = ctx;
    h->scan_max = SCAN_MAX;
    r->write.kind = STORE_READ_EVENTS;
    r->write.u.history = h;
    events_flush(e); /* what has happened so far is among it */
    engine_op_begun(e);
    store_submit(e->store, &r->write, on_read);
}
