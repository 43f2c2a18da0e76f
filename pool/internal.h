/* internal.h - what the files of the pool share: slots, waiters, profiles and the queue of effects.
 * Everything is allocated in pool_new(); a step only moves things between lists. */
#ifndef POOL_INTERNAL_H
#define POOL_INTERNAL_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "pool/away.h"
#include "pool/doubt.h"
#include "pool/emit.h"
#include "pool/exhaust.h"
#include "pool/expiry.h"
#include "pool/health.h"
#include "pool/index.h"
#include "pool/listed.h"
#include "pool/pool.h"
#include "pool/refill.h"
#include "sandpool/errors.h"

#define POOL_SPARE_SLOTS 64 /* for boxes found running that the cap has no room for */
#define POOL_ORPHANS_MAX 64 /* unknown boxes remembered until a second listing shows them */
#define POOL_RECENT_MAX 256 /* boxes gone a moment ago: late answers and stale listings name them */
#define POOL_CHECK_NS (2 * NS_PER_S)
#define POOL_ASKS_MAX 16  /* boxes that a listing does not show are asked for, this many at once */
#define POOL_MISSES_MAX 3 /* listings without it, and no answer each time: it has died */
#define POOL_MISS_GAP_NS (10 * NS_PER_S)     /* listings closer together than this count as one */
#define POOL_HEAR_NS (30 * NS_PER_S)         /* unwatched: an owned box is asked so often */
#define POOL_ABSENT_MAX 3                    /* times it was found absent, before its lease ends */
#define POOL_ABSENT_GAP_NS (2 * NS_PER_S)    /* between them */
#define POOL_SILENT_GAP_NS (250 * NS_PER_MS) /* before a silent one is asked again for its owner, */
#define POOL_SILENT_MAX 4                    /* this many times; then it gets it as it is */
#define POOL_DISCOVER_NS (5 * NS_PER_S)
#define POOL_QUESTION_MIN_NS (250 * NS_PER_MS)
#define POOL_REWRITE_NS (1 * NS_PER_S)        /* a row that could not be written, store up */
#define POOL_FLUSH_MAX 384                    /* rows that nobody waits for, in the store's queue */
#define POOL_STORE_PAUSE_NS (100 * NS_PER_MS) /* no creates after a lost intent */
#define POOL_RETARGET_NS (5 * NS_PER_S)       /* the arrival rate decays without events */
#define POOL_COMMIT_MIN_NS (1 * NS_PER_S)     /* least time an acquire has for its commit */
#define POOL_SPACE_RETRY_NS (5 * NS_PER_S)
#define POOL_RETRY_AFTER_MIN_NS (100 * NS_PER_MS)

/* What a queued acquire waits for: any blank box, or a box that is made for it. */
enum line { LINE_BLANK, LINE_SPECIAL, LINE_COUNT };

/* The lists a blank box can be on. */
enum blank_kind { BLANK_FRESH, BLANK_DRIFTED, BLANK_UNSEEN, BLANK_KIND_COUNT };

struct slot {
    struct pool_box box;
    struct list *list; /* the one its state names */
    struct list_node link;
    struct list_node dirty_link; /* row to be written: on p->dirty or p->rewrites */
    struct list_node doubt_link; /* to be asked for */
    struct list_node idle_link;  /* LEASED: its agent is to be asked whether it is idle */
    struct map_node by_id;
    struct map_node by_sandbox; /* linked while the id is bound to this box */
    struct map_node by_ref;     /* while the backend's name is known */
    struct map_node by_ending;  /* by the id it had */
    struct owner *owner;        /* while it has an owner, also one it is taken from */
    struct list_node owner_link;
    struct heap_node due;   /* next moment time alone changes it */
    struct heap_node evict; /* PARKED, by parked_ns */
    struct list waiters;    /* requests that wait for this box */
    uint64_t wait_write;    /* the commit its state waits for; 0: none */
    uint64_t last_write;
    unsigned open_writes;  /* not answered yet */
    uint64_t flush_write;  /* of those that count for POOL_FLUSH_MAX; 0: none */
    uint64_t retry_ns;     /* DESTROYING: next try */
    uint64_t rewrite_ns;   /* dirty: not written before */
    uint64_t changed_ns;   /* last state change */
    uint64_t age_ns;       /* BLANK: too old from here on */
    uint64_t saved_ns;     /* last activity the store has been told of */
    uint64_t committed_ns; /* deadline in the row the store has */
    unsigned told;         /* LEASED: replies that name it and have not come back undelivered */
    uint64_t listing;      /* last listing that showed it */
    unsigned tries;        /* destroys that failed */
    enum pool_state lease_from; /* what an undone lease goes back to; FREE: discovered,
                                 * STARTING: made for it */
    enum pool_source source;
    bool is_asked;    /* an answer is owed to a create, probe or destroy; LEASED: by its agent */
    bool is_checking; /* the backend owes an answer to a check */
    bool is_made;     /* by this process: its failure counts against the profile */
    bool is_unheard;  /* its backend gave no word on its create: it may exist */
    bool is_missing;  /* the last clean listing did not show it, and nothing has since */
    bool is_asking;   /* the check is, or is also, because of that */
    bool is_silent;   /* it was not answered: asked again when the next listing does not show it */
    unsigned misses;  /* listings without it and without an answer, in a row */
    uint64_t missed_ns;  /* when the last of them was counted */
    uint64_t heard_ns;   /* last answer of its agent; a listing only says that it is there */
    uint64_t hear_ns;    /* owned, unwatched: asked next */
    unsigned absences;   /* times it was found absent, in a row */
    uint64_t absent_ns;  /* when the last of them was counted */
    uint64_t pulse_ns;   /* BLANK: asked next; LEASED: its agent is asked again */
    unsigned unanswered; /* BLANK, LEASED: times it was asked in vain, in a row */
    bool is_mute;        /* BLANK: has not answered, so nobody is given it */
    bool is_vouched;     /* its backend says that it is ready: there is nothing to ask */
    bool is_reverted;    /* its newest write failed: the deadline is the one the store has */
    bool is_used;        /* its token or address may be known to somebody: never blank again */
    bool is_known;       /* LEASED: its owner has done something with it: no longer undone */
    bool was_parked;     /* PARKING: nobody holds it, but its row may still say otherwise */
    bool is_spoiled;     /* LEASED: half changed for its owner, who has not been told of it */
};

enum waiter_phase {
    WAITER_FREE,
    WAITER_NEW,         /* being dispatched */
    WAITER_REDO,        /* to be dispatched again before the step ends */
    WAITER_QUEUED,      /* wants a box; in its user's turn */
    WAITER_JOINED,      /* shares the place of another waiter of its thread */
    WAITER_DISCOVERING, /* the backend is asked for its id */
    WAITER_PAUSED,      /* the box made for it failed: tries again at `retry_ns` */
    WAITER_BOX,         /* its box is between two states */
    WAITER_CHECKING,    /* its box is being checked */
    WAITER_COMMIT,      /* its box's row is being written: `write` */
    WAITER_DELETED,     /* its box's `deleting` row is being written */
    WAITER_GONE,        /* its box is being destroyed */
    WAITER_PHASE_COUNT
};

struct waiter {
    struct req_id req;
    enum pool_event_kind kind; /* ACQUIRE RELEASE RENEW DESTROY */
    enum waiter_phase phase;
    struct pool_acquire acquire;
    uint64_t since_ns;
    uint64_t retry_ns;                /* special: no box is made for it before */
    unsigned tries;                   /* boxes made for it that failed */
    char reason[POOL_REASON_MAX + 1]; /* of the last of them */
    uint64_t epoch;                   /* of its discovery */
    uint64_t commit_ns; /* its commits have time until then, also beyond its deadline */
    uint64_t write;
    struct slot *slot;         /* BOX CHECKING COMMIT DELETED GONE */
    struct turn *turn;         /* QUEUED */
    struct list_node age_link; /* QUEUED, in the profile's queue */
    struct waiter *primary;    /* JOINED */
    struct list joined;
    struct list_node link; /* of the list its phase names */
    struct map_node by_req;
    struct map_node by_sandbox; /* QUEUED, DISCOVERING, PAUSED */
    struct heap_node deadline;
    bool is_checked;
    unsigned silences; /* times its box did not answer */
    bool is_discovered;
    bool is_counted; /* in the arrival rate */
    bool was_queued;
};

/* A principal of which somebody waits. */
struct party {
    uint64_t principal;
    unsigned waiting;      /* its part of pool.waiting */
    uint64_t made;         /* turn at which a box was last made for one of its requests */
    struct list groups;    /* the lines it waits in */
    struct list_node link; /* free list */
    struct map_node by_principal;
};

/* The waiting acquires of one principal in one line of a profile. */
struct group {
    unsigned profile;
    enum line line;
    struct party *party;
    uint64_t since;        /* turn at which it went to the end of its line */
    struct list turns;     /* of its users, never empty while in use; the first is served next */
    struct list_node link; /* free list, or the profile's round */
    struct list_node party_link;
    struct map_node by_line;
};

/* The waiting acquires of one user of a group, first come first served. */
struct turn {
    struct group *group;
    struct list waiters;   /* never empty while in use */
    struct list_node link; /* free list, or the group's turns */
    struct map_node by_user;
};

struct profile {
    struct pool_profile conf;
    struct list blank[BLANK_KIND_COUNT];
    struct list round[LINE_COUNT]; /* groups; the first is served next */
    struct list queue;             /* all of them, the oldest first */
    unsigned by_state[POOL_STATE_COUNT];
    unsigned making; /* will be blank: not bound, and INTENT to STARTING or unseen blank */
    unsigned waiting[LINE_COUNT]; /* queued, joined ones not counted */
    unsigned flying;              /* being made for one acquire: bound, and INTENT or CREATING */
    unsigned landing;             /* the same, STARTING */
    unsigned hearing;             /* blank boxes that are asked before somebody gets them */
    unsigned meant;               /* by acquires that wait, wherever: its place is theirs */
    double arrivals;              /* decayed count */
    uint64_t arrivals_ns;
    uint64_t provision_ns;
    unsigned failures;
    bool is_open;
    bool is_away; /* the last listing of its backend failed */
    bool is_surplus;
    uint64_t surplus_ns; /* since when */
    uint64_t retry_ns;
    uint64_t failed_ns; /* the last time, as `reason` says */
    char reason[POOL_REASON_MAX + 1];
    uint64_t warm_hits;
    uint64_t cold_starts;
};

struct past {
    char sandbox_id[POOL_ID_MAX + 1];
    enum pool_end end;
    uint64_t generation; /* 0: entry not in use */
    uint64_t principal;
    struct map_node by_sandbox;
};

struct orphan {
    struct box_id id;
    uint64_t listing; /* that showed it last; 0: entry not in use */
    unsigned backend;
};

struct recent {
    struct box_id id;
    unsigned profile;
    unsigned backend;
    uint64_t freed_ns;
};

struct pool {
    uint64_t now_ns;
    struct rand rand;
    unsigned max_boxes;
    unsigned max_waiters;
    void (*make_token)(void *ctx, char *dst);
    void *make_token_ctx;
    enum pool_mode mode;
    bool want_parked_gone;
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

    struct past *past;
    size_t past_count;
    size_t past_next;
    uint64_t past_floor;
    struct map pasts;
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
    struct pool_box stray;            /* a box to destroy that has no slot */
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

static inline struct slot *slot_of(struct list_node *link)
{
    return container_of(link, struct slot, link);
}

static inline struct waiter *waiter_of(struct list_node *link)
{
    return container_of(link, struct waiter, link);
}

static inline enum line line_of(const struct waiter *w)
{
    return w->acquire.is_special ? LINE_SPECIAL : LINE_BLANK;
}

static inline struct profile *profile_of(struct pool *p, const struct slot *s)
{
    return &p->profiles[s->box.profile];
}

/* box.c: slots and the one function that changes a state. */
struct slot *box_find(const struct pool *p, struct box_id id);
struct slot *box_take(struct pool *p); /* zeroed, not yet known; NULL when none is left */
struct box_id box_mint_id(struct pool *p);
void box_enter(struct pool *p, struct slot *s, enum pool_state state);
void box_set_state(struct pool *p, struct slot *s, enum pool_state next);
void box_relink(struct pool *p, struct slot *s); /* after a change of what decides its list */
/* The owner its labels name, whose id is free. */
void box_take_owner(struct pool *p, struct slot *s, const struct pool_seen *seen);
void box_rank(struct pool *p, struct slot *s); /* after a change of what may end it */
void box_set_doubt(struct pool *p, struct slot *s, bool is_missing, bool is_silent);
void box_recycle_freed(struct pool *p);
void box_mark_dirty(struct pool *p, struct slot *s, uint64_t not_before_ns);
void box_unmark_dirty(struct pool *p, struct slot *s);
uint64_t box_write(struct pool *p, struct slot *s, enum pool_write what);
bool box_is_dying(const struct slot *s);
bool box_is_making(const struct slot *s);
bool box_is_special(const struct slot *s); /* being made for those who wait for it */
enum blank_kind box_blank_kind(const struct pool *p, const struct slot *s);
/* Its backend tells of its death. */
bool box_is_watched(const struct pool *p, const struct slot *s);
bool box_is_hearing(const struct slot *s); /* blank, and asked before somebody gets it */
void box_take_life(struct pool *p, struct slot *s, const char *life);
void box_check(struct pool *p, struct slot *s,
               uint64_t deadline_ns); /* unless it is being checked */

/* bind.c: which id belongs to which box. */
struct slot *bind_find(const struct pool *p, const char *sandbox_id);
void bind_owner(struct pool *p, struct slot *s, const struct pool_acquire *a);
void bind_link(struct pool *p, struct slot *s);
void bind_cut(struct pool *p, struct slot *s); /* the id is free again, the box keeps its text */
void bind_clear(struct pool *p, struct slot *s);
void bind_claim(struct pool *p, struct slot *s); /* waiters of the id turn to the found box */

/* past.c */
uint64_t past_next_generation(const struct pool *p, const char *sandbox_id);
void past_remember(struct pool *p, const char *sandbox_id, uint64_t generation, enum pool_end end,
                   uint64_t principal);
void past_drop(struct pool *p, const char *sandbox_id);
const struct past *past_find(const struct pool *p, const char *sandbox_id);

/* turns.c: the fair queue of a profile. */
void party_enter(struct pool *p, struct waiter *w); /* it waits from now on */
void party_leave(struct pool *p, const struct waiter *w);
bool party_may_wait(const struct pool *p, uint64_t principal); /* one more of its requests */
struct turn *turn_find(const struct pool *p, const struct group *g, const char *user);
void turn_push(struct pool *p, struct waiter *w);
void turn_remove(struct pool *p, struct waiter *w);
/* Both are of the same principal. */
void turn_replace(struct pool *p, struct waiter *old, struct waiter *heir);
/* Since when the oldest waits; POOL_NEVER: nobody. */
uint64_t turn_oldest_ns(const struct profile *f);
/* Served next; NULL when nobody waits. */
struct waiter *turn_head(const struct profile *f, enum line line);
/* Whether a box is to be made for the head of this line rather than for `other`; NULL is last. */
bool turn_is_before(const struct profile *f, enum line line, const struct waiter *other);
void turn_made(struct pool *p, const struct waiter *w); /* a box is being made for it */
/* The head is being served: the others of its line come first from now on. */
void turn_rotate(struct pool *p, struct profile *f, enum line line);
void turn_refuse_all(struct pool *p, struct profile *f, enum line line, const struct refusal *r);

/* waiter.c: one request that cannot be answered yet. */
struct waiter *waiter_new(struct pool *p, const struct pool_event *ev); /* NULL when full */
struct waiter *waiter_find(const struct pool *p, struct req_id req);
struct waiter *waiter_find_thread(const struct pool *p, const char *sandbox_id);
void waiter_enter(struct pool *p, struct waiter *w, enum waiter_phase phase);
void waiter_join(struct pool *p, struct waiter *w, struct waiter *primary);
/* To the box, with everyone who joined it. */
void waiter_attach(struct pool *p, struct waiter *w, struct slot *s, enum waiter_phase phase,
                   uint64_t write);
void waiter_redo_all(struct pool *p, struct slot *s); /* those that wait for a stable state */
/* All three end the waiter; who joined it takes its place. */
void waiter_ok(struct pool *p, struct waiter *w, struct slot *s, enum pool_source source);
void waiter_refuse(struct pool *p, struct waiter *w, const struct refusal *r);
void waiter_end(struct pool *p, struct waiter *w);
void waiter_refuse_waiting(struct pool *p, const struct refusal *r);
void waiter_overdue(struct pool *p, struct waiter *w); /* its deadline has passed: answered */
void waiter_store_down(struct pool *p);                /* answers all that wait for the store */

/* acquire.c */
void acquire_step(struct pool *p, const struct pool_event *ev);
void acquire_dispatch(struct pool *p, struct waiter *w);
void acquire_redo(struct pool *p);
void acquire_checked(struct pool *p, const struct pool_event *ev);
void acquire_discovered(struct pool *p, const struct pool_event *ev);
struct refusal acquire_refusal(struct pool *p, const struct waiter *w);

/* lease.c */
struct slot *lease_find_blank(struct pool *p, unsigned profile);
enum pool_source lease_source(const struct slot *s, const struct waiter *w); /* of a blank one */
void lease_begin(struct pool *p, struct slot *s, struct waiter *w, enum pool_source source);
void lease_keep(struct pool *p, struct slot *s, struct waiter *w);
void lease_keep_old(struct pool *p, struct slot *s, struct waiter *w);
void lease_extend(struct pool *p, struct slot *s, struct waiter *w, uint64_t ttl_ns);
void lease_stored(struct pool *p, struct slot *s);
void lease_failed(struct pool *p, struct slot *s);
void lease_undelivered(struct pool *p, const struct pool_event *ev);
void lease_left(struct pool *p, struct slot *s); /* somebody who waited for it has left */
void lease_touch(struct pool *p, struct slot *s, uint64_t at_ns); /* its owner was at work */
void lease_activity(struct pool *p, const struct pool_event *ev);

/* release.c */
void release_step(struct pool *p, const struct pool_event *ev);
void release_stored(struct pool *p, struct slot *s);
void release_failed(struct pool *p, struct slot *s);

/* doom.c: the end of a box. */
void doom_box(struct pool *p, struct slot *s, enum pool_end end);
void doom_died(struct pool *p, struct slot *s, enum pool_end end);
void doom_stored(struct pool *p, struct slot *s);
void doom_unrecorded(struct pool *p, struct slot *s); /* destroyed before its row is written */
void doom_failed(struct pool *p, struct slot *s);
void doom_destroy(struct pool *p, struct slot *s);
void doom_destroyed(struct pool *p, const struct pool_event *ev);
void doom_gone(struct pool *p, struct slot *s);
void doom_answer(struct pool *p, struct waiter *w); /* 202, or why not, before the box is gone */
void doom_late_created(struct pool *p, const struct pool_event *ev);

/* admit.c: who gets the places there are; runs at the end of every step. */
void admit_run(struct pool *p);
void admit_count_arrival(struct pool *p, struct profile *f);
double admit_rate(const struct profile *f, uint64_t now_ns);
unsigned admit_target(const struct profile *f, uint64_t now_ns);

/* writes.c: answers of the store. */
void writes_answered(struct pool *p, const struct pool_event *ev, bool is_ok);
void writes_store_state(struct pool *p, bool is_up);
uint64_t writes_flush(struct pool *p); /* returns when to try the rest */

/* mode.c, reconfig.c */
void mode_step(struct pool *p, const struct pool_event *ev);
void space_step(struct pool *p, const struct pool_event *ev); /* space.c */
void mode_drain(struct pool *p);
void reconfig_step(struct pool *p, const struct pool_config *config);
void reconfig_init_profile(struct pool *p, unsigned index, const struct pool_profile *conf);
const char *check_waiters(const struct pool *p);

#endif
