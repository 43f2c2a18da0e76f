/* mode.c - running, paused, draining: the pool as a whole, and each profile by itself. The modes are stored, so that a
 * restart does not undo what an operator decided. */
#include <stdio.h>

#include "base/str.h"
#include "pool/internal.h"

static_assert(POOL_RUNNING < POOL_PAUSED && POOL_PAUSED < POOL_DRAINING, "the greater allows less");

enum pool_mode mode_of(const struct pool *p, const struct profile *f)
{
    return MAX_OF(p->mode, f->mode);
}

void mode_refuse(const struct pool *p, const struct profile *f, struct refusal *ret)
{
    static const char *const texts[POOL_MODE_COUNT][2] = {
        [POOL_PAUSED] = {"the pool is paused", "the profile is paused"},
        [POOL_DRAINING] = {"the pool is draining", "the profile is draining"},
    };
    enum pool_mode mode = mode_of(p, f);
    bool is_profile = p->mode < mode;
    const char *text = is_profile ? f->mode_text : p->mode_text;

    assert(mode != POOL_RUNNING);
    ret->code = mode == POOL_PAUSED ? SP_PAUSED : SP_DRAINING;
    ret->reason = str_is_empty(text) ? texts[mode][is_profile] : text;
}

/* Acquires that wait because of the old mode are dispatched again. */
static void redo_held(struct pool *p)
{
    for (size_t i = 0; i < p->waiter_count; i++)
        if (p->waiters[i].phase == WAITER_BOX && p->waiters[i].slot->box.state == POOL_PARKED)
            waiter_enter(p, &p->waiters[i], WAITER_REDO);
}

static void report(struct pool *p, const struct pool_event *ev)
{
    const char *name = pool_mode_name(ev->u.mode.mode);
    char *text = p->mode_fact;

    if (ev->u.mode.is_profile)
        (void) snprintf(text, sizeof(p->mode_fact), "%s: profile %.100s", name,
                        p->profiles[ev->u.mode.profile].conf.name);
    else
        str_copy_cut(text, sizeof(p->mode_fact), name);
    emit_event(p, POOL_FACT_MODE, NULL, text);
}

void mode_step(struct pool *p, const struct pool_event *ev)
{
    bool want_parked_gone = ev->u.mode.mode == POOL_DRAINING && ev->u.mode.want_parked_gone;

    if (ev->u.mode.is_profile) {
        struct profile *f = &p->profiles[ev->u.mode.profile];

        assert(ev->u.mode.profile < p->profile_count);
        f->mode = ev->u.mode.mode;
        f->want_parked_gone = want_parked_gone;
        str_copy_cut(f->mode_text, sizeof(f->mode_text), ev->u.mode.text);
        p->is_parked_due = p->is_parked_due || want_parked_gone;
    } else {
        p->mode = ev->u.mode.mode;
        p->want_parked_gone = want_parked_gone;
        str_copy_cut(p->mode_text, sizeof(p->mode_text), ev->u.mode.text);
    }
    p->is_mode_dirty = true;
    p->mode_retry_ns = 0;
    report(p, ev);
    if (ev->u.mode.mode == POOL_DRAINING)
        waiter_refuse_drained(p);
    redo_held(p);
}

static void drain_parked(struct pool *p)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&p->lists[POOL_PARKED]); n != NULL; n = next) {
        struct slot *s = slot_of(n);

        next = list_next(&p->lists[POOL_PARKED], n);
        if (s->hibernate_end == POOL_END_NONE &&
            (p->want_parked_gone || profile_of(p, s)->want_parked_gone))
            hibernate_or_doom(p, s, POOL_END_DRAINED);
    }
}

/* Only leased boxes outlive the drain. */
void mode_drain(struct pool *p)
{
    for (unsigned i = 0; i < p->profile_count; i++)
        for (int k = 0; k < BLANK_KIND_COUNT; k++) {
            struct list *l = &p->profiles[i].blank[k];

            while (mode_of(p, &p->profiles[i]) == POOL_DRAINING && !list_is_empty(l))
                doom_box(p, slot_of(list_first(l)), POOL_END_DRAINED);
        }
    if (p->is_parked_due || (p->want_parked_gone && p->by_state[POOL_PARKED] > p->hibernating))
        drain_parked(p);
    p->is_parked_due = false;
}

void mode_parked(struct pool *p, const struct slot *s)
{
    p->is_parked_due = p->is_parked_due || profile_of(p, s)->want_parked_gone;
}

void pool_restore_mode(struct pool *p, enum pool_mode mode, const char *text)
{
    p->mode = mode;
    str_copy_cut(p->mode_text, sizeof(p->mode_text), text);
}

void pool_restore_profile_mode(struct pool *p, unsigned profile, enum pool_mode mode,
                               const char *text)
{
    struct profile *f = &p->profiles[profile];

    assert(profile < p->profile_count);
    f->mode = mode;
    str_copy_cut(f->mode_text, sizeof(f->mode_text), text);
}
