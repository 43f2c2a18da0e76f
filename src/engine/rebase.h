/* rebase.h - acquires of parked boxes that become snapshots first, because their profile has changed (on_drift: rebase). */
#ifndef ENGINE_REBASE_H
#define ENGINE_REBASE_H

#include "engine/engine.h"

/* An acquire that the pool is about to get: remembered, if its box is such a one. */
void rebase_note(struct engine *e, const struct pool_event *ev);
/* True: the box is a snapshot now, and the acquire is on its way again; there is no reply yet. */
MUST_CHECK bool rebase_again(struct engine *e, struct engine_call *call, const struct pool_fx *fx);

#endif
