/* make.c - makes boxes, from the intent until they are ready. Every one that fails is destroyed,
 * because it may exist in spite of the error; breaker.c does the rest after a failure. */
#include <string.h>

#include "base/str.h"
#include "pool/internal.h"
#include "pool/pulse.h"

#define STORE_PAUSE_NS (100 * NS_PER_MS) /* no creates after a lost intent */

/* For `special` only, if given: it is bound before its row is written. */
bool make_box(struct pool *p, unsigned profile, struct waiter *special)
{
    const struct pool_profile *c = &p->profiles[profile].conf;
    struct slot *s;

    assert(p->total < p->max_boxes);
    s = box_take(p);
    if (s == NULL)
        return false;
    s->box.id = box_mint_id(p);
    s->box.profile = profile;
    s->box.backend = c->backend;
    s->box.spec_hash = c->spec_hash;
    s->box.created_ns = p->now_ns;
    s->box.expires_ns = POOL_NEVER;
    s->box.idle_ns = POOL_NEVER;
    s->is_made = true;
    if (p->make_token != NULL)
        p->make_token(p->make_token_ctx, s->box.token);
    if (special != NULL) {
        s->box.made_with = special->acquire.made_with;
        s->is_restored = special->acquire.is_restored;
        bind_owner(p, s, &special->acquire);
    }
    box_enter(p, s, POOL_INTENT);
    if (special != NULL)
        waiter_attach(p, special, s, WAITER_BOX, 0);
    s->wait_write = box_write(p, s, POOL_WRITE_BOX);
    return true;
}

static bool is_unwanted(const struct slot *s)
{
    return box_is_special(s) && list_is_empty(&s->waiters);
}

/* One that is being created is left alone until the backend has answered. */
void make_left(struct pool *p, struct slot *s)
{
    if (s->box.state == POOL_STARTING && is_unwanted(s))
        doom_box(p, s, hibernate_unused_end(s));
}

void make_intent_stored(struct pool *p, struct slot *s)
{
    const struct profile *f = profile_of(p, s);

    if (mode_of(p, f) != POOL_RUNNING || p->is_space_low || f->conf.is_retired || is_unwanted(s) ||
        away_holds(p, f)) {
        bind_cut(p, s);
        box_set_state(p, s, POOL_FORGETTING);
        box_mark_dirty(p, s, 0);
        return;
    }
    box_set_state(p, s, POOL_CREATING);
    s->is_asked = true;
    p->creates++;
    emit_backend(p, POOL_FX_CREATE, s, time_after(p->now_ns, f->conf.create_timeout_ns));
}

void make_intent_failed(struct pool *p, struct slot *s)
{
    p->store_pause_ns = time_after(p->now_ns, STORE_PAUSE_NS);
    box_set_state(p, s, POOL_FREE);
}

static void become_ready(struct pool *p, struct slot *s)
{
    const struct pool_profile *c = &profile_of(p, s)->conf;
    enum pool_mode mode = mode_of(p, profile_of(p, s));

    s->box.ready_ns = p->now_ns;
    s->box.seen_ns = p->now_ns;
    s->answered_ns = p->now_ns;
    s->box.is_unseen = false;
    s->age_ns = POOL_NEVER;
    if (c->max_age_ns > 0) /* not all at once */
        s->age_ns =
            time_after(p->now_ns, c->max_age_ns - rand_below(&p->rand, c->max_age_ns / 10 + 1));
    breaker_count_success(p, s);
    assert(!is_unwanted(s)); /* else it would have been given up before */
    if (box_is_special(s) && mode == POOL_DRAINING) {
        doom_box(p, s, hibernate_unused_end(s));
        return;
    }
    if (box_is_special(s) && mode == POOL_RUNNING) {
        lease_begin(p, s, waiter_of(list_first(&s->waiters)),
                    s->is_restored ? POOL_SRC_RESTORED : POOL_SRC_COLD);
    } else if (s->box.sandbox_id[0] != '\0') {
        s->box.parked_ns = s->box.parked_ns != 0 ? s->box.parked_ns : p->now_ns;
        s->lease_from = POOL_PARKED;
        box_set_state(p, s, POOL_PARKED);
        box_mark_dirty(p, s, 0);
    } else {
        box_set_state(p, s, POOL_BLANK);
        box_mark_dirty(p, s, 0);
    }
    emit_event(p, POOL_FACT_READY, s, NULL);
}

void make_probe(struct pool *p, struct slot *s)
{
    s->is_asked = true;
    emit_backend(p, POOL_FX_PROBE, s,
                 time_after(p->now_ns, profile_of(p, s)->conf.ready_timeout_ns));
}

void make_created(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);

    if (s == NULL || s->box.epoch != ev->epoch || s->box.state != POOL_CREATING) {
        doom_late_created(p, ev);
        return;
    }
    memcpy(s->box.url, ev->u.created.url, sizeof(s->box.url));
    index_set_ref(p, s, ev->u.created.ref);
    s->box.seen_ns = p->now_ns;
    box_set_state(p, s, POOL_STARTING);
    emit_event(p, POOL_FACT_CREATED, s, NULL);
    if (is_unwanted(s))
        doom_box(p, s, hibernate_unused_end(s));
    else if (ev->u.created.is_ready) {
        s->is_vouched = true;
        become_ready(p, s);
    } else
        make_probe(p, s);
}

static bool is_callers_fault(int code)
{
    return code == SP_INVALID_FIELD || code == SP_FORBIDDEN || code == SP_UNSUPPORTED ||
           code == SP_SPEC_CONFLICT || code == SP_OWNER_CONFLICT;
}

/* The extras they requested are not possible. That is not counted for the profile, and trying again
 * would not help. Other acquires of the thread, without these extras, look for another box. */
static void refuse_callers(struct pool *p, struct slot *s, const struct pool_event *ev)
{
    struct refusal r = {.code = ev->u.failed.code, .reason = p->reason};
    struct list_node *next;

    str_copy_cut(p->reason, sizeof(p->reason), ev->u.failed.reason);
    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        struct waiter *w = waiter_of(n);

        next = list_next(&s->waiters, n);
        if (w->acquire.is_special && w->acquire.made_with == s->box.made_with)
            waiter_refuse(p, w, &r);
    }
}

void make_create_failed(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);

    if (s == NULL || s->box.epoch != ev->epoch || s->box.state != POOL_CREATING) {
        p->late_answers++;
        return;
    }
    if (box_is_special(s) && is_callers_fault(ev->u.failed.code))
        refuse_callers(p, s, ev);
    else
        breaker_count_failure(p, s, ev->u.failed.reason);
    s->is_create_unknown = away_is_silence(ev->u.failed.code);
    doom_box(p, s, POOL_END_CREATE_FAILED);
}

void make_probed(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);

    if (s == NULL || s->box.epoch != ev->epoch || !s->is_asked ||
        (s->box.state != POOL_STARTING && s->box.state != POOL_BLANK)) {
        p->late_answers++;
        return;
    }
    if (s->box.state == POOL_BLANK) {
        pulse_answered(p, s, ev->u.failed.code == SP_OK, ev->life);
        return;
    }
    if (ev->u.failed.code == SP_OK) {
        str_copy_cut(s->box.life, sizeof(s->box.life), ev->life);
        become_ready(p, s);
        return;
    }
    breaker_count_failure(p, s, ev->u.failed.reason);
    if (!box_is_dying(s)) /* the last of its callers has been refused */
        doom_box(p, s, POOL_END_NOT_READY);
}
