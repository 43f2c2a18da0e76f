/* pauses.h - boxes that stand still, and those who need one. The pool records that a box is paused; here it is frozen, and
 * thawed before it is used. */
#ifndef ENGINE_PAUSES_H
#define ENGINE_PAUSES_H

#include "engine/engine.h"

/* Somebody who waits for a box. The caller owns it until on_done() is entered or engine_wake_cancel() returned. */
struct engine_wake {
    struct list_node link;
    struct rt_task task;
    struct engine *engine;
    struct box_id box;
    bool is_for_pause; /* waits until it stands still */
    int code;
    char reason[160];
    /* Once, never from inside. */
    void (*on_done)(struct engine_wake *w, int code, const char *reason);
};

/* Whether boxes of this one's backend can be paused. */
bool engine_can_pause(const struct engine *e, const struct pool_box *box);
/* Waits until a paused box runs again, and lets it. Those who come at the same time share one thaw. */
void engine_wake_start(struct engine *e, struct engine_wake *w, struct box_id box);
/* After the reply to POOL_EV_PAUSE: waits until it stands still, or does not any more because somebody needed it. */
void engine_pause_wait(struct engine *e, struct engine_wake *w, struct box_id box);
void engine_wake_cancel(struct engine_wake *w);

/* The engine's own. */
void fx_freeze(struct engine *e, const struct pool_fx *fx);
/* True: the box is being frozen or thawed, and is destroyed when that has ended. */
MUST_CHECK bool pauses_hold_destroy(struct engine *e, const struct pool_fx *fx);
/* Instead of the reply of an acquire that names a paused box: it comes when the box runs. */
void pauses_hold_reply(struct engine *e, struct engine_call *call, const struct pool_fx *fx);
/* The caller of a call with a `held` has gone. */
void pauses_abandon(struct engine_call *call);
/* A snapshot has been made of it: what waited for that goes on. */
void pauses_captured(struct engine *e, struct box_id box);
/* The reply that was held goes to its caller. */
void engine_reply(struct engine *e, struct engine_call *call, const struct pool_fx *fx);

#endif
