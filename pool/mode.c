/* mode.c - running, paused, draining. The mode is stored, so that a restart does not undo what an
 * operator decided. */
#include "pool/internal.h"

/* Acquires that wait because of the old mode are dispatched again. */
static void redo_held(struct pool *p)
{
    for (size_t i = 0; i < p->waiter_count; i++)
        if (p->waiters[i].phase == WAITER_BOX && p->waiters[i].slot->box.state == POOL_PARKED)
            waiter_enter(p, &p->waiters[i], WAITER_REDO);
}

void mode_step(struct pool *p, const struct pool_event *ev)
{
    struct refusal r = {.code = SP_DRAINING, .reason = "the pool is draining"};

    p->mode = ev->u.mode.mode;
    p->want_parked_gone = p->mode == POOL_DRAINING && ev->u.mode.want_parked_gone;
    p->is_mode_dirty = true;
    p->mode_retry_ns = 0;
    emit_event(p, POOL_FACT_MODE, NULL, pool_mode_name(p->mode));
    if (p->mode == POOL_DRAINING)
        waiter_refuse_waiting(p, &r);
    redo_held(p);
}

static void drain_parked(struct pool *p)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&p->lists[POOL_PARKED]); n != NULL; n = next) {
        next = list_next(&p->lists[POOL_PARKED], n);
        if (slot_of(n)->hibernate_end == POOL_END_NONE)
            hibernate_or_doom(p, slot_of(n), POOL_END_DRAINED);
    }
}

/* Only leased boxes outlive the drain. */
void mode_drain(struct pool *p)
{
    for (unsigned i = 0; i < p->profile_count; i++)
        for (int k = 0; k < BLANK_KIND_COUNT; k++) {
            struct list *l = &p->profiles[i].blank[k];

            while (!list_is_empty(l))
                doom_box(p, slot_of(list_first(l)), POOL_END_DRAINED);
        }
    if (p->want_parked_gone && p->by_state[POOL_PARKED] > p->hibernating)
        drain_parked(p);
}

void pool_restore_mode(struct pool *p, enum pool_mode mode)
{
    p->mode = mode;
}
