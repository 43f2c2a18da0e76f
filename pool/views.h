/* views.h - read access to the pool: its boxes, its waiters, and statistics. What these functions
 * return is valid until the next step. Part of pool.h. */
#ifndef POOL_VIEWS_H
#define POOL_VIEWS_H

#include "pool/types.h"

struct pool;

/* --- boxes --- */

/* Its lease is committed, by rows that are not in doubt: address and token may be shown to its
 * owner. If they were shown in another state, a caller could keep a token that the next owner of a
 * blank box gets. */
bool pool_is_shown(const struct pool_box *box);
const struct pool_box *pool_find_box(const struct pool *p, struct box_id id);
const struct pool_box *pool_find_sandbox(const struct pool *p, const char *sandbox_id);
/* How an id that is bound no longer ended; POOL_END_NONE when unknown. */
enum pool_end pool_find_past(const struct pool *p, const char *sandbox_id, uint64_t *ret_generation,
                             uint64_t *ret_principal);
/* A box whose end is under way, by the id it had; the newest if there are several. */
const struct pool_box *pool_find_ending(const struct pool *p, const char *sandbox_id);
/* The first box in the order of listings after `after` (pool_box.order), and the next one; NULL at the
 * end. */
const struct pool_box *pool_first(const struct pool *p, uint64_t after, size_t *ret_at);
const struct pool_box *pool_next(const struct pool *p, size_t *at);
/* The same for boxes that belong, or belonged until their end began, to one principal; and the next
 * one. Boxes of others cost nothing. */
const struct pool_box *pool_first_of(const struct pool *p, uint64_t principal, uint64_t after);
const struct pool_box *pool_next_of(const struct pool_box *box);
const struct pool_box *pool_slot(const struct pool *p, size_t index); /* from 0; or NULL */
size_t pool_slot_count(const struct pool *p);

/* When time alone ends a leased or parked box, POOL_NEVER for never; *ret_by gets "ttl", "idle",
 * "parked" or "". An idle box continues if its agent then reports that something is at work in
 * it. */
uint64_t pool_ends(const struct pool *p, const struct pool_box *box, const char **ret_by);

/* A box whose end is under way, by the id it had, as callers are shown it: one that was given up on purpose. */
const struct pool_box *pool_find_deleting(const struct pool *p, const char *sandbox_id);

/* --- numbers --- */

struct pool_profile_view {
    const struct pool_profile *profile;
    unsigned by_state[POOL_STATE_COUNT];
    unsigned target; /* blank boxes wanted now */
    unsigned waiting;
    uint64_t oldest_wait_ns; /* how long the oldest waiter has waited */
    double arrivals_per_s;
    uint64_t provision_ns; /* measured time from intent to ready */
    unsigned failures;     /* consecutive */
    bool is_open;          /* circuit breaker */
    bool is_trial_due;     /* it is open, and the next acquire is the trial: nobody tries before */
    uint64_t retry_at_ns;
    uint64_t failed_at_ns;
    char reason[POOL_REASON_MAX + 1];
    uint64_t warm_hits;
    uint64_t cold_starts;
};

struct pool_stats {
    enum pool_mode mode;
    const char *mode_text; /* what callers who are refused because of it are to read; may be "" */
    bool is_store_up;
    unsigned max_boxes;
    unsigned total; /* everything but FREE */
    unsigned by_state[POOL_STATE_COUNT];
    unsigned waiting;
    unsigned asking; /* boxes that a listing did not show and whose backend has not answered yet */
    unsigned max_waiters;
    unsigned profile_count;
    uint64_t acquires[POOL_SRC_COUNT];
    uint64_t refusals;
    uint64_t late_answers; /* dropped for their epoch */
    uint64_t creates;
    uint64_t create_failures;
    uint64_t destroys;
    uint64_t lost;
};

void pool_get_stats(const struct pool *p, struct pool_stats *ret);
void pool_get_profile(const struct pool *p, uint64_t now_ns, unsigned profile,
                      struct pool_profile_view *ret);
/* What it was configured with; costs nothing, unlike the view. */
const struct pool_profile *pool_profile(const struct pool *p, unsigned profile);
/* The mode of this profile alone, and its text. */
enum pool_mode pool_profile_mode(const struct pool *p, unsigned profile, const char **ret_text);
/* When its owner was active last, or may have been. */
uint64_t pool_active_ns(const struct pool_box *box);
/* Index by name; -1 when unknown. */
int pool_profile_index(const struct pool *p, const char *name);

/* --- waiters --- */

/* An acquire that waits. */
struct pool_waiting {
    unsigned profile;
    unsigned
        place;   /* in line, about: turns are taken between callers; 0: a box is on its way to it */
    unsigned of; /* so many are in line */
    uint64_t since_ns;
    unsigned held; /* boxes that its principal has */
};
/* By the id it waits for; false when nobody of this principal does. */
bool pool_find_waiting(const struct pool *p, const char *sandbox_id, uint64_t principal,
                       struct pool_waiting *ret);

/* No box is free, will be free soon, or can be evicted: no new box is possible. */
bool pool_is_exhausted(const struct pool *p);

#endif
