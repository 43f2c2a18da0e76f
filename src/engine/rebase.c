/* rebase.c - with `on_drift: rebase` the pool lets an acquire wait while the parked box of its thread becomes a snapshot, and
 * then refuses it, because what it asked for is no more. Here it is asked again, and now hibernate.c knows the snapshot. */
#include "engine/rebase.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "engine/hibernate.h"
#include "engine/internal.h"

void rebase_note(struct engine *e, const struct pool_event *ev)
{
    const struct pool_acquire *a = &ev->u.acquire;
    struct engine_call *call = engine_call_find(e, ev->req);
    const struct pool_box *b = pool_find_sandbox(e->pool, a->sandbox_id);
    const struct pool_profile *p = b != NULL ? pool_profile(e->pool, b->profile) : NULL;

    if (call == NULL || p == NULL || p->drift != POOL_DRIFT_REBASE || !pool_box_is_outdated(p, b))
        return;
    free(call->again);
    call->again = xcalloc(1, sizeof(*call->again));
    *call->again = *a;
}

bool rebase_again(struct engine *e, struct engine_call *call, const struct pool_fx *fx)
{
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE, .req = call->req};

    if (call->again == NULL || fx->u.reply.code != SP_BACKEND_UNAVAILABLE || e->is_closing ||
        pool_find_sandbox(e->pool, call->again->sandbox_id) != NULL ||
        engine_hibernated_find(e, call->again->sandbox_id) == NULL)
        return false;
    if (call->restored_with != 0) { /* an older snapshot, of before a crash, */
        call->extras->snapshot = NULL;
        call->restored_with = 0; /* which the newer one has replaced */
    }
    ev.u.acquire = *call->again;
    free(TAKE_PTR(call->again)); /* once */
    engine_post(e, &ev);
    return true;
}
