/* admit.c - who gets the free places; runs at the end of every step. Waiting acquires come first,
 * principals in turn, for any kind of box; warm targets take the rest. Boxes are evicted only for
 * acquires, and only as many as are not dying already. */
#include "pool/internal.h"

#define RETARGET_NS (5 * NS_PER_S) /* the arrival rate decays without events */

void admit_count_arrival(struct pool *p, struct profile *f)
{
    f->arrivals = refill_decay(f->arrivals, p->now_ns - f->arrivals_ns) + 1;
    f->arrivals_ns = p->now_ns;
}

double admit_rate(const struct profile *f, uint64_t now_ns)
{
    uint64_t passed_ns = now_ns > f->arrivals_ns ? now_ns - f->arrivals_ns : 0;

    return refill_rate(refill_decay(f->arrivals, passed_ns));
}

unsigned admit_target(const struct profile *f, uint64_t now_ns)
{
    if (f->conf.is_retired)
        return 0;
    return refill_target(admit_rate(f, now_ns), f->provision_ns, f->conf.warm_min,
                         f->conf.warm_max);
}

static unsigned room(const struct pool *p)
{
    return p->total < p->max_boxes ? p->max_boxes - p->total : 0;
}

static void wake_by(struct pool *p, uint64_t at_ns)
{
    p->wake_ns = MIN_OF(p->wake_ns, at_ns);
}

static unsigned dying(const unsigned *by_state)
{
    return by_state[POOL_DOOMED] + by_state[POOL_DESTROYING] + by_state[POOL_FORGETTING];
}

static struct refill_view view_of(const struct pool *p, const struct profile *f)
{
    bool is_counted = maker_counts_starting(f);
    unsigned in_flight = f->by_state[POOL_INTENT] + f->by_state[POOL_CREATING] +
                         (is_counted ? f->by_state[POOL_STARTING] : 0);
    bool is_surplus_due =
        f->is_surplus && time_after(f->surplus_ns, f->conf.shrink_ns) <= p->now_ns;

    return (struct refill_view){
        .waiting = f->waiting[LINE_BLANK],
        .special = away_holds_special(p, f) ? 0 : turn_makeable(p, f, LINE_SPECIAL),
        .fresh = (unsigned) f->blank[BLANK_FRESH].len,
        .drifted = (unsigned) f->blank[BLANK_DRIFTED].len,
        .making = f->making,
        .in_flight = in_flight,
        .flying = f->flying + (is_counted ? f->landing : 0),
        .dying = dying(f->by_state),
        .target = admit_target(f, p->now_ns),
        .create_max = f->conf.create_max,
        .room = room(p),
        .can_create = mode_of(p, f) == POOL_RUNNING && p->is_store_up && !p->is_space_low &&
                      !f->conf.is_retired && f->retry_ns <= p->now_ns &&
                      p->store_pause_ns <= p->now_ns && !away_holds(p, f),
        .is_half_open = f->is_open,
        .is_surplus_due = is_surplus_due,
    };
}

/* Gives blank boxes to waiting acquires. */
static void serve_waiters(struct pool *p, unsigned index)
{
    struct profile *f = &p->profiles[index];

    while (f->waiting[LINE_BLANK] > 0) {
        struct slot *s = lease_find_blank(p, index);
        struct waiter *w = turn_head(f, LINE_BLANK);

        if (s == NULL)
            return;
        turn_rotate(p, w);
        lease_begin(p, s, w, lease_source(s, w));
    }
}

/* The next one in turn, among the first of each line that a box may be made for. */
static struct waiter *neediest(const struct pool *p, unsigned *ret_need)
{
    struct waiter *best = NULL;

    *ret_need = 0;
    for (unsigned i = 0; i < p->profile_count; i++) {
        const struct profile *f = &p->profiles[i];
        struct refill_view v;
        struct refill_plan plan;

        if (f->waiting[LINE_BLANK] + f->waiting[LINE_SPECIAL] == 0)
            continue;
        v = view_of(p, f);
        plan = refill_want(&v);
        *ret_need += plan.for_both;
        for (unsigned line = 0; line < LINE_COUNT; line++) {
            unsigned wanted = line == LINE_SPECIAL ? plan.for_special : plan.for_waiters;
            struct waiter *w = wanted > 0 ? turn_next(p, f, line) : NULL;

            if (w != NULL && turn_is_before(w, best))
                best = w;
        }
    }
    return best;
}

/* A box made for this acquire, or one more that will be blank. */
static bool make_for(struct pool *p, struct waiter *w)
{
    turn_made(p, w);
    if (!w->acquire.is_special)
        return make_box(p, w->acquire.profile, NULL);
    turn_rotate(p, w);
    return make_box(p, w->acquire.profile, w);
}

static struct slot *oldest_spare_blank(const struct pool *p)
{
    struct slot *best = NULL;

    for (unsigned i = 0; i < p->profile_count; i++) {
        const struct profile *f = &p->profiles[i];

        if (f->waiting[LINE_BLANK] > 0)
            continue;
        for (int k = BLANK_FRESH; k <= BLANK_DRIFTED; k++) {
            struct list_node *n = list_first(&f->blank[k]);

            if (n != NULL && (best == NULL || slot_of(n)->box.ready_ns < best->box.ready_ns))
                best = slot_of(n);
        }
    }
    return best;
}

static void evict(struct pool *p, unsigned need)
{
    unsigned over = p->total > p->max_boxes ? p->total - p->max_boxes : 0;
    unsigned soon = room(p) + dying(p->by_state) - p->stuck + p->hibernating;

    for (unsigned wanted = need + over; wanted > soon; soon++) {
        struct heap_node *n = heap_top(&p->parked);
        struct slot *s = n != NULL ? container_of(n, struct slot, evict) : oldest_spare_blank(p);

        if (s == NULL)
            return;
        if (s->box.state == POOL_PARKED)
            hibernate_or_doom(p, s, POOL_END_EVICTED);
        else
            doom_box(p, s, POOL_END_EVICTED);
    }
}

static void make_for_waiters(struct pool *p)
{
    unsigned need = 0;
    struct waiter *w = neediest(p, &need);

    while (w != NULL && room(p) > 0 && make_for(p, w))
        w = neediest(p, &need);
    if (need > 0)
        evict(p, need);
}

static void note_surplus(struct pool *p, struct profile *f, const struct refill_view *v)
{
    bool is_surplus = v->fresh + v->drifted > v->target;

    if (is_surplus && !f->is_surplus)
        f->surplus_ns = p->now_ns;
    f->is_surplus = is_surplus;
}

static void keep_warm(struct pool *p, unsigned index)
{
    struct profile *f = &p->profiles[index];
    struct refill_view v = view_of(p, f);
    struct refill_plan plan;

    note_surplus(p, f, &v);
    v = view_of(p, f);
    plan = refill_want(&v);
    for (unsigned i = 0; i < plan.for_target; i++)
        if (!make_box(p, index, NULL))
            break;
    if (plan.doom_drifted > 0)
        doom_box(p, slot_of(list_first(&f->blank[BLANK_DRIFTED])), POOL_END_DRIFT);
    if (plan.doom_surplus > 0) {
        struct list_node *n = list_first(&f->blank[BLANK_DRIFTED]);

        if (n == NULL)
            n = list_first(&f->blank[BLANK_FRESH]);
        doom_box(p, slot_of(n), POOL_END_SHRUNK);
    }
}

static void retire(struct pool *p, struct profile *f)
{
    for (int k = 0; k < BLANK_KIND_COUNT; k++)
        while (!list_is_empty(&f->blank[k]))
            doom_box(p, slot_of(list_first(&f->blank[k])), POOL_END_DRIFT);
}

/* When time alone changes what this profile should do. */
static void plan_wake(struct pool *p, const struct profile *f)
{
    struct refill_view v = view_of(p, f);
    bool wants_more = v.waiting + v.target > v.fresh + v.making || v.drifted > 0 || v.special > 0;

    if (mode_of(p, f) != POOL_RUNNING || !p->is_store_up || f->conf.is_retired)
        return;
    if (wants_more && f->retry_ns > p->now_ns)
        wake_by(p, f->retry_ns);
    if (wants_more && p->store_pause_ns > p->now_ns)
        wake_by(p, p->store_pause_ns);
    if (f->is_surplus && time_after(f->surplus_ns, f->conf.shrink_ns) > p->now_ns)
        wake_by(p, time_after(f->surplus_ns, f->conf.shrink_ns));
    if (v.target > f->conf.warm_min && v.fresh + v.drifted > f->conf.warm_min)
        wake_by(p, time_after(p->now_ns, RETARGET_NS));
}

void admit_run(struct pool *p)
{
    mode_drain(p);
    for (unsigned i = 0; i < p->profile_count; i++) {
        if (p->profiles[i].conf.is_retired)
            retire(p, &p->profiles[i]);
        else if (mode_of(p, &p->profiles[i]) == POOL_RUNNING && p->is_store_up)
            serve_waiters(p, i);
    }
    if (p->mode == POOL_RUNNING && p->is_store_up) {
        make_for_waiters(p);
        for (unsigned i = 0; i < p->profile_count; i++)
            if (p->profiles[i].mode == POOL_RUNNING)
                keep_warm(p, i);
    }
    for (unsigned i = 0; i < p->profile_count; i++)
        plan_wake(p, &p->profiles[i]);
}
