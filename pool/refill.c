/* refill.c - how many boxes a profile should make or destroy now. Pure arithmetic: no pool, no
 * clock, so every rule can be tested with a table. */
#include "pool/internal.h"

#define HALF_LIFE_NS (10 * NS_PER_S)
#define LN2 0.69314718055994531
#define SAFETY 1.5
#define QUIET 0.02 /* fewer decayed arrivals than this count as none */

static unsigned less(unsigned a, unsigned b)
{
    return a > b ? a - b : 0;
}

/* count * 2^(-passed / half-life), without the math library. */
double refill_decay(double count, uint64_t passed_ns)
{
    uint64_t halvings = passed_ns / HALF_LIFE_NS;
    double f = (double) (passed_ns % HALF_LIFE_NS) / (double) HALF_LIFE_NS * LN2;

    if (halvings > 60)
        return 0;
    for (uint64_t i = 0; i < halvings; i++)
        count /= 2;
    return count * (1 - f * (1 - f / 2 * (1 - f / 3 * (1 - f / 4 * (1 - f / 5)))));
}

double refill_rate(double count)
{
    if (count < QUIET)
        return 0;
    return count * LN2 / ((double) HALF_LIFE_NS / (double) NS_PER_S);
}

/* Arrivals while one box is being made, and half as many again. */
unsigned refill_target(double rate_per_s, uint64_t provision_ns, unsigned min, unsigned max)
{
    double want = rate_per_s * ((double) provision_ns / (double) NS_PER_S) * SAFETY;
    unsigned target;

    if (max < min)
        max = min;
    if (want >= (double) max)
        return max;
    target = (unsigned) want;
    if ((double) target < want)
        target++;
    return MIN_OF(MAX_OF(target, min), max);
}

/* Drifted boxes are replaced one at a time: one extra is made, and when it is ready one drifted box
 * goes. Without room for the extra one, a drifted box goes first. */
static void plan_drift(const struct refill_view *v, unsigned allowed, struct refill_plan *ret)
{
    if (v->drifted == 0 || v->waiting > 0)
        return;
    if (v->fresh + v->drifted > v->target) {
        ret->doom_drifted = 1;
        return;
    }
    if (v->making > 0 || ret->for_target > 0 || allowed == 0)
        return;
    if (v->room > 0)
        ret->for_target = 1;
    else if (v->dying == 0)
        ret->doom_drifted = 1;
}

/* Boxes for one caller leave one create to the others, and the trial of a failing profile. */
static unsigned special_allowed(const struct refill_view *v)
{
    bool is_short = v->waiting + v->target > v->fresh + v->drifted + v->making;

    if (!is_short)
        return v->create_max;
    if (v->is_half_open)
        return 0;
    return less(MAX_OF(v->create_max, 2U) - 1, v->flying);
}

struct refill_plan refill_want(const struct refill_view *v)
{
    struct refill_plan plan = {0};
    unsigned have = v->fresh + v->drifted + v->making;
    unsigned allowed = 0;
    unsigned create;

    if (v->can_create && v->is_half_open)
        allowed = v->in_flight == 0 ? 1 : 0;
    else if (v->can_create)
        allowed = less(v->create_max, v->in_flight);
    plan.for_waiters = MIN_OF(allowed, less(v->waiting, have));
    plan.for_special = MIN_OF(MIN_OF(allowed, v->special), special_allowed(v));
    plan.for_both = MIN_OF(allowed, plan.for_waiters + plan.for_special);
    create = MIN_OF(less(v->waiting + v->target, have), less(allowed, plan.for_special));
    plan.for_target = MIN_OF(less(create, plan.for_waiters), less(v->room, plan.for_both));
    plan_drift(v, less(allowed, plan.for_special), &plan);
    if (v->waiting == 0 && plan.doom_drifted == 0 && v->is_surplus_due && v->dying == 0 &&
        v->fresh + v->drifted > v->target)
        plan.doom_surplus = 1;
    return plan;
}
