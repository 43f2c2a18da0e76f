/* doubt.c - boxes that the pool holds and that a clean listing does not show. One wrong listing
 * must not end every lease, so the backend is asked for each of them, a few at a time. If it is
 * dead, its lease ends; if it is alive, it is no longer in doubt; without an answer the doubt
 * stays, unless that happens at several listings in a row. Until then nobody gets the box. */
#include <stdio.h>

#include "pool/internal.h"

#define MISSES_MAX \
    3                               /* after so many listings without it and without an answer, it
                                     * counts as dead */
#define MISS_GAP_NS (10 * NS_PER_S) /* listings closer together than this count as one */

bool doubt_concerns(const struct slot *s)
{
    switch (s->box.state) {
    case POOL_STARTING: /* its probe would fail only at its deadline */
    case POOL_BLANK:
    case POOL_LEASING:
    case POOL_LEASED:
    case POOL_PARKING:
    case POOL_PARKED:
        return true;
    case POOL_INTENT: /* otherwise the answer to its create will show it */
        return s->box.is_unseen;
    case POOL_DESTROYING:
        return s->tries > 0 && !s->is_asked;
    case POOL_FREE:
    case POOL_CREATING:
    case POOL_DOOMED:
    case POOL_FORGETTING:
    case POOL_STATE_COUNT:
        break;
    }
    return false;
}

void doubt_box(struct pool *p, struct slot *s)
{
    box_set_doubt(p, s, true, false);
}

void doubt_clear(struct pool *p, struct slot *s)
{
    s->misses = 0;
    if (s->is_missing)
        box_set_doubt(p, s, false, false);
}

/* It is known that it does not exist. */
static void end(struct pool *p, struct slot *s)
{
    if (s->box.state == POOL_INTENT) { /* it was never made */
        bind_give_up(p, s);
        box_set_state(p, s, POOL_FORGETTING);
        box_mark_dirty(p, s, 0);
    } else if (s->box.state == POOL_DESTROYING) { /* the backend cannot say so, but it is gone */
        doom_gone(p, s);
    } else {
        doom_died(p, s, POOL_END_DIED);
    }
}

/* Only a listing shows the labels: before that, a box without an owner and a box whose owner is
 * missing in the row look the same. */
static void is_alive(struct pool *p, struct slot *s)
{
    bool is_owned = s->box.state == POOL_LEASED || s->box.state == POOL_PARKED;

    s->box.seen_ns = p->now_ns;
    if (s->box.is_unseen && (!is_owned || s->box.is_stale)) {
        if (s->is_missing)
            box_set_doubt(p, s, true, true);
        return;
    }
    doubt_clear(p, s);
    if (s->box.is_unseen)
        listed_adopt(p, s);
}

void doubt_answered(struct pool *p, struct slot *s, enum pool_verdict verdict)
{
    bool was_asked = s->is_asking && s->is_missing; /* otherwise a listing has shown it in the
                                                     * meantime */
    bool is_apart = s->misses == 0 || p->now_ns - s->missed_ns >= MISS_GAP_NS;

    doubt_stop(p, s);
    if (verdict == POOL_ALIVE) {
        s->misses = 0;
        is_alive(p, s);
        return;
    }
    if (was_asked && is_apart) {
        s->misses++;
        s->missed_ns = p->now_ns;
    }
    if (verdict == POOL_DEAD || s->misses >= MISSES_MAX)
        end(p, s);
    else if (was_asked)
        box_set_doubt(p, s, true, true);
}

void doubt_stop(struct pool *p, struct slot *s)
{
    list_remove(&p->doubted, &s->doubt_link);
    p->asking -= s->is_asking ? 1 : 0;
    s->is_asking = false;
}

bool doubt_is_waiting(const struct slot *s)
{
    return s->is_missing && !s->is_silent && !s->is_asking && s->box.state != POOL_LEASING &&
           s->box.state != POOL_PARKING && doubt_concerns(s);
}

void doubt_enlist(struct pool *p, struct slot *s)
{
    if (doubt_is_waiting(s) && !list_is_linked(&s->doubt_link))
        list_push_back(&p->doubted, &s->doubt_link);
}

void doubt_ask(struct pool *p)
{
    while (p->asking < POOL_ASKS_MAX && !list_is_empty(&p->doubted)) {
        struct slot *s = container_of(list_pop_front(&p->doubted), struct slot, doubt_link);

        s->is_asking = true;
        p->asking++;
        /* its owner may wait for the same answer already */
        box_check(p, s, time_after(p->now_ns, POOL_CHECK_NS));
    }
}

void doubt_report(struct pool *p, unsigned missing, unsigned known)
{
    if (missing == 0)
        return;
    (void) snprintf(p->reason, sizeof(p->reason),
                    "a listing does not show %u of %u boxes: the backend is asked for each",
                    missing, known);
    emit_event(p, POOL_FACT_MISSING, NULL, p->reason);
}
