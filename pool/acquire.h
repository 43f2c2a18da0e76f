/* acquire.h - how an acquire is served. */
#ifndef POOL_ACQUIRE_H
#define POOL_ACQUIRE_H

#include "pool/emit.h"
#include "pool/pool.h"

struct waiter;

void acquire_step(struct pool *p, const struct pool_event *ev);
void acquire_dispatch(struct pool *p, struct waiter *w);
void acquire_redo(struct pool *p);
void acquire_checked(struct pool *p, const struct pool_event *ev);
void acquire_discovered(struct pool *p, const struct pool_event *ev);
struct refusal acquire_refusal(struct pool *p, const struct waiter *w);

#endif
