/* waiter.h - one request that cannot be answered yet. */
#ifndef POOL_WAITER_H
#define POOL_WAITER_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "pool/pool.h"

struct refusal;
struct slot;
struct turn;

/* What a queued acquire waits for: any blank box, or a box made for it. */
enum line { LINE_BLANK, LINE_SPECIAL, LINE_COUNT };

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
    bool is_kept_unknown; /* its box has become a snapshot that it knows nothing of */
    bool is_counted;      /* in the arrival rate */
    bool was_queued;
    bool is_paid;   /* counted among the new leases of its holders */
    bool was_bound; /* it waited for its thread's box */
};

/* Its user cannot pay a box of this profile. */
static inline bool waiter_is_spent(const struct waiter *w, unsigned profile)
{
    return w->acquire.is_spent || (w->acquire.spent_at >> profile & 1) != 0;
}

static inline struct waiter *waiter_of(struct list_node *link)
{
    return container_of(link, struct waiter, link);
}

static inline enum line line_of(const struct waiter *w)
{
    return w->acquire.is_special ? LINE_SPECIAL : LINE_BLANK;
}

struct waiter *waiter_new(struct pool *p, const struct pool_event *ev); /* NULL when full */
struct waiter *waiter_find(const struct pool *p, struct req_id req);
struct waiter *waiter_find_thread(const struct pool *p, const char *sandbox_id);
void waiter_enter(struct pool *p, struct waiter *w, enum waiter_phase phase);
void waiter_join(struct pool *p, struct waiter *w, struct waiter *primary);
/* Attaches it to the box, with all that joined it. */
void waiter_attach(struct pool *p, struct waiter *w, struct slot *s, enum waiter_phase phase,
                   uint64_t write);
void waiter_redo_all(struct pool *p, struct slot *s); /* those that wait for a stable state */
/* All three end the waiter; the next one that joined it takes its place. */
void waiter_ok(struct pool *p, struct waiter *w, struct slot *s, enum pool_source source);
void waiter_refuse(struct pool *p, struct waiter *w, const struct refusal *r);
void waiter_end(struct pool *p, struct waiter *w);
/* Those that a mode of DRAINING refuses. */
void waiter_refuse_drained(struct pool *p);
void waiter_overdue(struct pool *p, struct waiter *w); /* its deadline has passed: answered */
void waiter_store_down(struct pool *p);                /* answers all that wait for the store */

#endif
