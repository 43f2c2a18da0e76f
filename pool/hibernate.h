/* hibernate.h - parked boxes that become snapshots instead of being lost. */
#ifndef POOL_HIBERNATE_H
#define POOL_HIBERNATE_H

#include "pool/pool.h"

struct slot;

/* The time of a parked or leased box is over, because of `end`: it becomes a snapshot, or is doomed where that is not
 * wanted or not possible. */
void hibernate_or_doom(struct pool *p, struct slot *s, enum pool_end end);
/* A parked box is to become a snapshot now, because its thread wants one that is made as its profile says now. */
void hibernate_rebase(struct pool *p, struct slot *s);
/* The next try of a parked box, or the time for the first one. */
uint64_t hibernate_due(const struct pool *p, const struct slot *s);
void hibernate_expire(struct pool *p, struct slot *s);
void hibernate_ask(struct pool *p); /* at the end of a step: a few at a time */
void hibernate_answered(struct pool *p, const struct pool_event *ev);
void hibernate_stop(struct pool *p, struct slot *s); /* before a change of state */
/* Why a box ends that was made and that nobody took: one made from a hibernated box still has its snapshot. */
enum pool_end hibernate_unused_end(const struct slot *s);

#endif
