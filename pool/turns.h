/* turns.h - the fair queue of a profile: turns between principals, then between their users. */
#ifndef POOL_TURNS_H
#define POOL_TURNS_H

#include "base/list.h"
#include "base/map.h"
#include "pool/pool.h"
#include "pool/waiter.h"

struct profile;
struct refusal;

/* A principal with waiting acquires. */
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
/* The one that a box is made for next: the head, unless as many as may be are being made for its
 * principal already. NULL: nobody. Only while a create is allowed. */
struct waiter *turn_next(const struct pool *p, const struct profile *f, enum line line);
/* How many boxes could be made for those of this line, if there were no other limits. */
unsigned turn_makeable(const struct pool *p, const struct profile *f, enum line line);
/* Whether a box is made for `w` rather than for `other`; NULL is last. */
bool turn_is_before(const struct waiter *w, const struct waiter *other);
void turn_made(struct pool *p, const struct waiter *w); /* a box is being made for it */
/* The first of its principal in this line is being served: from now on the others come first. */
void turn_rotate(struct pool *p, const struct waiter *w);
void turn_refuse_all(struct pool *p, struct profile *f, enum line line, const struct refusal *r);

#endif
