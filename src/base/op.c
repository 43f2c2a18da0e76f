/* op.c - bookkeeping of asynchronous operations: one completion, always deferred to the run queue. */
#include "base/op.h"

#include "base/compiler.h"

static void cancel_because(struct op *op, int cause)
{
    if (op->state != OP_RUNNING)
        return;
    op->state = OP_CANCELING;
    op->cause = cause;
    if (op->on_cancel != NULL)
        op->on_cancel(op);
}

static void on_deadline(struct rt_timer *timer)
{
    cancel_because(container_of(timer, struct op, deadline), SP_TIMEOUT);
}

static void on_finish(struct rt_task *task)
{
    struct op *op = container_of(task, struct op, finish);

    op->state = OP_IDLE;
    op->on_done(op); /* the op may be gone from here on */
}

void op_begin(struct op *op, struct rt *rt, struct list *owner, uint64_t deadline_ns,
              void (*on_cancel)(struct op *), void (*on_done)(struct op *))
{
    assert(op->state == OP_IDLE);
    op->state = OP_RUNNING;
    op->result = SP_OK;
    op->cause = SP_OK;
    op->err.code = SP_OK;
    op->err.sys = 0;
    op->err.msg[0] = '\0';
    op->rt = rt;
    op->owner = owner;
    op->on_cancel = on_cancel;
    op->on_done = on_done;
    if (owner != NULL)
        list_push_back(owner, &op->link);
    rt_timer_set(rt, &op->deadline, deadline_ns, on_deadline);
}

void op_set_deadline(struct op *op, uint64_t deadline_ns)
{
    assert(op_is_active(op));
    if (op->state == OP_RUNNING)
        rt_timer_set(op->rt, &op->deadline, deadline_ns, on_deadline);
}

void op_finish(struct op *op, int result, const struct err *err)
{
    assert(op_is_active(op));
    rt_timer_cancel(op->rt, &op->deadline);
    if (op->owner != NULL)
        list_remove(op->owner, &op->link);
    op->result = result;
    if (err != NULL && result != SP_OK)
        op->err = *err;
    else if (result != SP_OK)
        (void) err_set(&op->err, result, "%s", err_text(result));
    if (result != SP_OK && op->state == OP_CANCELING) {
        op->result = op->cause;
        (void) err_set(&op->err, op->cause, "%s", err_text(op->cause));
    }
    op->state = OP_FINISHED;
    rt_defer(op->rt, &op->finish, on_finish);
}

void op_cancel(struct op *op)
{
    cancel_because(op, SP_CANCELLED);
}

void op_cancel_all(struct list *owner)
{
    /* on_cancel() may finish the op at once and unlink it, so the walk restarts from a fresh
     * head; cancelled ones are moved to the back and recognised by their state. */
    size_t count = owner->len;

    while (count-- > 0) {
        struct list_node *n = list_pop_front(owner);
        struct op *op;

        if (n == NULL)
            return;
        list_push_back(owner, n);
        op = container_of(n, struct op, link);
        op_cancel(op);
    }
}
