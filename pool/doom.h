/* doom.h - the end of a box. */
#ifndef POOL_DOOM_H
#define POOL_DOOM_H

#include "pool/pool.h"

struct slot;
struct waiter;

void doom_box(struct pool *p, struct slot *s, enum pool_end end);
void doom_died(struct pool *p, struct slot *s, enum pool_end end);
void doom_stored(struct pool *p, struct slot *s);
void doom_unrecorded(struct pool *p, struct slot *s); /* destroyed before its row is written */
void doom_failed(struct pool *p, struct slot *s);
void doom_destroy(struct pool *p, struct slot *s);
void doom_destroyed(struct pool *p, const struct pool_event *ev);
void doom_gone(struct pool *p, struct slot *s);
void doom_answer(struct pool *p, struct waiter *w); /* answers 202, or the reason, before the box is
                                                     * gone */
void doom_late_created(struct pool *p, const struct pool_event *ev);

#endif
