/* events.h - what goes into the pool (events) and what comes out (effects). Part of pool.h. */
#ifndef POOL_EVENTS_H
#define POOL_EVENTS_H

#include "pool/types.h"

/* --- events --- */

enum pool_event_kind {
    /* from callers; each is answered with one POOL_FX_REPLY, unless abandoned before */
    POOL_EV_ACQUIRE,
    POOL_EV_RELEASE,
    POOL_EV_RENEW,
    POOL_EV_DESTROY,
    POOL_EV_PAUSE,       /* u.on: of a leased or parked box; POOL_FX_FREEZE follows the commit */
    POOL_EV_ABANDON,     /* the caller of `req` disconnected: no reply wanted */
    POOL_EV_UNDELIVERED, /* an acquire reply on `box`, of its epoch, could not be delivered: undo if
                          * no other reply names it */
    POOL_EV_ACTIVITY,    /* u.activity.delta: +1 work starts, -1 ends, 0 a touch */
    POOL_EV_RESUMED,     /* a paused box has been thawed; no reply, no epoch */
    /* answers of backends */
    POOL_EV_CREATED,
    POOL_EV_CREATE_FAILED,
    POOL_EV_PROBED,
    POOL_EV_CHECKED,
    POOL_EV_DISCOVERED,
    POOL_EV_USED,          /* u.used */
    POOL_EV_DESTROYED,     /* u.failed: not gone, it will be tried again */
    POOL_EV_HIBERNATED,    /* u.failed: no snapshot was made */
    POOL_EV_DIED,          /* reported by the backend, no epoch */
    POOL_EV_NETLESS,       /* likewise; ended because its network had */
    POOL_EV_UNGUARDED,     /* likewise; because the guard of its sockets had */
    POOL_EV_KERNEL_MEMORY, /* likewise; because it held too much memory of the kernel's */
    POOL_EV_KEPT, /* likewise; it has ended, and its files are in a snapshot for its thread's next acquire */
    POOL_EV_LOOKED, /* another part has asked the box and its backend: u.verdict */
    POOL_EV_LISTED, /* what a backend runs, to be compared with what the pool knows: u.listed */
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
    /* The user has used up its budget: it gets no box but one that it has, with the deadline that has. */
    bool is_spent;
    uint64_t
        spent_at; /* likewise of a box of these profiles (bits), should the thread turn out to have one */
    unsigned profile;
    bool is_profile_named; /* false: whatever profile the thread's box has is fine */
    uint64_t deadline_ns;  /* absolute; now: do not wait */
    uint64_t ttl_ns;       /* 0: the profile's */
    uint64_t idle_ns;      /* 0: the profile's */
    /* Not served by a blank box: one is made for it, with its owner in the intent. */
    bool is_special;
    uint64_t made_with; /* hash of the extras that box is made with; the pool only keeps it */
    /* Special: it is made from what the id's last box became when it was hibernated, */
    bool is_restored;
    uint64_t generation; /* which had this generation */
    uint64_t commit_ns; /* the pool's: of one that is given again, how much time its commits have */
};

/* What a backend reports about one box it runs. */
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
    bool is_foreign;              /* made by another program: only an acquire of its id takes it */
    bool is_frozen;               /* it stands still */
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
            bool is_spent;     /* RENEW: as of an acquire: it is refused */
            bool want_destroy; /* RELEASE: destroy instead of park */
            uint64_t ttl_ns;   /* RENEW: from now; 0: the profile's */
            bool is_quick; /* of an end: reply when it is committed, do not wait until it is gone */
        } on;              /* RELEASE, RENEW, DESTROY, PAUSE */
        struct {
            int delta;
        } activity;
        struct {
            bool is_spoiled; /* a fresh box is half changed: its owner cannot use it either */
        } undelivered;
        struct {
            char url[POOL_URL_MAX + 1];
            char ref[POOL_REF_MAX + 1];
            bool is_ready;    /* the backend guarantees readiness: no probe */
            unsigned backend; /* that made it */
        } created;
        struct {
            int code; /* enum sp_error, never an inner one; SP_OK for success where the event has both */
            char reason[POOL_REASON_MAX + 1];
        } failed;                  /* CREATE_FAILED, PROBED, DESTROYED, STORE_FAILED */
        enum pool_verdict verdict; /* CHECKED */
        struct {
            enum pool_use use;
            uint64_t active_ns;
        } used;
        struct {
            bool is_found;
            bool is_unknown; /* the request itself failed */
            struct pool_seen seen;
        } discovered;
        struct {
            unsigned backend;
            bool is_clean;       /* false: the listing failed, nothing follows from it */
            uint64_t started_ns; /* boxes that changed after this are left alone */
            const struct pool_seen *seen;
            size_t count;
            /* A long listing comes in parts, one listing at a time, so that no step takes long:
             * first parts that show boxes, then parts that only look for boxes that were not shown,
             * at `look` slots each, then the last one, which looks at the rest. */
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
        const struct pool_config
            *reconfig; /* RECONFIG: profiles and limits of quotas; sizes stay */
        struct {
            enum pool_mode mode;
            bool want_parked_gone; /* DRAINING: parked boxes go too */
            bool is_profile;       /* only of this one */
            unsigned profile;
            char text[POOL_REASON_MAX + 1]; /* for callers that are refused; "": a text of ours */
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
    POOL_FX_BIND, /* set its owner at the backend (labels, name); repeated until done; no answer */
    POOL_FX_HIBERNATE, /* make a snapshot of it that its owner's next acquire is given; answer HIBERNATED. If the box then does not
                        * end as hibernated, its owner was faster: the snapshot is to be deleted. */
    POOL_FX_FREEZE, /* it is to stand still, or to go on, as snapshot.is_paused says; no answer */
    POOL_FX_REPLY,  /* answer `req` */
    /* The acquire `req` waited for its thread's box, which has ended: give it again, with what is known by now of the files
     * of the id. No other answer comes. */
    POOL_FX_AGAIN,
    POOL_FX_EVENT, /* audit trail and live events; no answer */
    POOL_FX_COUNT
};

enum pool_write {
    POOL_WRITE_BOX,      /* box row as it is now (state column from `state`) */
    POOL_WRITE_LEASE,    /* box row and its lease row (binds the id, or renews, or parks) */
    POOL_WRITE_DELETING, /* box row says `deleting`; its lease row, if any, is ended with `end` */
    POOL_WRITE_FORGET,   /* box row removed */
    POOL_WRITE_MODE,     /* the modes of the pool and of its profiles (no box) */
    POOL_WRITE_COUNT
};

enum pool_fact { /* kinds of POOL_FX_EVENT */
                 POOL_FACT_CREATED,
                 POOL_FACT_READY,
                 POOL_FACT_LEASED,
                 POOL_FACT_RENEWED,
                 POOL_FACT_PARKED,
                 POOL_FACT_PAUSED,
                 POOL_FACT_RESUMED,
                 POOL_FACT_DOOMED,
                 POOL_FACT_GONE,
                 POOL_FACT_LOST,
                 POOL_FACT_ADOPTED,
                 POOL_FACT_CREATE_FAILED,
                 POOL_FACT_BREAKER_OPEN,
                 POOL_FACT_BREAKER_CLOSED,
                 POOL_FACT_MODE,
                 POOL_FACT_MISSING, /* a clean listing does not show boxes: the backend is asked for
                                     * each */
                 POOL_FACT_DISK_LOW,
                 POOL_FACT_DISK_OK,
                 POOL_FACT_EXHAUSTED,    /* all boxes are in use, and a caller wants one */
                 POOL_FACT_AVAILABLE,    /* that has been over for a while */
                 POOL_FACT_IDLE_UNKNOWN, /* its agent did not answer: taken as idle */
                 POOL_FACT_HIBERNATE_FAILED,
                 POOL_FACT_COUNT
};
const char *pool_fact_name(enum pool_fact fact);

struct pool_fx {
    enum pool_fx_kind kind;
    struct box_id box;
    uint64_t epoch;
    uint64_t deadline_ns; /* CREATE PROBE CHECK ASK_USE DISCOVER DESTROY HIBERNATE */
    struct req_id req;    /* REPLY, AGAIN */
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
        const struct pool_acquire *again; /* AGAIN: until the next step */
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

#endif
