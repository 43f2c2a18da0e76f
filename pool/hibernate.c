/* hibernate.c - with `want_hibernate`, a parked box whose time is over becomes a snapshot: only when that is whole is
 * the box doomed, so at any moment its files are in one of them. A leased box whose time is over is parked first: if its
 * thread comes back before the snapshot is whole, it gets the box, and the answer comes too late. A failure is repeated
 * a few times; then the box ends as it would have without a snapshot, and an event says why.
 *
 * With POOL_DRIFT_REBASE an acquire of a parked box whose profile has changed waits until it is one; then the engine asks
 * again, for a box that is made from it. When that fails the thread gets the box as it is. */
#include "base/str.h"
#include "pool/internal.h"

#define HIBERNATE_NS (11 * 60 * NS_PER_S)
#define HIBERNATE_TRIES 3
#define HIBERNATE_PAUSE_NS (10 * NS_PER_S)

static bool is_wanted(struct pool *p, const struct slot *s)
{
    const struct pool_profile *c = &profile_of(p, s)->conf;

    return c->want_hibernate && s->box.thread[0] != '\0' && s->box.backend == c->backend &&
           !s->is_unclaimed; /* a snapshot of it would replace that of its thread's files */
}

/* Acquires look at it again; who wants to change the lease is too late. */
static void park_ended(struct pool *p, struct slot *s, enum pool_end end)
{
    struct refusal r = {.code = SP_NOT_LEASED, .reason = "the lease has ended"};
    struct list_node *next;

    s->box.parked_ns = p->now_ns;
    box_set_state(p, s, POOL_PARKED);
    emit_event(p, POOL_FACT_PARKED, s, pool_end_name(end));
    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        struct waiter *w = waiter_of(n);

        next = list_next(&s->waiters, n);
        if (w->kind == POOL_EV_ACQUIRE)
            waiter_enter(p, w, WAITER_REDO);
        else
            waiter_refuse(p, w, &r);
    }
    box_mark_dirty(p, s, 0);
}

static void enlist(struct pool *p, struct slot *s)
{
    if (s->hibernate_end == POOL_END_EVICTED || s->is_rebasing) /* somebody waits for it */
        list_push_front(&p->hibernaters, &s->hibernate_link);
    else
        list_push_back(&p->hibernaters, &s->hibernate_link);
    box_rank(p, s);
}

void hibernate_or_doom(struct pool *p, struct slot *s, enum pool_end end)
{
    if (!is_wanted(p, s)) {
        doom_box(p, s, end);
        return;
    }
    if (s->box.state == POOL_LEASED)
        park_ended(p, s, end);
    assert(s->box.state == POOL_PARKED && s->hibernate_end == POOL_END_NONE);
    p->hibernating++;
    s->hibernate_end = end;
    enlist(p, s);
}

void hibernate_rebase(struct pool *p, struct slot *s)
{
    assert(s->box.state == POOL_PARKED);
    s->is_rebasing = true;
    if (s->is_hibernating)
        return;
    if (s->hibernate_end == POOL_END_NONE) {
        p->hibernating++;
        s->hibernate_end = POOL_END_DRIFT;
    }
    list_remove(&p->hibernaters, &s->hibernate_link);
    enlist(p, s);
    expiry_update(p, s);
}

uint64_t hibernate_due(const struct pool *p, const struct slot *s)
{
    if (s->hibernate_end == POOL_END_NONE)
        return time_after(s->box.parked_ns, p->profiles[s->box.profile].conf.park_ns);
    return s->is_hibernating || list_is_linked(&s->hibernate_link) ? POOL_NEVER : s->hibernate_ns;
}

void hibernate_expire(struct pool *p, struct slot *s)
{
    if (s->hibernate_end == POOL_END_NONE)
        hibernate_or_doom(p, s, POOL_END_IDLE);
    else
        enlist(p, s);
}

void hibernate_ask(struct pool *p)
{
    while (p->is_store_up && p->hibernate_asks < POOL_HIBERNATES_MAX &&
           !list_is_empty(&p->hibernaters)) {
        struct slot *s = container_of(list_pop_front(&p->hibernaters), struct slot, hibernate_link);

        s->is_hibernating = true;
        p->hibernate_asks++;
        expiry_update(p, s);
        emit_backend(p, POOL_FX_HIBERNATE, s, time_after(p->now_ns, HIBERNATE_NS));
    }
}

void hibernate_stop(struct pool *p, struct slot *s)
{
    s->was_rebased = false;
    if (s->hibernate_end == POOL_END_NONE)
        return;
    list_remove(&p->hibernaters, &s->hibernate_link);
    p->hibernate_asks -= s->is_hibernating ? 1 : 0;
    p->hibernating--;
    s->is_hibernating = false;
    s->is_rebasing = false;
    s->hibernate_end = POOL_END_NONE;
    s->hibernate_tries = 0;
    s->hibernate_ns = 0;
}

/* Those who wait for it get it as it is. */
static void rebase_failed(struct pool *p, struct slot *s)
{
    s->is_rebasing = false;
    if (s->hibernate_end == POOL_END_DRIFT) {
        hibernate_stop(p, s);
        box_rank(p, s);
        expiry_update(p, s);
    }
    s->was_rebased = true;
    waiter_redo_all(p, s);
}

void hibernate_answered(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);
    bool is_claimed; /* somebody is about to use it */

    if (s == NULL || s->box.epoch != ev->epoch || !s->is_hibernating) {
        p->late_answers++;
        return;
    }
    is_claimed = (!list_is_empty(&s->waiters) && !s->is_rebasing) || s->is_checking;
    s->is_hibernating = false;
    p->hibernate_asks--;
    if (ev->u.failed.code == SP_OK && !is_claimed) {
        doom_box(p, s, POOL_END_HIBERNATED);
        return;
    }
    if (ev->u.failed.code != SP_OK) {
        s->hibernate_tries++;
        str_copy_cut(p->reason, sizeof(p->reason), ev->u.failed.reason);
        emit_event(p, POOL_FACT_HIBERNATE_FAILED, s, p->reason);
    }
    if (ev->u.failed.code != SP_OK && s->is_rebasing) {
        is_claimed = !list_is_empty(&s->waiters);
        rebase_failed(p, s);
        if (s->hibernate_end == POOL_END_NONE)
            return;
    }
    if (!is_claimed &&
        (s->hibernate_tries >= HIBERNATE_TRIES || ev->u.failed.code == SP_UNSUPPORTED)) {
        doom_box(p, s,
                 ev->u.failed.code == SP_TOO_MANY_SNAPSHOTS ? POOL_END_NOT_KEPT : s->hibernate_end);
        return;
    }
    s->hibernate_ns = time_after(p->now_ns, HIBERNATE_PAUSE_NS);
    expiry_update(p, s);
}

enum pool_end hibernate_unused_end(const struct slot *s)
{
    return s->is_restored ? POOL_END_HIBERNATED : POOL_END_RELEASED;
}
