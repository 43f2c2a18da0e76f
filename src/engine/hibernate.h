/* hibernate.h - boxes that became snapshots when their time was over, and that come back with the next acquire of their
 * id. The records lie with the backends; there is no row of them. */
#ifndef ENGINE_HIBERNATE_H
#define ENGINE_HIBERNATE_H

#include "engine/snapshots.h"

/* NULL: none, or one that is being deleted. While a box is bound to the id, that is the truth, and this is of no use. */
struct engine_snapshot *engine_hibernated_find(const struct engine *e, const char *sandbox_id);
size_t engine_hibernated_count(const struct engine *e);
/* All of them, by their `order`: the one after `s`, or the first; NULL at the end. */
const struct engine_snapshot *engine_hibernated_next(const struct engine *e,
                                                     const struct engine_snapshot *s);

/* The engine's own. */
void hibernate_init(struct engine *e, const struct config *config);
void hibernate_fini(struct engine *e);
void fx_hibernate(struct engine *e, const struct pool_fx *fx);
/* Snapshots that are being made of a box of this id are outdated. */
void fx_hibernate_leased(struct engine *e, const char *sandbox_id);
/* A snapshot of its box is being made, and nobody was given the box since that began. */
bool fx_hibernate_runs(struct engine *e, const char *sandbox_id);
/* The box of this snapshot, which is being made, was given to its thread since that began. */
bool fx_hibernate_was_leased(struct engine *e, uint64_t snapshot);
/* One is whole, and the pool was notified. `was_leased`: its id, since it was begun. */
void hibernate_captured(struct engine *e, const struct snapshot *made, bool was_leased);
/* Whether hibernate_mark() has anything to do with this acquire: nearly never. */
bool hibernate_concerns(struct engine *e, const struct pool_acquire *a);
/* True: callers of this pool profile are refused, because it is not known who has a hibernated sandbox; `dst` says so. */
MUST_CHECK bool hibernate_lacks(struct engine *e, unsigned profile, char *dst, size_t cap);
/* Just before the pool is given an acquire: one whose box is hibernated is to be made from it. False: it has been
 * refused. */
MUST_CHECK bool hibernate_mark(struct engine *e, struct pool_event *ev);
/* Answers a call about a hibernated sandbox. */
void hibernate_refuse(struct engine *e, struct req_id req, int code, const char *reason);
/* hibernate_destroy.c */
/* A request to destroy what has no box any more: true when it is taken care of. */
MUST_CHECK bool hibernate_destroy(struct engine *e, struct engine_call *call,
                                  const struct pool_event *ev);
/* A box was leased, or destroyed on request: what it was made from, or an older state of it, is over. */
void hibernate_event(struct engine *e, const struct pool_fx *fx);
/* What the box was made from and nobody had since, or whose variables the box was not given yet; NULL: nothing. */
const struct engine_snapshot *hibernate_source(struct engine *e, const struct pool_box *box);
/* For the reply to an acquire that names no variables: `extras` with those that its box had when it was hibernated. Takes
 * `extras`; the box has to be made from that snapshot. */
bool hibernate_wants_envs(struct engine *e, const struct pool_box *box);
struct backend_extras *hibernate_add_envs(struct engine *e, const struct pool_box *box,
                                          struct backend_extras *extras);
/* The box has all that its acquire asked for: what it was made from is over. */
void hibernate_equipped(struct engine *e, const struct pool_box *box);
/* When it is made: later than any snapshot of its id that is known. Which of two is newer must not depend on a clock that is set. */
void hibernate_put_times(const struct engine *e, struct snapshot *s);
/* Whether its owner, or an operator, has destroyed the box it was made of, or one that came after. */
bool hibernate_is_unwanted(const struct engine *e, const struct snapshot *s);
void hibernate_drop(struct engine *e, struct engine_snapshot *s); /* nobody gets it any more */
/* Of snapshots.c: one more is known, or one less. */
void hibernate_added(struct engine *e, struct engine_snapshot *s);
void hibernate_forgotten(struct engine *e, struct engine_snapshot *s);
/* Boxes and snapshots are known: those that a crash left behind are deleted. */
void hibernate_sweep(struct engine *e);
/* hibernate_share.c: one more is known, or one less; it is asked for; one is being made, or not any more. */
void share_add(struct engine *e, struct engine_snapshot *s);
void share_remove(struct engine *e, struct engine_snapshot *s);
void share_touch(struct engine *e, struct engine_snapshot *s);
void share_begin(struct engine *e, uint64_t principal);
void share_end(struct engine *e, uint64_t principal);
/* SP_TOO_MANY_SNAPSHOTS: one more of this principal cannot be kept, not even in place of its oldest. */
MUST_CHECK int share_check(const struct engine *e, uint64_t principal, struct err *err);
/* What these variables take of the memory; 0: none. */
uint64_t share_env_bytes(const struct backend_extras *envs);
/* Whether the variables of one more of this principal may be kept. */
bool share_holds_envs(const struct engine *e, uint64_t principal, uint64_t bytes);
/* One was added: when its principal is over its share, its oldest goes. */
void share_settle(struct engine *e, struct engine_snapshot *added);
void share_fini(struct engine *e);
/* After a change of the configuration. */
void hibernate_rank(struct engine *e);
/* remains.c, of struct backend_events */
bool remains_wanted(void *ctx, const struct backend_labels *labels, struct snapshot *ret);
void remains_kept(void *ctx, const struct snapshot *s);

#endif
