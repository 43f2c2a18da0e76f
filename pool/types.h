/* types.h - boxes, profiles and the configuration as the pool uses them, and the names of states,
 * sources and ends. Part of pool.h. */
#ifndef POOL_TYPES_H
#define POOL_TYPES_H

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
#define POOL_BACKENDS_MAX 128 /* their indexes are below this */
#define POOL_NEVER UINT64_MAX

/* Ids are structs so that the compiler detects a mix-up. Zero is not an id. */
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
    POOL_END_DIED, /* the backend reports that it is dead, or a clean listing does not show it */
    POOL_END_AGED,
    POOL_END_DRIFT,
    POOL_END_SHRUNK,
    POOL_END_DRAINED,
    POOL_END_CREATE_FAILED,
    POOL_END_NOT_READY,
    POOL_END_ORPHAN,
    POOL_END_NETLESS,   /* its network process has ended, so the box was ended, too */
    POOL_END_RESTARTED, /* ended with the machine, which has restarted since */
    POOL_END_UNGUARDED, /* the guard of its sockets has ended, so the box was ended, too */
    POOL_END_KERNEL_MEMORY, /* ended, because it held too much memory of the machine outside its limit */
    POOL_END_HIBERNATED, /* its files are in a snapshot, and its thread's next acquire restores them */
    POOL_END_NOT_KEPT, /* its files were to be in one, but there are too many, at least of its principal */
    POOL_END_COUNT
};
const char *pool_end_name(enum pool_end end);
/* Whether it ended without a request of its owner: the next call gets SP_SANDBOX_LOST. */
bool pool_end_is_loss(enum pool_end end);
/* Whether nobody ended it. */
bool pool_end_is_death(enum pool_end end);

enum pool_verdict {
    POOL_UNKNOWN,
    POOL_ALIVE,
    POOL_DEAD,
    POOL_SILENT, /* its backend reports that it runs, but it does not answer itself */
    POOL_ABSENT, /* its backend does not know it, and it does not answer: not yet counted as dead */
    POOL_VERDICT_COUNT
};

/* The answer of a box's agent. */
enum pool_use {
    POOL_USE_UNKNOWN, /* it was not reached, which proves nothing about the box */
    POOL_USE_NONE,    /* nothing runs; the last request was served at `active_ns` */
    POOL_USE_BUSY,    /* a request is being served, or what was started through it runs */
    POOL_USE_CANNOT,  /* the box has no agent that could answer */
    POOL_USE_COUNT
};

enum pool_mode { POOL_RUNNING, POOL_PAUSED, POOL_DRAINING, POOL_MODE_COUNT };
const char *pool_mode_name(enum pool_mode mode);

/* What becomes of a parked box at its thread's next acquire, when its profile is not what it was made from any more. */
enum pool_drift {
    POOL_DRIFT_KEEP,    /* the thread gets it */
    POOL_DRIFT_DESTROY, /* and the thread gets a new one */
    POOL_DRIFT_REBASE,  /* it becomes a snapshot, from which the next one is made */
    POOL_DRIFT_COUNT
};

/* A profile as the pool sees it; all durations in ns, 0 means "never" where it says so. */
struct pool_profile {
    char name[POOL_NAME_MAX + 1];
    uint64_t spec_hash; /* what a box is made from; a blank box with another hash has drifted */
    unsigned backend;   /* index the engine gave it */
    bool is_retired;    /* no longer in the configuration: no new boxes, blank ones are destroyed */
    bool want_discover; /* ask the backend for the id before using a blank box */
    bool is_watched;    /* the backend reports deaths by itself, so kept boxes need no check */
    bool can_bind;      /* its boxes have labels that name their owner: see POOL_FX_BIND */
    bool is_elsewhere;  /* a starting box costs this machine nothing: only calls are counted */
    unsigned warm_min;
    unsigned warm_max;
    unsigned create_max; /* creates in flight; with is_elsewhere those not yet answered, else also
                          * boxes that are not ready */
    uint64_t create_timeout_ns; /* backend's part */
    uint64_t ready_timeout_ns;  /* the probe's part */
    uint64_t destroy_timeout_ns;
    uint64_t ttl_ns;     /* default lease time; 0 never */
    uint64_t ttl_max_ns; /* a lease ends so long after it began, however often renewed; 0 never */
    uint64_t idle_ns;    /* leased box without activity; 0 never */
    uint64_t park_ns;    /* parked box; 0: release destroys */
    bool want_freeze;    /* a parked box is paused */
    bool
        want_hibernate; /* a box whose time is over becomes a snapshot, for its thread's next acquire */
    enum pool_drift drift;
    bool is_durable;     /* so does what a box wrote that has ended; the pool does nothing for it */
    uint64_t max_age_ns; /* blank box, jittered down by up to a tenth; 0 never */
    uint64_t shrink_ns;  /* surplus blank boxes are kept this long */
    uint64_t
        check_after_ns; /* unwatched: a box that has not answered for so long is checked before it
                         * is leased, a blank one too */
    uint64_t blank_check_ns; /* a blank box unseen this long is checked before it is leased; 0
                              * never */
    uint64_t backoff_min_ns; /* after a failed create */
    uint64_t backoff_max_ns;
    unsigned breaker_after; /* consecutive failures that open the circuit */
};

/* Who has a quota: a principal, and each user of one. */
enum pool_level { POOL_LEVEL_CALLER, POOL_LEVEL_USER, POOL_LEVEL_COUNT };

/* 0: no limit. */
struct pool_quota {
    unsigned boxes;      /* leased, being made or being released */
    unsigned waiting;    /* acquires */
    unsigned per_minute; /* leases of boxes that the thread does not have */
};

struct pool_config {
    unsigned max_boxes;   /* hard cap */
    unsigned max_waiters; /* acquires that wait, and requests that wait for a commit */
    /* A principal may use this part of its own and the free places in the queue together; 0 or 100:
     * all of them. */
    unsigned share_percent;
    bool has_quotas; /* else nothing is counted for them; fixed when the pool is made */
    struct pool_quota quotas[POOL_LEVEL_COUNT];
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
    /* Last activity of its owner that is known. A row is behind by idle_ns / 4 at most; so a restored box
     * may have been used until `maybe_ns`. That is in no row, or every restart would add to it. */
    uint64_t active_ns;
    uint64_t maybe_ns;
    uint64_t seen_ns;    /* last proof of life */
    uint64_t expires_ns; /* lease deadline, POOL_NEVER for none */
    uint64_t idle_ns;    /* lease's idle limit, POOL_NEVER for none */
    unsigned busy;       /* commands and streams running: the idle clock holds still */
    enum pool_end end;   /* why it is doomed, */
    uint64_t ended_ns;   /* and since when */
    /* It stands still, is about to, or was a moment ago: to be thawed before it is used. */
    bool is_paused;
    bool is_unseen;   /* restored, and no listing has shown it yet */
    bool is_rebooted; /* restored, of this machine, which has restarted since */
    bool is_stale;    /* restored from what may be an older copy of the rows: without an owner in
                          * row and labels it is destroyed, not blank */
};

#endif
