/* expiry.c - what time alone does to a box. Each box is in one heap by its next due time, which its
 * state decides; an early call is harmless, because everything is compared again. */
#include "pool/internal.h"
#include "pool/pulse.h"

uint64_t expiry_due(const struct pool *p, const struct slot *s)
{
    switch (s->box.state) {
    case POOL_LEASED:
        return MIN_OF(MIN_OF(idle_due(s), s->box.expires_ns), recheck_due(s));
    case POOL_PARKED:
        if (s->is_checking)
            return POOL_NEVER;
        return MIN_OF(recheck_due(s), hibernate_due(p, s));
    case POOL_BLANK:
        return s->box.is_unseen ? POOL_NEVER : MIN_OF(s->age_ns, pulse_due(p, s));
    case POOL_DESTROYING:
        return s->is_asked ? POOL_NEVER : s->retry_ns;
    case POOL_FREE:
    case POOL_INTENT:
    case POOL_CREATING:
    case POOL_STARTING:
    case POOL_LEASING:
    case POOL_PARKING:
    case POOL_DOOMED:
    case POOL_FORGETTING:
    case POOL_STATE_COUNT:
        break;
    }
    return POOL_NEVER;
}

void expiry_update(struct pool *p, struct slot *s)
{
    uint64_t due_ns = expiry_due(p, s);

    if (due_ns == POOL_NEVER)
        heap_remove(&p->due, &s->due);
    else
        heap_set(&p->due, &s->due, due_ns);
}

static void expire_box(struct pool *p, struct slot *s)
{
    if (s->box.state == POOL_DESTROYING)
        doom_destroy(p, s);
    else if (s->box.state != POOL_BLANK && recheck_due(s) <= p->now_ns)
        recheck_ask(p, s);
    else if (s->box.state == POOL_BLANK && s->age_ns > p->now_ns)
        pulse_ask(p, s);
    else if (s->box.state == POOL_BLANK)
        doom_box(p, s, POOL_END_AGED);
    else if (s->box.state == POOL_LEASED && s->box.expires_ns <= p->now_ns)
        hibernate_or_doom(p, s, POOL_END_TTL);
    else if (s->box.state == POOL_LEASED && s->box.busy > 0)
        lease_touch(p, s, p->now_ns);
    else if (s->box.state == POOL_LEASED)
        idle_enlist(p, s);
    else
        hibernate_expire(p, s);
}

void expiry_run(struct pool *p)
{
    for (struct heap_node *n = heap_top(&p->due); n != NULL && n->key <= p->now_ns;
         n = heap_top(&p->due)) {
        struct slot *s = container_of(n, struct slot, due);

        if (expiry_due(p, s) <= p->now_ns)
            expire_box(p, s);
        expiry_update(p, s);
    }
    for (struct heap_node *n = heap_top(&p->deadlines); n != NULL && n->key <= p->now_ns;
         n = heap_top(&p->deadlines)) {
        waiter_overdue(p, container_of(n, struct waiter, deadline));
    }
}
