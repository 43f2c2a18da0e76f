/* exhaust.c - all boxes are in use and a caller wants one: one event when this begins and one when
 * it has been over for a while, not one for every caller. */
#include <stdio.h>

#include "pool/internal.h"

#define EXHAUST_RELIEF_NS (5 * NS_PER_S)

/* How many acquires wait for a box that is not being made yet; negative: so many boxes are being
 * made in advance. */
static int unserved(const struct pool *p)
{
    int count = 0;

    for (unsigned i = 0; i < p->profile_count; i++) {
        const struct profile *f = &p->profiles[i];

        count += (int) (f->waiting[LINE_BLANK] + f->waiting[LINE_SPECIAL]) - (int) f->making;
    }
    return count;
}

static bool is_full(const struct pool *p)
{
    unsigned dying =
        p->by_state[POOL_DOOMED] + p->by_state[POOL_DESTROYING] + p->by_state[POOL_FORGETTING];

    return p->total >= p->max_boxes && heap_top(&p->parked) == NULL &&
           p->by_state[POOL_BLANK] == 0 && dying <= p->stuck && p->hibernating == 0;
}

bool pool_is_exhausted(const struct pool *p)
{
    return is_full(p) && unserved(p) >= 0;
}

const char *exhaust_text(struct pool *p)
{
    const unsigned *n = p->by_state;

    (void) snprintf(p->exhaust.text, sizeof(p->exhaust.text),
                    "all boxes are in use (of %u: %u leased, %u being made, %u being destroyed; %u "
                    "callers wait)",
                    p->max_boxes, n[POOL_LEASING] + n[POOL_LEASED] + n[POOL_PARKING],
                    n[POOL_INTENT] + n[POOL_CREATING] + n[POOL_STARTING],
                    n[POOL_DOOMED] + n[POOL_DESTROYING] + n[POOL_FORGETTING], p->waiting);
    return p->exhaust.text;
}

static void report(struct pool *p)
{
    p->exhaust.is_on = true;
    emit_event(p, POOL_FACT_EXHAUSTED, NULL, exhaust_text(p));
}

void exhaust_update(struct pool *p)
{
    struct exhaust *x = &p->exhaust;
    bool is_wanted = x->was_refused || unserved(p) > 0;
    bool is_now = (is_wanted || x->is_on) && pool_is_exhausted(p);

    if (!x->is_on && is_now)
        report(p);
    x->was_refused = false;
    if (!x->is_on)
        return;
    if (is_now || is_wanted) {
        x->relief_ns = 0;
        return;
    }
    if (x->relief_ns == 0)
        x->relief_ns = p->now_ns;
    if (time_after(x->relief_ns, EXHAUST_RELIEF_NS) > p->now_ns) {
        p->wake_ns = MIN_OF(p->wake_ns, time_after(x->relief_ns, EXHAUST_RELIEF_NS));
        return;
    }
    x->is_on = false;
    x->relief_ns = 0;
    emit_event(p, POOL_FACT_AVAILABLE, NULL, "boxes are available again");
}
