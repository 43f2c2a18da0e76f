/* deliver.h - the delivery of an acquire, the same for every dialect. The pool promises a box after its commit;
 * whether the caller was given that promise is known here only, and the pool must hear of it when it was not.
 *
 *   WAITING --reply, on_reply()--> HELD --front_answer()--> ANSWERED --taken--> on_end()
 *      |  ^----front_ask() again----'|                         '--not taken: undelivered--> on_end()
 *      |                             '--caller gone: on_cancel(), front_is_wanted() false: undelivered--> on_end()
 *      '--caller gone: abandoned--> on_end()
 *
 * on_end() comes once and is the last call: it frees. Who has no caller to answer (ex NULL) ends with
 * front_forget(). Loop thread only. */
#ifndef FRONT_DELIVER_H
#define FRONT_DELIVER_H

#include "engine/engine.h"
#include "http/http.h"

enum front_state { FRONT_IDLE, FRONT_WAITING, FRONT_HELD, FRONT_ANSWERED };

struct front_delivery;

struct front_delivery_ops {
    /* The pool's reply, valid during the call. Answer now, or ask again, or keep the box and answer later. */
    void (*on_reply)(struct front_delivery *d, const struct pool_fx *fx);
    /* The caller went away while the box was held: stop what is done to it, then call front_is_wanted(). NULL for
     * dialects that always answer inside on_reply(). */
    void (*on_cancel)(struct front_delivery *d);
    void (*on_end)(struct front_delivery *d);
};

/* Embedded in the dialect's own request; zero it first. */
struct front_delivery {
    struct engine_call
        call; /* the dialect fills sandbox_id, metadata, extras, deadline_ns, may_exceed */
    struct engine *engine;
    struct http_exchange *ex; /* NULL: the caller has gone, or there is none */
    const struct front_delivery_ops *ops;
    enum front_state state;
    struct box_id box; /* that the pool has promised and that is not undone; 0: none */
};

/* `ex` NULL: nobody waits for it. From here on the exchange's ctx is the delivery, and a successor may repeat it. */
void front_begin(struct front_delivery *d, struct engine *engine, struct http_exchange *ex,
                 const struct front_delivery_ops *ops);
/* Gives the acquire to the engine; again from inside on_reply() after a reply that brought no box.
 * on_reply() may come from inside. */
void front_ask(struct front_delivery *d, struct pool_event *ev);
/* Whether the caller of a held box is still there. False: the pool has been notified, on_end() was called and
 * the delivery is gone. `is_spoiled` as in engine_undelivered(). */
bool front_is_wanted(struct front_delivery *d, bool is_spoiled);
/* The caller will not be given the box: the pool is notified. The request can still be answered. */
void front_undo(struct front_delivery *d, bool is_spoiled);
/* Somebody else sees to the box from here on: nothing is undone when the answer is not taken. */
void front_disown(struct front_delivery *d);
/* Ends the request before its caller does, who is still to be answered. False when the box is held: on_cancel()
 * was called, and the answer follows when that work has ended. */
bool front_withdraw(struct front_delivery *d);
/* Just before the answer is sent, whatever it says: from now on the delivery ends by itself. */
void front_answer(struct front_delivery *d);
/* Ends one without a caller; on_end() is called from inside. */
void front_forget(struct front_delivery *d);

#endif
