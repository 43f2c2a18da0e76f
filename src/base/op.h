/* op.h - the one shape of every asynchronous operation.
 *
 *  1. The caller owns the memory. struct op is embedded in the request and stays valid until
 *     on_done() is entered.
 *  2. x_start() returns void. Every outcome, even "bad argument", arrives through on_done(),
 *     exactly once, never from inside x_start() or op_cancel().
 *  3. op_cancel() only asks. It may be called again, and on_done() still comes.
 *  4. A deadline is a cancel whose cause is SP_TIMEOUT.
 *  5. Truth wins: work that succeeded in spite of a cancel reports SP_OK, so that what it made
 *     can be unmade. Otherwise the first cause wins.
 *  6. When on_done() is entered the op is on no list and holds no timer; the callee may free or
 *     restart it. The op layer never touches it again. */
#ifndef BASE_OP_H
#define BASE_OP_H

#include "base/err.h"
#include "base/list.h"
#include "base/rt.h"

enum op_state { OP_IDLE, OP_RUNNING, OP_CANCELING, OP_FINISHED, OP_STATE_COUNT };

struct op {
    enum op_state state;
    int result;     /* SP_OK or a negative code; valid in on_done() */
    int cause;      /* why it was cancelled, if it was */
    struct err err; /* sentence behind a failure; valid in on_done() */
    struct rt *rt;
    struct list *owner; /* operations in flight: counted for limits, drained at shutdown */
    struct list_node link;
    struct rt_timer deadline;
    struct rt_task finish;
    void (*on_cancel)(struct op *op); /* implementor: stop soon, then op_finish() */
    void (*on_done)(struct op *op);   /* caller */
};

/* Implementor's side. `owner` may be NULL; `deadline_ns` is absolute, RT_NEVER for none (only for
 * operations whose parent has one). `on_cancel` may be NULL for work that cannot be stopped. */
void op_begin(struct op *op, struct rt *rt, struct list *owner, uint64_t deadline_ns,
              void (*on_cancel)(struct op *), void (*on_done)(struct op *));
/* For an operation whose time begins later than it does. No effect on one that is being cancelled. */
void op_set_deadline(struct op *op, uint64_t deadline_ns);
/* Exactly once per op_begin(). `err` (may be NULL) is copied. */
void op_finish(struct op *op, int result, const struct err *err);

/* Caller's side. */
void op_cancel(struct op *op);
/* Cancels every operation on the list; their on_done() comes later. */
void op_cancel_all(struct list *owner);

static inline bool op_is_active(const struct op *op)
{
    return op->state == OP_RUNNING || op->state == OP_CANCELING;
}

/* Never begun, or on_done() has been entered: only now its memory may be used anew. */
static inline bool op_is_idle(const struct op *op)
{
    return op->state == OP_IDLE;
}

#endif
