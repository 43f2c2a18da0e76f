/* expiry.h - what time alone does to boxes, and the question to the agent before an idle box is
 * destroyed. */
#ifndef POOL_EXPIRY_H
#define POOL_EXPIRY_H

#include "pool/pool.h"

#define POOL_HIBERNATES_MAX 4 /* snapshots that are made at the same time */
#define POOL_IDLE_ASKS_MAX 64 /* questions to agents at the same time */

struct slot;

/* expiry.c */
void expiry_update(struct pool *p, struct slot *s);
uint64_t expiry_due(const struct pool *p, const struct slot *s);
void expiry_run(struct pool *p);

/* idle.c */
void idle_begin(struct slot *s);                /* it becomes leased */
void idle_stop(struct pool *p, struct slot *s); /* its state changes */
uint64_t idle_due(const struct slot *s);
void idle_enlist(struct pool *p, struct slot *s); /* its idle time is over */
void idle_ask(struct pool *p);                    /* asks those on the list */
void idle_answered(struct pool *p, const struct pool_event *ev);

#endif
