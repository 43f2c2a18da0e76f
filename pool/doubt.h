/* doubt.h - is a box still there? Boxes that a listing does not show, and owned ones of backends that tell of
 * no deaths. */
#ifndef POOL_DOUBT_H
#define POOL_DOUBT_H

#include "base/compiler.h"
#include "pool/pool.h"

struct slot;
struct waiter;

#define POOL_ASKS_MAX 16 /* boxes that a listing does not show are asked for, this many at once */
#define POOL_ABSENT_GAP_NS (2 * NS_PER_S) /* between two times that it was found absent */

/* doubt.c: boxes a clean listing does not show. */
bool doubt_concerns(const struct slot *s); /* a clean listing should say whether it is there */
void doubt_box(struct pool *p, struct slot *s);
void doubt_clear(struct pool *p, struct slot *s);
void doubt_answered(struct pool *p, struct slot *s, enum pool_verdict verdict);
void doubt_stop(struct pool *p, struct slot *s); /* its state changes */
bool doubt_is_waiting(const struct slot *s);
void doubt_enlist(struct pool *p, struct slot *s);
void doubt_ask(struct pool *p);
void doubt_tell(struct pool *p, unsigned missing, unsigned known);

/* hear.c: owned boxes of backends that do not tell of deaths. */
void hear_begin(struct pool *p, struct slot *s); /* it has a new state */
uint64_t hear_due(const struct slot *s);
void hear_ask(struct pool *p, struct slot *s);
void hear_hint(struct pool *p, struct slot *s); /* it is asked now */
/* The answer to a check; what follows from it. */
enum pool_verdict hear_answered(struct pool *p, struct slot *s, const struct pool_event *ev);
/* An owner who waits is served after this answer; else it is asked again. */
bool hear_is_enough(const struct pool *p, const struct slot *s, const struct waiter *w,
                    enum pool_verdict verdict);

#endif
