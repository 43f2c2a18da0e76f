/* lease.h - a box gets its owner. */
#ifndef POOL_LEASE_H
#define POOL_LEASE_H

#include "pool/pool.h"

struct slot;
struct waiter;

struct slot *lease_find_blank(struct pool *p, unsigned profile);
enum pool_source lease_source(const struct slot *s, const struct waiter *w); /* of a blank one */
void lease_begin(struct pool *p, struct slot *s, struct waiter *w, enum pool_source source);
void lease_keep(struct pool *p, struct slot *s, struct waiter *w);
void lease_keep_old(struct pool *p, struct slot *s, struct waiter *w);
void lease_extend(struct pool *p, struct slot *s, struct waiter *w, uint64_t ttl_ns);
void lease_stored(struct pool *p, struct slot *s);
void lease_failed(struct pool *p, struct slot *s);
void lease_undelivered(struct pool *p, const struct pool_event *ev);
void lease_left(struct pool *p, struct slot *s); /* a waiter of this box has left */
void lease_touch(struct pool *p, struct slot *s, uint64_t at_ns); /* its owner was at work */
void lease_activity(struct pool *p, const struct pool_event *ev);

#endif
