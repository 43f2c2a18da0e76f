/* answer.c - the end of a call: what is counted and noted of it, then its caller gets the reply. */
#include "base/fault.h"
#include "engine/internal.h"

static void count(struct engine *e, const struct engine_call *call, const struct pool_fx *fx)
{
    int code = err_for_caller(fx->u.reply.code);
    uint64_t now_ns = rt_now(e->rt);

    if (code != SP_OK)
        e->counts.refused[-code]++;
    else
        histogram_add(&e->counts.acquires[fx->u.reply.source],
                      now_ns > call->asked_ns ? now_ns - call->asked_ns : 0);
}

void engine_answer(struct engine *e, struct engine_call *call, const struct pool_fx *fx)
{
    if (call->is_acquire)
        count(e, call, fx);
    if (call->is_acquire && fx->u.reply.code != SP_OK)
        event_refused(e, call, fx);
    FAULT_POINT("engine.before_reply");
    call->on_reply(call, fx); /* the call may be gone from here on */
    FAULT_POINT("engine.after_reply");
}

const struct engine_counts *engine_counts(const struct engine *e)
{
    return &e->counts;
}
