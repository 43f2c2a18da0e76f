/* listed.h - compares what a backend runs with what the pool knows. */
#ifndef POOL_LISTED_H
#define POOL_LISTED_H

#include "pool/pool.h"

struct slot;

#define POOL_ORPHANS_MAX 64 /* unknown boxes remembered until a second listing shows them */
#define POOL_RECENT_MAX 256 /* boxes gone a moment ago: late answers and stale listings name them */

/* The listing whose parts are arriving. */
struct joining {
    size_t next; /* slot that is looked at next */
    unsigned known;
    unsigned missing;
    unsigned open; /* neither shown nor known to be gone */
};

/* It runs, and no row knows it. */
struct orphan {
    struct box_id id;
    uint64_t listing; /* that showed it last; 0: entry not in use */
    unsigned backend;
};

/* Gone a moment ago. */
struct recent {
    struct box_id id;
    unsigned profile;
    unsigned backend;
    uint64_t freed_ns;
};

/* listed.c */
void listed_step(struct pool *p, const struct pool_event *ev);
void listed_adopt(struct pool *p, struct slot *s); /* the first proof of life since the start */
void listed_take_facts(struct pool *p, struct slot *s, const struct pool_seen *seen);

/* orphan.c */
void orphan_seen(struct pool *p, const struct pool_event *ev, const struct pool_seen *seen);
bool orphan_may_bind(const struct pool *p, const struct pool_seen *seen, unsigned profile);
bool orphan_is_any(const struct pool *p, unsigned backend); /* waits for a second listing */
void orphan_forget_unseen(struct pool *p, unsigned backend);
const struct recent *orphan_recent(const struct pool *p, struct box_id id);

#endif
