/* pause.h - boxes that stand still. */
#ifndef POOL_PAUSE_H
#define POOL_PAUSE_H

#include "pool/pool.h"

struct slot;

void pause_stored(struct pool *p, struct slot *s, bool is_ok); /* the answer of s->pause_write */
void pause_ended(struct pool *p, const struct pool_event *ev); /* POOL_EV_RESUMED */
/* After a start a listing shows the box: it is made what its row says. */
void pause_seen(struct pool *p, struct slot *s, const struct pool_seen *seen);

#endif
