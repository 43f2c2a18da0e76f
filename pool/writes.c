/* writes.c - answers of the store. A box remembers the one commit that its state waits for; if any
 * other write fails, its row is only written again. Rows are complete, so the last one that
 * succeeds is right. */
#include "pool/internal.h"

/* INTENT, LEASING, PARKING, DOOMED, FORGETTING: the commit the state waits for. */
static void promise_answered(struct pool *p, struct slot *s, bool is_ok)
{
    switch (s->box.state) {
    case POOL_INTENT:
        (is_ok ? make_intent_stored : make_intent_failed)(p, s);
        break;
    case POOL_LEASING:
        (is_ok ? lease_stored : lease_failed)(p, s);
        break;
    case POOL_PARKING:
        (is_ok ? release_stored : release_failed)(p, s);
        break;
    case POOL_DOOMED:
        (is_ok ? doom_stored : doom_failed)(p, s);
        break;
    case POOL_FORGETTING:
        if (is_ok)
            box_set_state(p, s, POOL_FREE);
        else
            box_mark_dirty(p, s, time_after(p->now_ns, POOL_REWRITE_NS));
        break;
    case POOL_FREE:
    case POOL_CREATING:
    case POOL_STARTING:
    case POOL_BLANK:
    case POOL_LEASED:
    case POOL_PARKED:
    case POOL_DESTROYING:
    case POOL_STATE_COUNT:
        assert(false); /* these wait for no commit */
    }
}

/* Pending older writes may move the deadline again, and their callers get that deadline: a row with
 * the old one must not follow them. */
bool writes_is_settled(const struct slot *s)
{
    return !s->is_reverted || s->open_writes == 0;
}

static void fall_back(struct pool *p, struct slot *s)
{
    if (!s->is_reverted || s->box.state != POOL_LEASED)
        return;
    s->box.expires_ns = s->committed_ns;
    expiry_update(p, s);
    if (writes_is_settled(s))
        box_mark_dirty(p, s, time_after(p->now_ns, POOL_REWRITE_NS));
}

/* Records the deadline in the store's row. A write that is refused because too many wait is
 * answered before the waiting ones: then an older one still decides. */
static void note_deadline(struct pool *p, struct slot *s, const struct pool_event *ev, bool is_ok)
{
    if (is_ok)
        s->committed_ns = ev->u.stored.expires_ns;
    else if (s->last_write == ev->u.stored.write)
        s->is_reverted = true;
    fall_back(p, s);
}

/* Kept acquires and renewals: the lease stays in both cases, only its deadline depends on the
 * write. */
static void extension_answered(struct pool *p, struct slot *s, uint64_t write, bool is_ok)
{
    struct refusal r = {.code = SP_STORE_UNAVAILABLE,
                        .reason = "the store cannot be written",
                        .retry_after_ns = POOL_REWRITE_NS};
    struct list_node *next;

    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        struct waiter *w = waiter_of(n);

        next = list_next(&s->waiters, n);
        if (w->phase != WAITER_COMMIT || w->write != write)
            continue;
        if (s->box.state == POOL_LEASED && s->box.expires_ns <= p->now_ns)
            continue; /* it ends in this step: they get that answer, or look for another box */
        lease_touch(p, s, p->now_ns);
        if (is_ok && w->kind == POOL_EV_RENEW)
            emit_event(p, POOL_FACT_RENEWED, s, NULL);
        if (w->kind != POOL_EV_ACQUIRE && !is_ok)
            waiter_refuse(p, w, &r);
        else
            waiter_ok(p, w, s, w->kind == POOL_EV_ACQUIRE ? POOL_SRC_KEPT : POOL_SRC_NONE);
    }
}

/* Whether the store should have a row of a box in this state. */
static bool has_row(enum pool_state state)
{
    return state == POOL_BLANK || state == POOL_LEASED || state == POOL_PARKED ||
           state == POOL_DOOMED || state == POOL_DESTROYING || state == POOL_FORGETTING;
}

void writes_answered(struct pool *p, const struct pool_event *ev, bool is_ok)
{
    uint64_t write = ev->u.stored.write;
    struct slot *s;

    if (write == p->mode_write && ev->box.v == 0) {
        p->mode_write = 0;
        if (!is_ok) { /* otherwise it may have changed since, and has to be written again */
            p->is_mode_dirty = true;
            p->mode_retry_ns = time_after(p->now_ns, POOL_REWRITE_NS);
        }
        return;
    }
    s = box_find(p, ev->box);
    if (s == NULL) {
        p->late_answers++;
        return;
    }
    if (write == s->flush_write && write != 0) {
        s->flush_write = 0;
        p->flushing--;
    }
    s->open_writes -= s->open_writes > 0 ? 1 : 0;
    note_deadline(p, s, ev, is_ok);
    if (write == s->pause_write && write != 0)
        pause_stored(p, s, is_ok);
    if (write == s->wait_write && write != 0) {
        promise_answered(p, s, is_ok);
        fall_back(p, s); /* it may be leased again */
        if (s->is_row_behind && (s->box.state == POOL_LEASED || s->box.state == POOL_PARKED))
            box_mark_dirty(p, s, 0);
        s->is_row_behind = false;
        return;
    }
    extension_answered(p, s, write, is_ok);
    if (!is_ok && write == s->last_write && has_row(s->box.state))
        box_mark_dirty(p, s, time_after(p->now_ns, POOL_REWRITE_NS));
}

void writes_store_state(struct pool *p, bool is_up)
{
    p->is_store_up = is_up;
    if (!is_up) {
        waiter_store_down(p);
        return;
    }
    p->mode_retry_ns = 0;
    p->store_pause_ns = 0;
    while (!list_is_empty(&p->rewrites))
        box_mark_dirty(p, container_of(list_first(&p->rewrites), struct slot, dirty_link), 0);
}

static void write_row(struct pool *p, struct slot *s)
{
    switch (s->box.state) {
    case POOL_BLANK:
        (void) box_write(p, s, POOL_WRITE_BOX);
        break;
    case POOL_LEASED:
        if (!writes_is_settled(s)) { /* the last answer brings it back */
            box_unmark_dirty(p, s);
            return;
        }
        (void) box_write(p, s, POOL_WRITE_LEASE);
        break;
    case POOL_PARKED:
        (void) box_write(p, s, POOL_WRITE_LEASE);
        break;
    case POOL_DOOMED:
        s->wait_write = box_write(p, s, POOL_WRITE_DELETING);
        break;
    case POOL_DESTROYING: /* it was destroyed before its row could be written */
        (void) box_write(p, s, POOL_WRITE_DELETING);
        break;
    case POOL_FORGETTING:
        s->wait_write = box_write(p, s, POOL_WRITE_FORGET);
        break;
    case POOL_FREE:
    case POOL_INTENT:
    case POOL_CREATING:
    case POOL_STARTING:
    case POOL_LEASING:
    case POOL_PARKING:
    case POOL_STATE_COUNT: /* their row is right, or is being written */
        box_unmark_dirty(p, s);
        return;
    }
    p->flushing += s->flush_write == 0 ? 1 : 0;
    s->flush_write = s->last_write;
}

uint64_t writes_flush(struct pool *p)
{
    uint64_t next_ns = POOL_NEVER;
    struct list_node *n;

    if (!p->is_store_up)
        return POOL_NEVER;
    for (n = list_first(&p->rewrites); n != NULL; n = list_first(&p->rewrites)) {
        struct slot *s = container_of(n, struct slot, dirty_link);

        if (s->rewrite_ns > p->now_ns) {
            next_ns = s->rewrite_ns;
            break;
        }
        box_mark_dirty(p, s, 0);
    }
    /* Many boxes can end at once: their rows are written at the speed of the store, and boxes that
     * a caller asks for come first. */
    for (n = list_first(&p->dirty); n != NULL; n = list_first(&p->dirty)) {
        struct slot *s = container_of(n, struct slot, dirty_link);

        if (p->flushing >= POOL_FLUSH_MAX && list_is_empty(&s->waiters))
            break;
        write_row(p, s);
    }
    if (p->is_mode_dirty && p->mode_retry_ns <= p->now_ns) {
        p->mode_write = emit_store(p, POOL_WRITE_MODE, NULL);
        p->is_mode_dirty = false;
    } else if (p->is_mode_dirty) {
        next_ns = MIN_OF(next_ns, p->mode_retry_ns);
    }
    return next_ns;
}
