/* pool.h - the pool: a deterministic state machine with no I/O, no clock and no allocation after
 * pool_new(). Events go in, effects come out:
 *
 *     pool_step(pool, now_ns, &event);
 *     while (pool_next_fx(pool, &fx)) perform(&fx);
 *
 * Whoever performs an effect answers it with exactly one event that carries the same box and
 * epoch, unless events.h says that it has no answer. An answer whose epoch is not the box's current one is counted and dropped, except
 * POOL_EV_CREATED, which is answered with POOL_FX_DESTROY: a box nobody knows must not stay alive.
 *
 *            intent stored      created           probe ok          acquire (commit)
 *   INTENT -----------> CREATING -----> STARTING ----------> BLANK -----> LEASING ---> LEASED
 *     |                    |               |                   |             |  ^         | release
 *     |                    | fail          | fail, timeout     | drift, age, |  |         v (commit)
 *     |                    |               |                   | shrink,dead |  +--- PARKED <- PARKING
 *     v                    v               v                   v             v         |
 *   (free)              DOOMED  <----------+-------------------+-------------+---------+
 *                          | `deleting` stored
 *                          v
 *                      DESTROYING --- gone ---> FORGETTING --- row removed ---> (free)
 *
 * A box made for one acquire (`is_special`) is bound from its intent on and goes from STARTING
 * straight to LEASING; when nobody waits for it any more it is destroyed. It is never BLANK.
 *
 * Rules (they never bend): a row is committed before the backend is asked to create or destroy;
 * a reply that promises a box follows the commit; only BLANK boxes meet a new owner, and no box is
 * BLANK again once its lease was committed, because its token may be known; a check that
 * failed says nothing about the box; max_boxes counts boxes being made and being destroyed.
 *
 * types.h has the states and what a box is, events.h what goes in and what comes out, views.h what
 * can be seen. Whoever uses the pool includes this header only. */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include "pool/events.h"
#include "pool/types.h"
#include "pool/views.h"

struct pool;

MUST_CHECK struct pool *pool_new(const struct pool_config *config);
struct pool *pool_free(struct pool *p);

/* Boot only, before the first step: one call per row of the store. Leased, parked and blank rows
 * stand as they were and are `is_unseen`; intent rows wait for a listing; deleting rows are
 * destroyed again. False when the row does not fit (no slot left, bad profile index). `token` and
 * the rest come from the row. Times are already monotonic, and may lie before `now_ns`, the time of the start. */
MUST_CHECK bool pool_restore_box(struct pool *p, uint64_t now_ns, const struct pool_box *row);
/* Ended bindings that must not be forgotten: the id's last generation and why it ended. */
void pool_restore_past(struct pool *p, const char *sandbox_id, uint64_t generation,
                       enum pool_end end, uint64_t principal);
/* No id unknown to the past was ever bound with a generation above this one. */
void pool_restore_floor(struct pool *p, uint64_t generation);
void pool_restore_mode(struct pool *p, enum pool_mode mode, const char *text);
void pool_restore_profile_mode(struct pool *p, unsigned profile, enum pool_mode mode,
                               const char *text);

void pool_step(struct pool *p, uint64_t now_ns, const struct pool_event *ev);
/* Takes the oldest effect; false when there is none. */
bool pool_next_fx(struct pool *p, struct pool_fx *ret);
/* When POOL_EV_WAKE is due; POOL_NEVER when nothing waits for time. */
uint64_t pool_next_wake(const struct pool *p);

/* Whether the listings of this backend have left nothing open: a restored box that none has shown,
 * one that is missing, one that has no row. Otherwise another listing is needed soon. Looks at all
 * boxes. */
bool pool_is_settled(const struct pool *p, unsigned backend);
/* The same of the listing whose last part has just come, without looking again. */
bool pool_is_all_listed(const struct pool *p, unsigned backend);

/* Invariants. NULL when all hold, else a sentence. Tests call it after every step. */
const char *pool_check(const struct pool *p);

/* The profile is not what the box was made from any more, and new ones are made where it is. */
bool pool_box_is_outdated(const struct pool_profile *p, const struct pool_box *box);

#endif
