/* closing.h - the operations of a backend, and its orderly end: close() cancels what callers wait for, lets what the
 * backend does for itself finish until a limit, and reports the end after the last completion. */
#ifndef BACKEND_CLOSING_H
#define BACKEND_CLOSING_H

#include "base/op.h"

struct closing {
    struct rt *rt;
    struct list ops;   /* what callers wait for */
    struct list inner; /* what the backend does for itself */
    bool is_closing;
    /* Nothing is under way any more. Frees the backend and returns true; false: it has begun something else, whose
     * end comes back here. */
    bool (*free_owner)(struct closing *c);
    void (*on_limit)(struct closing *c); /* NULL: what still runs is cancelled, again and again */
    void (*on_closed)(void *ctx);
    void *ctx;
    struct rt_task task;
    struct rt_timer tick;
    uint64_t limit_ns; /* what still runs then is cancelled */
};

void closing_init(struct closing *c, struct rt *rt, bool (*free_owner)(struct closing *c));
/* Cancels `ops`. After `limit_ns` what is left in `inner` is cancelled too. on_closed() comes after every on_done(). */
void closing_begin(struct closing *c, uint64_t limit_ns, void (*on_closed)(void *ctx), void *ctx);
/* Sets the limit anew, for on_limit(). */
void closing_extend(struct closing *c, uint64_t limit_ns);
/* Whatever ends calls this, or closing_finish(): the last one lets the close go on at once. An end that does not (that of
 * a child or a thread that nobody waits for any more) is noticed a moment later. */
void closing_settle(struct closing *c);
/* Ends an operation of the backend. */
void closing_finish(struct closing *c, struct op *op, int result, const struct err *err);

#endif
