/* effects.c - events into the real pool and effects out of it. The linker puts these functions
 * between the engine and the pool: every effect that needs an answer gets exactly one, before its
 * deadline. */
#include <stdio.h>
#include <string.h>

#include "../trace.h"
#include "walk.h"

void __real_pool_step(struct pool *p, uint64_t now_ns, const struct pool_event *ev);
bool __real_pool_next_fx(struct pool *p, struct pool_fx *ret);
/* It is at work, so somebody may know it though no reply was delivered: it is kept as long as it is. */
static void note_use(const struct pool_event *ev)
{
    struct walk_box *real = boxes_find(ev->box.v);

    if (ev->u.used.use == POOL_USE_BUSY && real != NULL)
        real->held_epoch = ev->epoch;
}

void __wrap_pool_step(struct pool *p, uint64_t now_ns, const struct pool_event *ev);
bool __wrap_pool_next_fx(struct pool *p, struct pool_fx *ret);

static const enum pool_fx_kind asked_by[POOL_EV_COUNT] = {
    [POOL_EV_CREATED] = POOL_FX_CREATE,      [POOL_EV_CREATE_FAILED] = POOL_FX_CREATE,
    [POOL_EV_PROBED] = POOL_FX_PROBE,        [POOL_EV_CHECKED] = POOL_FX_CHECK,
    [POOL_EV_DISCOVERED] = POOL_FX_DISCOVER, [POOL_EV_USED] = POOL_FX_ASK_USE,
    [POOL_EV_DESTROYED] = POOL_FX_DESTROY,   [POOL_EV_HIBERNATED] = POOL_FX_HIBERNATE,
};

static bool is_asked(enum pool_event_kind kind)
{
    return asked_by[kind] != POOL_FX_STORE || kind == POOL_EV_STORED ||
           kind == POOL_EV_STORE_FAILED;
}

static bool wants_answer(enum pool_fx_kind kind)
{
    return kind != POOL_FX_BIND && kind != POOL_FX_FREEZE && kind != POOL_FX_REPLY &&
           kind != POOL_FX_AGAIN && kind != POOL_FX_EVENT;
}

static void note_effect(const struct pool_fx *fx)
{
    struct walk_effect *e = &walk.effects[walk.effect_count];

    if (!wants_answer(fx->kind) || (walk.is_closing && fx->kind != POOL_FX_STORE))
        return; /* a closing engine sends no more requests */
    if (walk.effect_count == WALK_EFFECTS)
        walk_fail("too many effects under way for the tables");
    walk.effect_count++;
    e->kind = fx->kind;
    e->box = fx->box.v;
    e->key = fx->kind == POOL_FX_STORE ? fx->u.store.write : fx->epoch;
    e->due_ns =
        fx->kind == POOL_FX_STORE ? RT_NEVER : fx->deadline_ns + WALK_CANCEL_NS + WALK_GRACE_NS;
}

static void note_answer(const struct pool_event *ev)
{
    enum pool_fx_kind kind = asked_by[ev->kind];
    uint64_t key = kind == POOL_FX_STORE ? ev->u.stored.write : ev->epoch;

    if (!is_asked(ev->kind))
        return;
    for (size_t i = 0; i < walk.effect_count; i++) {
        struct walk_effect *e = &walk.effects[i];

        if (e->kind != kind || e->box != ev->box.v || e->key != key)
            continue;
        walk.effect_count--;
        *e = walk.effects[walk.effect_count];
        return;
    }
    walk_fail("an effect was answered twice, or an answer has no question");
}

void __wrap_pool_step(struct pool *p, uint64_t now_ns, const struct pool_event *ev)
{
    char text[TRACE_MAX];

    walk.is_dirty = true;
    if (!walk.is_frozen) {
        walk.steps++;
        walk.has_stepped = true;
        note_answer(ev);
        if (ev->kind == POOL_EV_USED)
            note_use(ev);
        if (walk.is_verbose || walk.want_digest) {
            trace_event(text, ev);
            walk_say("%s", text);
        }
    }
    __real_pool_step(p, now_ns, ev);
}

bool __wrap_pool_next_fx(struct pool *p, struct pool_fx *ret)
{
    char text[TRACE_MAX];

    if (!__real_pool_next_fx(p, ret))
        return false;
    if (walk.is_frozen)
        return true;
    if (walk.is_verbose || walk.want_digest) {
        trace_effect(text, ret);
        walk_say("      %s", text);
    }
    note_effect(ret);
    if (ret->kind == POOL_FX_EVENT) {
        replies_fact(ret);
        snapshots_fact(ret);
    } else if (ret->kind == POOL_FX_REPLY)
        replies_promise(ret);
    else if (ret->kind == POOL_FX_DESTROY && !walk.is_closing && !backends_may_destroy(ret->box.v))
        walk_fail("a destroy is asked for without a committed `deleting`");
    return true;
}

void effects_reset(void)
{
    walk.effect_count = 0;
}

void effects_check(void)
{
    for (size_t i = 0; i < walk.effect_count && !walk.is_closing; i++)
        if (walk.effects[i].due_ns < walk_now())
            walk_fail("an effect is not answered");
}
