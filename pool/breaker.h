/* breaker.h - what happens when boxes cannot be made. */
#ifndef POOL_BREAKER_H
#define POOL_BREAKER_H

#include "pool/pool.h"

struct slot;

void breaker_count_success(struct pool *p, struct slot *s); /* the box is ready */
void breaker_count_failure(struct pool *p, struct slot *s, const char *reason);
/* Nothing has been made since the last failure, because the backend still does not answer. */
void breaker_still_failing(struct pool *p, struct slot *s, const char *reason);

#endif
