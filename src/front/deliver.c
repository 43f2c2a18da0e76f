/* deliver.c - who notifies the pool of an acquire whose caller did not get its box, and when: while it waits
 * (POOL_EV_ABANDON), while the box is prepared, and when the answer was not taken (POOL_EV_UNDELIVERED). */
#include "front/deliver.h"

#include <assert.h>

#include "base/compiler.h"
#include "front/deed.h"

void front_undo(struct front_delivery *d, bool is_spoiled)
{
    struct box_id box = d->box;

    d->box.v = 0; /* at most once for each reply */
    if (box.v != 0)
        engine_undelivered(d->engine, &d->call, box, is_spoiled);
}

static void on_taken(void *ctx, int result)
{
    struct front_delivery *d = ctx;

    if (result != SP_OK)
        front_undo(d, false);
    d->ops->on_end(d);
}

static void on_gone(void *ctx)
{
    struct front_delivery *d = ctx;

    d->ex = NULL;
    if (d->state == FRONT_HELD) {
        d->ops->on_cancel(d); /* front_is_wanted() ends it */
        return;
    }
    assert(d->state == FRONT_WAITING); /* an answer that has begun is on_taken()'s */
    engine_call_abandon(d->engine, &d->call);
    d->ops->on_end(d);
}

static void on_reply(struct engine_call *call, const struct pool_fx *fx)
{
    struct front_delivery *d = container_of(call, struct front_delivery, call);

    d->state = FRONT_HELD;
    if (fx->u.reply.code == SP_OK)
        d->box = fx->box;
    if (fx->u.reply.code == SP_OK && d->ex != NULL)
        front_note_deed(d->engine, d->ex, fx->box, "acquire");
    d->ops->on_reply(d, fx); /* it may be gone from here on */
}

void front_begin(struct front_delivery *d, struct engine *engine, struct http_exchange *ex,
                 const struct front_delivery_ops *ops)
{
    assert(d->state == FRONT_IDLE);
    d->engine = engine;
    d->ex = ex;
    d->ops = ops;
    d->call.on_reply = on_reply;
    if (ex == NULL)
        return;
    http_set_ctx(ex, d, on_gone);
    http_may_repeat(ex);
}

void front_ask(struct front_delivery *d, struct pool_event *ev)
{
    assert((d->state == FRONT_IDLE || d->state == FRONT_HELD) && d->box.v == 0);
    d->state = FRONT_WAITING;
    engine_call_start(d->engine, &d->call, ev);
}

bool front_is_wanted(struct front_delivery *d, bool is_spoiled)
{
    assert(d->state == FRONT_HELD);
    if (d->ex != NULL)
        return true;
    front_undo(d, is_spoiled);
    d->ops->on_end(d);
    return false;
}

void front_disown(struct front_delivery *d)
{
    d->box.v = 0;
}

bool front_withdraw(struct front_delivery *d)
{
    if (d->state == FRONT_HELD) {
        d->ops->on_cancel(d);
        return false;
    }
    assert(d->state == FRONT_WAITING);
    engine_call_abandon(d->engine, &d->call);
    return true;
}

void front_answer(struct front_delivery *d)
{
    assert(d->ex != NULL && d->state != FRONT_ANSWERED);
    d->state = FRONT_ANSWERED;
    http_on_taken(d->ex, on_taken, d);
}

void front_forget(struct front_delivery *d)
{
    assert(d->ex == NULL);
    if (d->state == FRONT_WAITING)
        engine_call_abandon(d->engine, &d->call);
    d->ops->on_end(d);
}
