/* listed.h - what a backend runs, joined with what the pool knows. */
#ifndef POOL_LISTED_H
#define POOL_LISTED_H

#include "pool/pool.h"

struct recent;
struct slot;

/* The listing whose parts come in. */
struct joining {
    size_t next; /* slot that is looked at next */
    unsigned known;
    unsigned missing;
    unsigned open; /* neither shown nor known to be gone */
};

/* listed.c, orphan.c */
void listed_step(struct pool *p, const struct pool_event *ev);
void listed_adopt(struct pool *p, struct slot *s); /* the first proof of life since the start */
void listed_take_facts(struct pool *p, struct slot *s, const struct pool_seen *seen);
void orphan_seen(struct pool *p, const struct pool_event *ev, const struct pool_seen *seen);
bool orphan_may_bind(const struct pool *p, const struct pool_seen *seen, unsigned profile);
bool orphan_is_any(const struct pool *p, unsigned backend); /* waits for a second listing */
void orphan_forget_unseen(struct pool *p, unsigned backend);
const struct recent *orphan_recent(const struct pool *p, struct box_id id);

#endif
