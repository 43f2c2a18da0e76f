/* pool.h - the pool: a deterministic state machine with no I/O, no clock and no allocation after
 * pool_new(). Events go in, effects come out:
 *
 *     pool_step(pool, now_ns, &event);
 *     while (pool_next_fx(pool, &fx)) perform(&fx);
 *
 * Whoever performs an effect answers it with exactly one event that carries the same box and
 * epoch. An answer whose epoch is not the box's current one is counted and dropped, except
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
 * BLANK again once its lease was committed, because its token may be known; a check that failed says nothing about the box; max_boxes counts boxes being made and being destroyed. */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define POOL_NAME_MAX 64   /* profile, backend */
#define POOL_OWNER_MAX 128 /* user_id, thread_id */
#define POOL_ID_MAX 64     /* public sandbox_id */
#define POOL_URL_MAX 192
#define POOL_TOKEN_MAX 64
#define POOL_REF_MAX 128 /* the backend's own name of the box */
#define POOL_LIFE_MAX 32 /* which start of a box: changes when it is started again */
#define POOL_REASON_MAX 160
#define POOL_PROFILES_MAX 64
#define POOL_NEVER UINT64_MAX

/* Ids are structs so that the compiler catches a mix-up. Zero is no id. */
struct box_id {
    uint64_t v;
};
struct req_id {
    uint64_t v;
};

enum pool_state {
    POOL_FREE,       /* slot not in use */
    POOL_INTENT,     /* intent row on its way to the store */
    POOL_CREATING,   /* backend asked */
    POOL_STARTING,   /* exists; being probed until ready */
    POOL_BLANK,      /* ready, never owned */
    POOL_LEASING,    /* lease row on its way to the store */
    POOL_LEASED,     /* owned */
    POOL_PARKING,    /* parked row on its way to the store */
    POOL_PARKED,     /* released, kept for the same thread only */
    POOL_DOOMED,     /* `deleting` row on its way to the store */
    POOL_DESTROYING, /* backend asked to destroy */
    POOL_FORGETTING, /* gone; row being removed */
    POOL_STATE_COUNT
};
const char *pool_state_name(enum pool_state state); /* "free", "intent", ... */

/* How an acquire was served; the `source` of the API. */
enum pool_source {
    POOL_SRC_NONE,
    POOL_SRC_KEPT,       /* the thread's leased box */
    POOL_SRC_PARKED,     /* the thread's parked box */
    POOL_SRC_DISCOVERED, /* ran already under this id */
    POOL_SRC_WARM,       /* a blank box */
    POOL_SRC_COLD,       /* made for it */
    POOL_SRC_RESTORED,   /* from a snapshot */
    POOL_SRC_COUNT
};
const char *pool_source_name(enum pool_source source);

/* Why a box ended; shown to its owner and in events. */
enum pool_end {
    POOL_END_NONE,
    POOL_END_RELEASED, /* release with destroy, anonymous release, abandoned delivery */
    POOL_END_DESTROYED,
    POOL_END_TTL,
    POOL_END_IDLE,
    POOL_END_EVICTED,
    POOL_END_DIED, /* the backend says it is dead or it is absent from a clean list */
    POOL_END_AGED,
    POOL_END_DRIFT,
    POOL_END_SHRUNK,
    POOL_END_DRAINED,
    POOL_END_CREATE_FAILED,
    POOL_END_NOT_READY,
    POOL_END_ORPHAN,
    POOL_END_NETLESS,   /* what served its network has ended, so the box was, too */
    POOL_END_RESTARTED, /* died with the machine, which has started anew since */
    POOL_END_UNGUARDED, /* the guard of its sockets has ended, so the box was, too */
    POOL_END_COUNT
};
const char *pool_end_name(enum pool_end end);
/* Whether the owner did not end it itself: its next call is told SP_SANDBOX_LOST. */
bool pool_end_is_loss(enum pool_end end);
/* Whether nobody ended it. */
bool pool_end_is_death(enum pool_end end);

enum pool_verdict {
    POOL_UNKNOWN,
    POOL_ALIVE,
    POOL_DEAD,
    POOL_SILENT, /* its backend says that it runs, but it does not answer itself */
    POOL_ABSENT, /* its backend does not know it, and it does not answer: a question, not yet dead */
    POOL_VERDICT_COUNT
};

/* What the agent of a box says. */
enum pool_use {
    POOL_USE_UNKNOWN, /* it was not reached, which says nothing about the box */
    POOL_USE_NONE,    /* nothing runs; somebody was served last at `active_ns` */
    POOL_USE_BUSY,    /* a request is being served, or what was started through it runs */
    POOL_USE_CANNOT,  /* the box has no agent that could tell */
    POOL_USE_COUNT
};

enum pool_mode { POOL_RUNNING, POOL_PAUSED, POOL_DRAINING, POOL_MODE_COUNT };
const char *pool_mode_name(enum pool_mode mode);

/* A profile as the pool sees it; all durations in ns, 0 means "never" where it says so. */
struct pool_profile {
    char name[POOL_NAME_MAX + 1];
    uint64_t spec_hash; /* what a box is made from; a blank box with another hash has drifted */
    unsigned backend;   /* index the engine gave it */
    bool is_retired;    /* no longer in the config: nothing new, its blanks go */
    bool want_discover; /* ask the backend for the id before using a blank box */
    bool is_watched;    /* the backend tells of deaths by itself, so kept boxes need no check */
    bool can_bind;      /* its boxes have labels that name their owner: see POOL_FX_BIND */
    bool is_elsewhere;  /* a box that starts costs this machine nothing: only calls are counted */
    unsigned warm_min;
    unsigned warm_max;
    unsigned create_max; /* creates in flight; with is_elsewhere those not yet answered, else also
                          * boxes that are not ready */
    uint64_t create_timeout_ns; /* backend's part */
    uint64_t ready_timeout_ns;  /* the probe's part */
    uint64_t destroy_timeout_ns;
    uint64_t ttl_ns;     /* default lease time; 0 never */
    uint64_t idle_ns;    /* leased box without activity; 0 never */
    uint64_t park_ns;    /* parked box; 0: release destroys */
    uint64_t max_age_ns; /* blank box, jittered down by up to a tenth; 0 never */
    uint64_t shrink_ns;  /* surplus blank boxes are kept this long */
    uint64_t
        check_after_ns; /* unwatched: a box that has not answered for so long is asked before it
                              * is given, a blank one too */
    uint64_t blank_check_ns; /* a blank box unseen this long is asked before it is given; 0 never */
    uint64_t backoff_min_ns; /* after a failed create */
    uint64_t backoff_max_ns;
    unsigned breaker_after; /* consecutive failures that open the circuit */
};

struct pool_config {
    unsigned max_boxes;   /* hard cap */
    unsigned max_waiters; /* acquires that wait, and requests that wait for a commit */
    /* Of the places in the queue that it has and that are free, a principal may use this part; 0 or
     * 100: all of them. */
    unsigned share_percent;
    uint64_t seed;        /* ids, jitter */
    unsigned restore_max; /* room for this many restored boxes, when more than max_boxes */
    /* Fills `dst` (POOL_TOKEN_MAX + 1 bytes) with the bearer token of a new box before its intent
     * is stored. The pool is deterministic, so the secret comes from outside. NULL: no tokens. */
    void (*make_token)(void *ctx, char *dst);
    void *make_token_ctx;
    unsigned profile_count;
    struct pool_profile profiles[POOL_PROFILES_MAX];
};

/* One box, as views, effects and the store see it. Times are monotonic ns. */
struct pool_box {
    struct box_id id;
    uint64_t epoch; /* changes whenever an answer to an older effect must no longer count */
    enum pool_state state;
    unsigned profile;
    unsigned backend; /* that runs it: the profile's, unless the profile was moved to another one */
    uint64_t spec_hash;
    uint64_t made_with;               /* of the acquire it was made for; 0: nothing special */
    char sandbox_id[POOL_ID_MAX + 1]; /* "" while blank */
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1]; /* "" when anonymous */
    uint64_t principal;              /* who acquired it: uid, or a token's id */
    uint64_t generation;
    char url[POOL_URL_MAX + 1];
    char token[POOL_TOKEN_MAX + 1];
    char ref[POOL_REF_MAX + 1];
    char life[POOL_LIFE_MAX + 1]; /* as it answered last; "": not known */
    uint64_t order; /* grows with every box, and when it gets an owner: listings follow it */
    uint64_t created_ns;
    uint64_t ready_ns;
    uint64_t leased_ns;
    uint64_t parked_ns;
    uint64_t active_ns;  /* last activity of its owner; a row is behind by idle_ns / 4 at most, and
                          * pool_restore_box() forgives as much */
    uint64_t seen_ns;    /* last proof of life */
    uint64_t expires_ns; /* lease deadline, POOL_NEVER for none */
    uint64_t idle_ns;    /* lease's idle limit, POOL_NEVER for none */
    unsigned busy;       /* commands and streams running: the idle clock holds still */
    enum pool_end end;   /* why it is doomed */
    bool is_unseen;      /* restored, and no listing has shown it yet */
    bool is_rebooted;    /* restored, of this machine, which has started anew since */
    bool is_stale;       /* restored from what may be an older copy of the rows: without an owner in
                          * row and labels it is destroyed, not blank */
};

/* --- events --- */

enum pool_event_kind {
    /* from callers; each is answered with one POOL_FX_REPLY, unless abandoned before */
    POOL_EV_ACQUIRE,
    POOL_EV_RELEASE,
    POOL_EV_RENEW,
    POOL_EV_DESTROY,
    POOL_EV_ABANDON,     /* the caller of `req` hung up: no reply wanted */
    POOL_EV_UNDELIVERED, /* an acquire reply on `box`, of its epoch, could not be given: undo when
                          * nobody else was told */
    POOL_EV_ACTIVITY,    /* u.activity.delta: +1 work starts, -1 ends, 0 a touch */
    /* answers of backends */
    POOL_EV_CREATED,
    POOL_EV_CREATE_FAILED,
    POOL_EV_PROBED,
    POOL_EV_CHECKED,
    POOL_EV_DISCOVERED,
    POOL_EV_USED,      /* u.used */
    POOL_EV_DESTROYED, /* u.failed: not gone, it will be tried again */
    POOL_EV_DIED,      /* told by the backend, no epoch */
    POOL_EV_NETLESS,   /* likewise; ended because its network had */
    POOL_EV_UNGUARDED, /* likewise; because the guard of its sockets had */
    POOL_EV_ABSENT, /* somebody else has found that it neither answers nor is known to its backend */
    POOL_EV_LISTED, /* what a backend runs; the join of section "restart" */
    /* answers of the store */
    POOL_EV_STORED,
    POOL_EV_STORE_FAILED,
    POOL_EV_STORE_STATE,
    /* the world */
    POOL_EV_SPACE, /* whether there is space for new boxes */
    POOL_EV_WAKE,
    POOL_EV_RECONFIG,
    POOL_EV_MODE,
    POOL_EV_COUNT
};

struct pool_acquire {
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1];  /* "": anonymous */
    char sandbox_id[POOL_ID_MAX + 1]; /* never "": computed, given or random by the caller */
    uint64_t principal;
    bool is_operator; /* may take over a box another principal holds */
    unsigned profile;
    bool is_profile_named; /* false: whatever profile the thread's box has is fine */
    uint64_t deadline_ns;  /* absolute; now: do not wait */
    uint64_t ttl_ns;       /* 0: the profile's */
    uint64_t idle_ns;      /* 0: the profile's */
    /* Not served by a blank box: one is made for it, whose intent names its owner. */
    bool is_special;
    uint64_t made_with; /* what that box is to have from birth, as a hash; the pool only keeps it */
};

/* What a backend says about one box it runs. */
struct pool_seen {
    struct box_id id;
    char sandbox_id[POOL_ID_MAX + 1];
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1];
    uint64_t generation;
    uint64_t principal;
    char profile[POOL_NAME_MAX + 1];
    uint64_t spec_hash;
    char url[POOL_URL_MAX + 1];
    char token[POOL_TOKEN_MAX + 1];
    char ref[POOL_REF_MAX + 1];
    char life[POOL_LIFE_MAX + 1]; /* if it was asked */
    bool is_foreign;              /* made by somebody else: only an acquire of its id takes it */
    bool is_absent;               /* the backend has its name and does not know whether it runs */
};

struct pool_event {
    enum pool_event_kind kind;
    struct req_id req;            /* caller events */
    struct box_id box;            /* answers; and DESTROY/DIED/ACTIVITY by internal id when not 0 */
    uint64_t epoch;               /* answers; UNDELIVERED: of the reply's snapshot */
    char life[POOL_LIFE_MAX + 1]; /* PROBED, CHECKED: of the box that answered; "": not known */
    union {
        struct pool_acquire acquire;
        struct {
            char sandbox_id[POOL_ID_MAX + 1];
            uint64_t generation; /* 0: whatever it is */
            uint64_t principal;
            bool is_operator;
            bool want_destroy; /* RELEASE: destroy instead of park */
            uint64_t ttl_ns;   /* RENEW: from now; 0: the profile's */
            bool is_quick;     /* DESTROY: reply when committed, do not wait until it is gone */
        } on;                  /* RELEASE, RENEW, DESTROY */
        struct {
            int delta;
        } activity;
        struct {
            bool is_spoiled; /* a fresh box is half changed: it is of no use to its owner either */
        } undelivered;
        struct {
            char url[POOL_URL_MAX + 1];
            char ref[POOL_REF_MAX + 1];
            bool is_ready;    /* the backend vouches for readiness: no probe */
            unsigned backend; /* that made it */
        } created;
        struct {
            int code; /* enum sp_error; SP_OK for success where the event has both */
            char reason[POOL_REASON_MAX + 1];
        } failed;                  /* CREATE_FAILED, PROBED, DESTROYED, STORE_FAILED */
        enum pool_verdict verdict; /* CHECKED */
        struct {
            enum pool_use use;
            uint64_t active_ns;
        } used;
        struct {
            bool is_found;
            bool is_unknown; /* the question itself failed */
            struct pool_seen seen;
        } discovered;
        struct {
            unsigned backend;
            bool is_clean;       /* false: the listing failed, nothing follows from it */
            uint64_t started_ns; /* boxes that changed after this are left alone */
            const struct pool_seen *seen;
            size_t count;
            /* A long listing comes in parts, of one listing at a time, so that no step is long: those that show
             * boxes, then those that only look for boxes that were not shown, at `look` slots each, then the last
             * one, which looks at the rest. */
            bool is_later;   /* not its first part */
            bool is_partial; /* more parts follow */
            size_t look;
        } listed;
        struct {
            uint64_t write; /* of POOL_FX_STORE; this, not the epoch, says which write it was */
            uint64_t expires_ns; /* the lease deadline in the row it wrote */
        } stored;                /* STORED; STORE_FAILED too (then u.stored is valid, no reason) */
        bool is_store_up;        /* STORE_STATE */
        struct {
            bool is_low; /* no new box is made */
            char reason[POOL_REASON_MAX + 1];
        } space;
        const struct pool_config *reconfig; /* RECONFIG: profiles only; sizes stay */
        struct {
            enum pool_mode mode;
            bool want_parked_gone; /* DRAINING: parked boxes go too */
        } mode;
    } u;
};

/* --- effects --- */

enum pool_fx_kind {
    POOL_FX_STORE,    /* write what `what` says of the box; answer STORED or STORE_FAILED */
    POOL_FX_CREATE,   /* answer CREATED or CREATE_FAILED */
    POOL_FX_PROBE,    /* poll until ready; answer PROBED */
    POOL_FX_CHECK,    /* is_alive; answer CHECKED */
    POOL_FX_ASK_USE,  /* ask the agent whether anything is at work in the box; answer USED */
    POOL_FX_DISCOVER, /* by box.sandbox_id; answer DISCOVERED (box id is a placeholder's) */
    POOL_FX_DESTROY,  /* answer DESTROYED; box.ref may be "" when a create was cut short */
    POOL_FX_BIND, /* tell the backend the owner (labels, name), and try until it is done; no answer */
    POOL_FX_REPLY, /* answer `req` */
    POOL_FX_EVENT, /* audit trail and live events; no answer */
    POOL_FX_COUNT
};

enum pool_write {
    POOL_WRITE_BOX,      /* box row as it is now (state column from `state`) */
    POOL_WRITE_LEASE,    /* box row and its lease row (binds the id, or renews, or parks) */
    POOL_WRITE_DELETING, /* box row says `deleting`; its lease row, if any, is ended with `end` */
    POOL_WRITE_FORGET,   /* box row removed */
    POOL_WRITE_MODE,     /* the pool's mode (no box) */
    POOL_WRITE_COUNT
};

enum pool_fact { /* kinds of POOL_FX_EVENT */
                 POOL_FACT_CREATED,
                 POOL_FACT_READY,
                 POOL_FACT_LEASED,
                 POOL_FACT_RENEWED,
                 POOL_FACT_PARKED,
                 POOL_FACT_DOOMED,
                 POOL_FACT_GONE,
                 POOL_FACT_LOST,
                 POOL_FACT_ADOPTED,
                 POOL_FACT_CREATE_FAILED,
                 POOL_FACT_BREAKER_OPEN,
                 POOL_FACT_BREAKER_CLOSED,
                 POOL_FACT_MODE,
                 POOL_FACT_MISSING, /* a clean listing does not show boxes: each is asked for */
                 POOL_FACT_DISK_LOW,
                 POOL_FACT_DISK_OK,
                 POOL_FACT_EXHAUSTED,    /* all boxes are in use, and somebody wants one */
                 POOL_FACT_AVAILABLE,    /* that has been over for a while */
                 POOL_FACT_IDLE_UNKNOWN, /* its agent did not answer: taken as idle */
                 POOL_FACT_COUNT
};
const char *pool_fact_name(enum pool_fact fact);

struct pool_fx {
    enum pool_fx_kind kind;
    struct box_id box;
    uint64_t epoch;
    uint64_t deadline_ns; /* CREATE PROBE CHECK ASK_USE DISCOVER DESTROY */
    struct req_id req;    /* REPLY */
    union {
        struct {
            enum pool_write what;
            uint64_t write; /* number of this write, to be given back */
        } store;
        struct {
            int code;
            enum pool_source source;
            uint64_t retry_after_ns; /* 0: no idea */
            enum pool_end lost;      /* SP_SANDBOX_LOST: why */
            uint64_t queued_ns;      /* how long the acquire waited */
        } reply;
        struct {
            bool is_missing; /* a listing did not show it: its backend is asked in any case */
        } check;
        struct {
            enum pool_fact fact;
            enum pool_end end;
        } event;
    } u;
    /* The box as it was when the effect was made (REPLY with SP_OK, STORE, EVENT and all backend
     * effects); box.id is 0 when there is none. Copied, so it stays true while queued. */
    struct pool_box snapshot;
    char reason[POOL_REASON_MAX + 1]; /* REPLY failures, EVENT details */
};

/* --- the pool --- */

struct pool;

MUST_CHECK struct pool *pool_new(const struct pool_config *config);
struct pool *pool_free(struct pool *p);

/* Boot only, before the first step: one call per row of the store. Leased, parked and blank rows
 * stand as they were and are `is_unseen`; intent rows wait for a listing; deleting rows are
 * destroyed again. False when the row does not fit (no slot left, bad profile index). `token` and
 * the rest come from the row. Times are already monotonic, and may lie before `now`. */
MUST_CHECK bool pool_restore_box(struct pool *p, const struct pool_box *row);
/* Ended bindings that must not be forgotten: the id's last generation and why it ended. */
void pool_restore_past(struct pool *p, const char *sandbox_id, uint64_t generation,
                       enum pool_end end, uint64_t principal);
/* No id unknown to the past was ever bound with a generation above this one. */
void pool_restore_floor(struct pool *p, uint64_t generation);
void pool_restore_mode(struct pool *p, enum pool_mode mode);

void pool_step(struct pool *p, uint64_t now_ns, const struct pool_event *ev);
/* Takes the oldest effect; false when there is none. */
bool pool_next_fx(struct pool *p, struct pool_fx *ret);
/* When POOL_EV_WAKE is due; POOL_NEVER when nothing waits for time. */
uint64_t pool_next_wake(const struct pool *p);

/* Whether the listings of this backend have left nothing open: a restored box that none has shown, one
 * that is missing, one that no row knows. Otherwise another listing is wanted soon. Looks at all boxes. */
bool pool_is_settled(const struct pool *p, unsigned backend);
/* The same of the listing whose last part has just come, without looking again. */
bool pool_is_all_listed(const struct pool *p, unsigned backend);

/* --- views, valid until the next step --- */

/* Its lease is committed, by rows that are not in doubt: address and token may be shown to its owner. Whatever shows them of a box in
 * another state lets somebody keep a token that the next owner of a blank box gets. */
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
/* The same among those that are, or were until their end began, of one principal; and the next one. Costs
 * nothing for the boxes of others. */
const struct pool_box *pool_first_of(const struct pool *p, uint64_t principal, uint64_t after);
const struct pool_box *pool_next_of(const struct pool_box *box);
const struct pool_box *pool_slot(const struct pool *p, size_t index); /* from 0; or NULL */
size_t pool_slot_count(const struct pool *p);

/* Invariants. NULL when all hold, else a sentence. Tests call it after every step. */
const char *pool_check(const struct pool *p);

#include "pool/views.h" /* counts of the pool and of its profiles */
#endif
