/* refill.h - how many boxes a profile should make or destroy now: pure arithmetic, without the
 * pool. */
#ifndef POOL_REFILL_H
#define POOL_REFILL_H

#include <stdbool.h>
#include <stdint.h>

struct refill_view {
    unsigned waiting; /* for a blank box */
    unsigned special; /* for a box of their own */
    unsigned fresh;
    unsigned drifted;
    unsigned making;
    unsigned in_flight; /* INTENT CREATING, and STARTING unless they only have to become ready */
    unsigned flying;    /* of them: made for one acquire */
    unsigned dying;
    unsigned target;
    unsigned create_max;
    unsigned room;     /* places under the cap */
    bool can_create;   /* mode, store, backoff */
    bool is_half_open; /* one try only */
    bool is_surplus_due;
};
struct refill_plan {
    unsigned for_waiters; /* creates, whatever the room */
    unsigned for_special; /* the same */
    unsigned for_both;    /* at once */
    unsigned for_target;  /* creates within the room */
    unsigned doom_drifted;
    unsigned doom_surplus;
};
struct refill_plan refill_want(const struct refill_view *v);
unsigned refill_target(double rate_per_s, uint64_t provision_ns, unsigned min, unsigned max);
double refill_decay(double count, uint64_t passed_ns);
double refill_rate(double count); /* per second */

#endif
