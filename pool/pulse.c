/* pulse.c - do blank boxes still answer? A stopped process is not dead, so no backend reports it.
 * Therefore each blank box is checked now and then, a few at a time, so that a box has answered a
 * short while ago when it is leased. One that has not is mute: nobody gets it until it answers, and
 * it is destroyed if it does not answer twice. */
#include "pool/pulse.h"
#include "pool/internal.h"

#define POOL_PULSE_PAUSE_NS (500 * NS_PER_MS) /* before a blank box is checked again */

/* Checked again at half the time, so that an answer is never older than the whole time. */
static void plan(struct pool *p, struct slot *s)
{
    uint64_t every_ns = profile_of(p, s)->conf.blank_check_ns;

    s->pulse_ns = time_after(s->answered_ns, every_ns / 2 + rand_below(&p->rand, every_ns / 4 + 1));
}

void pulse_begin(struct pool *p, struct slot *s)
{
    s->is_mute = false;
    s->unanswered = 0;
    s->pulse_ns = POOL_NEVER;
    if (profile_of(p, s)->conf.blank_check_ns > 0 && !s->is_vouched)
        plan(p, s);
}

uint64_t pulse_due(const struct pool *p, const struct slot *s)
{
    bool is_planned = p->profiles[s->box.profile].conf.blank_check_ns > 0 || s->is_mute;

    return is_planned && !s->is_asked ? s->pulse_ns : POOL_NEVER;
}

static void ask(struct pool *p, struct slot *s)
{
    p->pulses++;
    s->is_asked = true;
    emit_backend(p, POOL_FX_PROBE, s, time_after(p->now_ns, POOL_CHECK_NS));
}

void pulse_ask(struct pool *p, struct slot *s)
{
    if (p->pulses >= POOL_ASKS_MAX) /* it is checked when others have answered */
        s->pulse_ns = time_after(p->now_ns, POOL_PULSE_PAUSE_NS);
    else
        ask(p, s);
}

/* How old its last answer may be when it is leased. */
static uint64_t limit_of(struct pool *p, const struct slot *s)
{
    const struct pool_profile *c = &profile_of(p, s)->conf;
    uint64_t limit_ns = c->blank_check_ns > 0 ? c->blank_check_ns : POOL_NEVER;

    return box_is_watched(p, s) ? limit_ns : MIN_OF(limit_ns, c->check_after_ns);
}

enum pulse pulse_feel(struct pool *p, struct slot *s)
{
    const struct profile *f = profile_of(p, s);

    if (s->is_vouched || time_after(s->answered_ns, limit_of(p, s)) >= p->now_ns)
        return PULSE_FRESH;
    if (f->verifying > f->waiting[LINE_BLANK])
        return PULSE_ENOUGH;
    if (!s->is_asked)
        ask(p, s); /* a caller waits: bounded by the number of waiters */
    box_set_mute(p, s, true, s->unanswered);
    return PULSE_ASKED;
}

void pulse_answered(struct pool *p, struct slot *s, bool is_ok, const char *life)
{
    s->is_asked = false;
    p->pulses--;
    if (is_ok) {
        box_take_life(p, s, life); /* after a restart it is as blank as before */
        s->box.seen_ns = p->now_ns;
        s->answered_ns = p->now_ns;
        plan(p, s);
        box_set_mute(p, s, false, 0); /* also moves it to the end of its list: seen last, used
                                       * first */
        return;
    }
    s->pulse_ns = time_after(p->now_ns, POOL_PULSE_PAUSE_NS);
    box_set_mute(p, s, true, s->unanswered + 1);
    if (s->unanswered > 1)
        doom_box(p, s, POOL_END_NOT_READY);
}
