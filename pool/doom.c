/* doom.c - the end of a box: its `deleting` row is committed, then the backend destroys it, then
 * its row is removed. A failed destroy is repeated without limit, with pauses; the box counts until
 * it is gone. */
#include <string.h>

#include "pool/internal.h"

/* Requests that waited for a box that will not come. Acquires look for another one. */
static void resolve_waiters(struct pool *p, struct slot *s, enum pool_end end)
{
    struct refusal r = {
        .code = SP_SANDBOX_LOST, .lost = end, .reason = sp_error_info(SP_SANDBOX_LOST)->text};
    struct list_node *next;

    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        struct waiter *w = waiter_of(n);

        next = list_next(&s->waiters, n);
        if (w->kind == POOL_EV_ACQUIRE)
            waiter_enter(p, w, WAITER_REDO);
        else if (w->kind == POOL_EV_RENEW || w->kind == POOL_EV_PAUSE ||
                 (w->kind == POOL_EV_RELEASE && pool_end_is_death(end)))
            waiter_refuse(p, w, &r);
        else if (w->phase == WAITER_COMMIT)
            waiter_attach(p, w, s, WAITER_DELETED, 0); /* a release: it has succeeded in any case */
    }
}

/* Acquires that came before there was a snapshot would get a box without the files, and those that know an older one what
 * is in that. */
static void note_kept(struct slot *s)
{
    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = list_next(&s->waiters, n))
        waiter_of(n)->is_kept_unknown = s->is_rebasing || !waiter_of(n)->acquire.is_restored;
}

void doom_box(struct pool *p, struct slot *s, enum pool_end end)
{
    if (end == POOL_END_HIBERNATED)
        note_kept(s);
    if (s->by_sandbox.is_linked) {
        /* One that was made for callers who left was given up by nobody. */
        past_remember(p, s->box.sandbox_id, s->box.generation,
                      end == POOL_END_RELEASED && s->box.leased_ns == 0 ? POOL_END_NONE : end,
                      s->box.principal);
        bind_cut(p, s);
    }
    s->box.end = end;
    s->box.ended_ns = p->now_ns;
    box_set_state(p, s, POOL_DOOMED);
    emit_event(p, POOL_FACT_DOOMED, s, pool_end_name(end));
    resolve_waiters(p, s, end);
    box_mark_dirty(p, s, 0);
}

/* The backend reports it, or a clean listing does not show it. */
void doom_died(struct pool *p, struct slot *s, enum pool_end end)
{
    switch (s->box.state) {
    case POOL_STARTING:
        breaker_count_failure(p, s, "the box died while it started");
        if (!box_is_dying(s)) /* the last of its callers has been refused */
            doom_box(p, s, end);
        break;
    case POOL_BLANK:
    case POOL_LEASING:
    case POOL_LEASED:
    case POOL_PARKING:
    case POOL_PARKED:
        if (end == POOL_END_HIBERNATED) {
            doom_box(p, s, end);
            break;
        }
        end = s->box.is_rebooted && s->box.is_unseen ? POOL_END_RESTARTED : end;
        s->box.end = end;
        p->lost++;
        emit_event(p, POOL_FACT_LOST, s,
                   end == POOL_END_RESTARTED ? "the machine was restarted" : NULL);
        doom_box(p, s, end);
        break;
    case POOL_FREE:
    case POOL_INTENT:
    case POOL_CREATING: /* the answer to the create will show it */
    case POOL_DOOMED:
    case POOL_DESTROYING:
    case POOL_FORGETTING:
    case POOL_STATE_COUNT:
        break;
    }
}

void doom_stored(struct pool *p, struct slot *s)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        next = list_next(&s->waiters, n);
        if (waiter_of(n)->phase == WAITER_DELETED)
            waiter_ok(p, waiter_of(n), s, POOL_SRC_NONE);
    }
    box_set_state(p, s, POOL_DESTROYING);
    p->destroys++;
    doom_destroy(p, s);
}

/* Its owner or an operator wants to destroy it and the store cannot be written. This must not wait
 * for the store, so the box is destroyed before its row is written: after a crash the row names a
 * box that does not exist, which ends the lease as lost. The caller is answered when the box is
 * gone, because until then nothing guarantees that it will be. */
void doom_unrecorded(struct pool *p, struct slot *s)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        next = list_next(&s->waiters, n);
        if (waiter_of(n)->phase == WAITER_DELETED)
            waiter_attach(p, waiter_of(n), s, WAITER_GONE, 0);
    }
    box_set_state(p, s, POOL_DESTROYING);
    box_mark_dirty(p, s, 0);
    p->destroys++;
    doom_destroy(p, s);
}

void doom_failed(struct pool *p, struct slot *s)
{
    if (!list_is_empty(&s->waiters)) /* a caller has requested its end */
        doom_unrecorded(p, s);
    box_mark_dirty(p, s, time_after(p->now_ns, POOL_REWRITE_NS));
}

/* A new try has a new epoch: the answer to an older one must not end it. */
void doom_destroy(struct pool *p, struct slot *s)
{
    p->epoch++;
    s->box.epoch = p->epoch;
    s->is_asked = true;
    s->is_checking = false;
    s->is_missing = false;
    doubt_stop(p, s);
    s->retry_ns = 0;
    expiry_update(p, s);
    emit_backend(p, POOL_FX_DESTROY, s,
                 time_after(p->now_ns, profile_of(p, s)->conf.destroy_timeout_ns));
}

void doom_gone(struct pool *p, struct slot *s)
{
    emit_event(p, POOL_FACT_GONE, s, NULL);
    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = list_first(&s->waiters))
        waiter_ok(p, waiter_of(n), s, POOL_SRC_NONE);
    box_set_state(p, s, POOL_FORGETTING);
    box_mark_dirty(p, s, 0);
}

/* A caller that waits for the end of a box that cannot be destroyed is answered after a limited
 * time. */
void doom_answer(struct pool *p, struct waiter *w)
{
    static const struct refusal unrecorded = {
        .code = SP_STORE_UNAVAILABLE,
        .reason = "the box is not destroyed yet, and the request cannot be recorded: try again",
        .retry_after_ns = POOL_REWRITE_NS};
    const struct slot *s = w->slot;

    if (s->box.state == POOL_DESTROYING && !list_is_linked(&s->dirty_link) && s->open_writes == 0)
        waiter_ok(p, w, w->slot, POOL_SRC_NONE); /* its state says that it is not gone */
    else
        waiter_refuse(p, w, &unrecorded);
}

static void answer_waiting(struct pool *p, struct slot *s)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        next = list_next(&s->waiters, n);
        doom_answer(p, waiter_of(n));
    }
}

static void retry_later(struct pool *p, struct slot *s, const struct pool_event *ev)
{
    const struct pool_profile *c = &profile_of(p, s)->conf;
    uint64_t min_ns = MAX_OF(c->backoff_min_ns, 10 * NS_PER_MS);
    uint64_t max_ns = MAX_OF(c->backoff_max_ns, min_ns);
    uint64_t pause_ns = s->tries < 20 ? min_ns << s->tries : max_ns;

    pause_ns = MIN_OF(pause_ns, max_ns);
    p->stuck += s->tries == 0 ? 1 : 0;
    away_count(p, s, false);
    s->tries++;
    away_count(p, s, true);
    s->is_asked = false;
    s->retry_ns = time_after(p->now_ns, rand_between(&p->rand, pause_ns / 2, pause_ns));
    expiry_update(p, s);
    if (s->is_create_unknown && away_is_silence(ev->u.failed.code))
        breaker_still_failing(p, s, ev->u.failed.reason);
    /* On this machine the next try usually succeeds. */
    if (c->is_elsewhere || time_after(s->changed_ns, c->destroy_timeout_ns) <= p->now_ns)
        answer_waiting(p, s);
}

void doom_destroyed(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);

    if (s == NULL || s->box.epoch != ev->epoch || s->box.state != POOL_DESTROYING || !s->is_asked) {
        p->late_answers++;
        return;
    }
    map_expect(&p->refs, &s->by_ref);
    if (ev->u.failed.code == SP_OK) {
        if (s->is_create_unknown && s->tries > 0) /* it answers again: the next try need not wait */
            profile_of(p, s)->retry_ns = 0;
        doom_gone(p, s);
    } else {
        retry_later(p, s, ev);
    }
}

static void doom_unknown(struct pool *p, const struct pool_event *ev)
{
    const struct recent *r = orphan_recent(p, ev->box);
    struct slot *s = r != NULL ? box_take(p) : NULL;

    if (s == NULL) {
        emit_slotless_destroy(p, ev);
        return;
    }
    s->box.id = ev->box;
    s->box.profile = r->profile;
    s->box.backend = r->backend;
    s->box.end = POOL_END_ORPHAN;
    s->box.created_ns = p->now_ns;
    memcpy(s->box.url, ev->u.created.url, sizeof(s->box.url));
    index_set_ref(p, s, ev->u.created.ref);
    box_enter(p, s, POOL_DOOMED);
    p->adopted_high = MAX_OF(p->adopted_high, p->total);
    box_mark_dirty(p, s, 0);
}

/* A create that was given up has made a box after all. Earlier destroys were not for this box. */
void doom_late_created(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);

    p->late_answers++;
    if (s == NULL) {
        doom_unknown(p, ev);
        return;
    }
    if (!box_is_dying(s)) /* reported twice: it is the box we have */
        return;
    away_answered(p, s);
    memcpy(s->box.url, ev->u.created.url, sizeof(s->box.url));
    index_set_ref(p, s, ev->u.created.ref);
    if (s->box.state == POOL_DESTROYING) {
        doom_destroy(p, s);
    } else if (s->box.state == POOL_FORGETTING) {
        box_set_state(p, s, POOL_DOOMED);
        box_mark_dirty(p, s, 0);
    }
}
