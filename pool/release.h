/* release.h - a box is released. */
#ifndef POOL_RELEASE_H
#define POOL_RELEASE_H

#include "pool/pool.h"

struct slot;

void release_step(struct pool *p, const struct pool_event *ev);
void release_stored(struct pool *p, struct slot *s);
void release_failed(struct pool *p, struct slot *s);

#endif
