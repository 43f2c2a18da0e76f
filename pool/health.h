/* health.h - making boxes, and what follows when that fails. */
#ifndef POOL_HEALTH_H
#define POOL_HEALTH_H

#include "pool/pool.h"

struct slot;
struct waiter;

bool health_make_box(struct pool *p, unsigned profile, struct waiter *special);
void health_left(struct pool *p, struct slot *s); /* somebody waits for it no longer */
void health_intent_stored(struct pool *p, struct slot *s);
void health_intent_failed(struct pool *p, struct slot *s);
void health_created(struct pool *p, const struct pool_event *ev);
void health_create_failed(struct pool *p, const struct pool_event *ev);
void health_probed(struct pool *p, const struct pool_event *ev);
void health_probe(struct pool *p, struct slot *s);
void health_count_failure(struct pool *p, struct slot *s, const char *reason);
/* Nothing has been made since the last failure, because the backend still does not answer. */
void health_still_failing(struct pool *p, struct slot *s, const char *reason);

#endif
