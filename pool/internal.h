/* internal.h - struct pool, and with it everything that the files of the pool share; what belongs to
 * one file is in the header of its name. Everything is allocated in pool_new(); a step only moves
 * things between lists. */
#ifndef POOL_INTERNAL_H
#define POOL_INTERNAL_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "pool/acquire.h"
#include "pool/admit.h"
#include "pool/away.h"
#include "pool/bind.h"
#include "pool/box.h"
#include "pool/breaker.h"
#include "pool/doom.h"
#include "pool/doubt.h"
#include "pool/emit.h"
#include "pool/exhaust.h"
#include "pool/expiry.h"
#include "pool/hibernate.h"
#include "pool/index.h"
#include "pool/lease.h"
#include "pool/listed.h"
#include "pool/make.h"
#include "pool/makers.h"
#include "pool/mode.h"
#include "pool/past.h"
#include "pool/pause.h"
#include "pool/pool.h"
#include "pool/profile.h"
#include "pool/quota.h"
#include "pool/refill.h"
#include "pool/release.h"
#include "pool/turns.h"
#include "pool/waiter.h"
#include "pool/writes.h"
#include "sandpool/errors.h"

struct pool {
    uint64_t now_ns;
    struct rand rand;
    unsigned max_boxes;
    unsigned max_waiters;
    void (*make_token)(void *ctx, char *dst);
    void *make_token_ctx;
    enum pool_mode mode;
    bool want_parked_gone;
    bool is_parked_due; /* a profile that is drained may have parked boxes */
    char mode_text[POOL_REASON_MAX + 1];
    char mode_fact[POOL_REASON_MAX + 1]; /* of the last event about a mode */
    bool is_store_up;
    bool is_space_low; /* no new box is made; `space_reason` says why */
    bool is_mode_dirty;
    uint64_t mode_write;
    uint64_t mode_retry_ns;
    uint64_t store_pause_ns; /* no new intents before this */

    struct profile profiles[POOL_PROFILES_MAX];
    unsigned profile_count;

    struct slot *slots;
    size_t slot_count;
    struct list lists[POOL_STATE_COUNT]; /* BLANK boxes are on lists of their profile */
    struct list freed;                   /* in this step; usable from the next one */
    struct list dirty;                   /* now, those that somebody waits for first */
    struct list rewrites;                /* a write failed: not before rewrite_ns, in that order */
    unsigned flushing;                   /* of POOL_FLUSH_MAX */
    struct list doubted;
    unsigned asking; /* of POOL_ASKS_MAX */
    unsigned pulses; /* blank boxes that are being asked, of POOL_ASKS_MAX */
    struct list idlers;
    unsigned idle_asks; /* of POOL_IDLE_ASKS_MAX */
    struct list hibernaters;
    unsigned hibernate_asks; /* of POOL_HIBERNATES_MAX */
    unsigned hibernating;    /* boxes that are to become a snapshot, and then go */
    struct exhaust exhaust;
    struct map ids;
    struct map sandboxes;
    struct map refs;
    struct map endings;
    struct order ordered;
    struct owner *owners;
    size_t owner_count; /* ever used */
    struct list free_owners;
    struct map owner_map;
    struct heap due;
    struct heap parked;
    unsigned by_state[POOL_STATE_COUNT];
    unsigned total;
    unsigned stuck; /* boxes whose destroy has failed */
    struct away away;
    struct makers makers;
    struct quota quota;
    unsigned adopted_high; /* total when a found box took it over the cap */

    struct waiter *waiters; /* room for waiter_max */
    size_t waiter_max;
    size_t waiter_count; /* ever used: the memory of the others has not been touched yet */
    struct list free_waiters;
    struct list redo;
    struct list discovering;
    struct map reqs;
    struct map threads;
    struct heap deadlines;
    unsigned waiting; /* QUEUED JOINED DISCOVERING PAUSED BOX */
    unsigned share_percent;
    struct party *parties_all; /* room for max_waiters + 1, as of the next two */
    struct group *groups_all;
    struct turn *turns;
    struct list free_parties;
    struct list free_groups;
    struct list free_turns;
    struct map parties; /* by principal */
    struct map groups;  /* by profile, line and principal */
    struct map users;   /* turns by group and user */
    uint64_t turn;      /* grows with every box that is made or given out */

    struct past *past; /* room for past_max, as of their owners */
    size_t past_max;
    size_t past_count; /* ever used */
    struct list free_pasts;
    uint64_t past_floor;
    struct map pasts;
    struct past_owner *past_owners;
    size_t past_owner_count; /* ever used */
    struct list free_past_owners;
    struct map past_owner_map;
    struct heap past_most;
    struct orphan orphans[POOL_ORPHANS_MAX];
    struct recent recent[POOL_RECENT_MAX];
    size_t recent_next;
    uint64_t listing;
    struct joining joining;

    struct fx_rec *fx;
    size_t fx_len;
    size_t fx_next;
    size_t fx_cap;
    char space_reason[POOL_REASON_MAX + 1];
    struct pool_box slotless;         /* a box to destroy that has no slot */
    char reason[POOL_REASON_MAX + 1]; /* of this step's refusals, where it is not a profile's */

    uint64_t epoch;
    uint64_t write;
    uint64_t order;
    uint64_t wake_ns; /* besides the heaps */

    uint64_t acquires[POOL_SRC_COUNT];
    uint64_t refusals;
    uint64_t late_answers;
    uint64_t creates;
    uint64_t create_failures;
    uint64_t destroys;
    uint64_t lost;
};

static inline uint64_t time_after(uint64_t now_ns, uint64_t d_ns)
{
    return d_ns > POOL_NEVER - now_ns ? POOL_NEVER : now_ns + d_ns;
}

static inline struct profile *profile_of(struct pool *p, const struct slot *s)
{
    return &p->profiles[s->box.profile];
}

const char *check_waiters(const struct pool *p); /* check_waiters.c */

#endif
