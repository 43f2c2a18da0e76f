/* step.c - processes one event. Every step ends the same way: due times are processed, waiters
 * whose box changed are dispatched again, free places are assigned, changed rows are written. */
#include "pool/internal.h"

static void abandon(struct pool *p, const struct pool_event *ev)
{
    struct waiter *w = waiter_find(p, ev->req);

    if (w != NULL)
        waiter_end(p, w);
}

static void answer_create(struct pool *p, const struct pool_event *ev)
{
    if (ev->kind == POOL_EV_CREATED)
        make_created(p, ev);
    else if (ev->kind == POOL_EV_PROBED)
        make_probed(p, ev);
    else
        make_create_failed(p, ev);
}

static void answer_end(struct pool *p, const struct pool_event *ev)
{
    if (ev->kind == POOL_EV_HIBERNATED)
        hibernate_answered(p, ev);
    else
        doom_destroyed(p, ev);
}

/* An answer without a request. */
static void found_out(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);

    if (s != NULL && ev->kind == POOL_EV_LOOKED)
        recheck_looked(p, s, ev->u.verdict);
    else if (s != NULL && s->box.seen_ns != 0)
        s->box.seen_ns = p->now_ns; /* reported at once: until now it lived */
    if (s != NULL && ev->kind != POOL_EV_LOOKED)
        doom_died(p, s,
                  ev->kind == POOL_EV_DIED        ? POOL_END_DIED
                  : ev->kind == POOL_EV_KEPT      ? POOL_END_HIBERNATED
                  : ev->kind == POOL_EV_NETLESS   ? POOL_END_NETLESS
                  : ev->kind == POOL_EV_UNGUARDED ? POOL_END_UNGUARDED
                                                  : POOL_END_KERNEL_MEMORY);
}

static void answer_question(struct pool *p, const struct pool_event *ev)
{
    if (ev->kind == POOL_EV_CHECKED)
        acquire_checked(p, ev);
    else
        acquire_discovered(p, ev);
}

static void change_lease(struct pool *p, const struct pool_event *ev)
{
    if (ev->kind == POOL_EV_ACTIVITY)
        lease_activity(p, ev);
    else if (ev->kind == POOL_EV_RESUMED)
        pause_ended(p, ev);
    else
        lease_undelivered(p, ev);
}

static void change_world(struct pool *p, const struct pool_event *ev)
{
    if (ev->kind == POOL_EV_STORE_STATE)
        writes_store_state(p, ev->u.is_store_up);
    else if (ev->kind == POOL_EV_SPACE)
        space_step(p, ev);
    else if (ev->kind == POOL_EV_RECONFIG)
        reconfig_step(p, ev->u.reconfig);
    else
        mode_step(p, ev);
}

static void dispatch(struct pool *p, const struct pool_event *ev)
{
    switch (ev->kind) {
    case POOL_EV_ACQUIRE:
        acquire_step(p, ev);
        break;
    case POOL_EV_RELEASE:
    case POOL_EV_RENEW:
    case POOL_EV_DESTROY:
    case POOL_EV_PAUSE:
        release_step(p, ev);
        break;
    case POOL_EV_ABANDON:
        abandon(p, ev);
        break;
    case POOL_EV_UNDELIVERED:
    case POOL_EV_ACTIVITY:
    case POOL_EV_RESUMED:
        change_lease(p, ev);
        break;
    case POOL_EV_CREATED:
    case POOL_EV_CREATE_FAILED:
    case POOL_EV_PROBED:
        answer_create(p, ev);
        break;
    case POOL_EV_CHECKED:
    case POOL_EV_DISCOVERED:
        answer_question(p, ev);
        break;
    case POOL_EV_USED:
        idle_answered(p, ev);
        break;
    case POOL_EV_DESTROYED:
    case POOL_EV_HIBERNATED:
        answer_end(p, ev);
        break;
    case POOL_EV_DIED:
    case POOL_EV_NETLESS:
    case POOL_EV_UNGUARDED:
    case POOL_EV_KERNEL_MEMORY:
    case POOL_EV_KEPT:
    case POOL_EV_LOOKED:
        found_out(p, ev);
        break;
    case POOL_EV_LISTED:
        listed_step(p, ev);
        break;
    case POOL_EV_STORED:
    case POOL_EV_STORE_FAILED:
        writes_answered(p, ev, ev->kind == POOL_EV_STORED);
        break;
    case POOL_EV_STORE_STATE:
    case POOL_EV_SPACE:
    case POOL_EV_RECONFIG:
    case POOL_EV_MODE:
        change_world(p, ev);
        break;
    case POOL_EV_WAKE:
    case POOL_EV_COUNT:
        assert(ev->kind == POOL_EV_WAKE);
    }
}

void pool_step(struct pool *p, uint64_t now_ns, const struct pool_event *ev)
{
    uint64_t rewrite_ns;

    assert(p->fx_next == p->fx_len); /* all effects of the last step were taken */
    p->now_ns = MAX_OF(p->now_ns, now_ns);
    p->wake_ns = POOL_NEVER;
    box_recycle_freed(p);
    dispatch(p, ev);
    expiry_run(p);
    do { /* an eviction may send a waiter back */
        acquire_redo(p);
        admit_run(p);
    } while (!list_is_empty(&p->redo));
    doubt_ask(p);
    idle_ask(p);
    hibernate_ask(p);
    exhaust_update(p);
    rewrite_ns = writes_flush(p);
    p->wake_ns = MIN_OF(p->wake_ns, rewrite_ns);
}

uint64_t pool_next_wake(const struct pool *p)
{
    const struct heap_node *box = heap_top(&p->due);
    const struct heap_node *waiter = heap_top(&p->deadlines);
    uint64_t at_ns = p->wake_ns;

    if (box != NULL)
        at_ns = MIN_OF(at_ns, box->key);
    if (waiter != NULL)
        at_ns = MIN_OF(at_ns, waiter->key);
    return at_ns;
}
