/* doubt.h - is a box still there? Boxes that a listing does not show, and owned boxes of backends
 * that do not report deaths. */
#ifndef POOL_DOUBT_H
#define POOL_DOUBT_H

#include "base/compiler.h"
#include "pool/pool.h"

struct slot;
struct waiter;

#define POOL_ASKS_MAX 16 /* questions about boxes that a listing does not show, at the same time */
#define POOL_ABSENT_GAP_NS (2 * NS_PER_S) /* between two times that it was found absent */

/* doubt.c: boxes a clean listing does not show. */
bool doubt_concerns(const struct slot *s); /* a clean listing should show whether it exists */
void doubt_box(struct pool *p, struct slot *s);
void doubt_clear(struct pool *p, struct slot *s);
void doubt_answered(struct pool *p, struct slot *s, enum pool_verdict verdict);
void doubt_stop(struct pool *p, struct slot *s); /* its state changes */
bool doubt_is_waiting(const struct slot *s);
void doubt_enlist(struct pool *p, struct slot *s);
void doubt_ask(struct pool *p);
void doubt_report(struct pool *p, unsigned missing, unsigned known);

/* recheck.c: owned boxes of backends that do not report deaths. */
void recheck_begin(struct pool *p, struct slot *s); /* it has a new state */
uint64_t recheck_due(const struct slot *s);
void recheck_ask(struct pool *p, struct slot *s);
/* Somebody else has asked: one that is absent is asked now. */
void recheck_looked(struct pool *p, struct slot *s, enum pool_verdict verdict);
/* The answer to a check; returns the conclusion. */
enum pool_verdict recheck_answered(struct pool *p, struct slot *s, const struct pool_event *ev);
/* Whether an owner that waits is served after this answer; else the box is checked again. */
bool recheck_is_enough(const struct pool *p, const struct slot *s, const struct waiter *w,
                       enum pool_verdict verdict);

#endif
