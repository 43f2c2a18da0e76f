/* make.h - makes boxes, from the intent until they are ready. */
#ifndef POOL_MAKE_H
#define POOL_MAKE_H

#include "pool/pool.h"

struct slot;
struct waiter;

bool make_box(struct pool *p, unsigned profile, struct waiter *special);
void make_left(struct pool *p, struct slot *s); /* a waiter of it has left */
void make_intent_stored(struct pool *p, struct slot *s);
void make_intent_failed(struct pool *p, struct slot *s);
void make_created(struct pool *p, const struct pool_event *ev);
void make_create_failed(struct pool *p, const struct pool_event *ev);
void make_probe(struct pool *p, struct slot *s);
void make_probed(struct pool *p, const struct pool_event *ev);

#endif
