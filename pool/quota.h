/* quota.h - how much one caller (principal), and one user of a caller, may have: boxes, waiting acquires, new leases in a minute. */
#ifndef POOL_QUOTA_H
#define POOL_QUOTA_H

#include "base/list.h"
#include "base/map.h"
#include "pool/pool.h"

struct refusal;
struct slot;
struct waiter;

/* A principal, or one user of it, with what it has. */
struct holder {
    enum pool_level level;
    uint64_t principal;
    char user[POOL_OWNER_MAX + 1]; /* POOL_LEVEL_USER */
    unsigned held;                 /* boxes: see holders_settle() */
    unsigned claims;               /* acquires that will get one more, should there be any */
    unsigned waiting;              /* acquires */
    uint64_t
        paid_ns; /* its new leases so far are worth the time until then: above now, it has made many lately */
    struct list_node link; /* free list; or while it has nothing, of those that may be forgotten */
    struct map_node by_key;
};

struct quota {
    bool is_on;
    struct pool_quota limits[POOL_LEVEL_COUNT];
    struct holder *all;
    size_t max;
    size_t count; /* ever used */
    struct list free;
    struct list idle; /* they have nothing; the oldest first */
    struct map map;
};

/* Room for holders_room() holders. */
size_t holders_room(const struct pool *p);
void holders_init(struct pool *p, struct holder *all);
void holders_fini(struct pool *p);
void holders_set(struct pool *p, const struct pool_config *config);

/* After a change of the box's state or owner: counts it for its owner while it is leased, being made or being released. A parked one
 * makes room for others, so it does not count. */
void holders_settle(struct pool *p, struct slot *s);
/* An acquire begins or ends to wait for a new box; and to wait at all. */
void holders_claim(struct pool *p, const struct waiter *w, bool is_more);
void holders_wait(struct pool *p, const struct waiter *w, bool is_more);

/* Each is true when the acquire may go on; else `ret` says why not. Operators always may. One more box that it has not got: */
bool holders_allow_box(struct pool *p, const struct waiter *w, struct refusal *ret);
/* a new lease, once for each acquire: it counts from now on; */
bool holders_allow_lease(struct pool *p, struct waiter *w, struct refusal *ret);
/* a place in the queue. */
bool holders_allow_wait(struct pool *p, const struct waiter *w, struct refusal *ret);

const char *holders_check(const struct pool *p);

#endif
