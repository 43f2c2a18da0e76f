/* idle.c - before a leased box is destroyed for being idle, its agent is asked. Its owner may use
 * it at its own address, or have started a process that still runs: only the agent knows that. A
 * box that is at work gets its whole idle time again. No answer proves nothing: the agent is asked
 * again a few times, then the idle time is over, and an event gives the reason. The deadline of the
 * lease holds in any case. The agent of a paused box cannot answer: its idle time begins when it goes on. */
#include "pool/internal.h"

#define IDLE_ASK_NS (5 * NS_PER_S)
#define IDLE_TRIES 4
#define IDLE_PAUSE_NS (10 * NS_PER_S)

void idle_begin(struct slot *s)
{
    s->pulse_ns = 0;
    s->unanswered = 0;
}

void idle_stop(struct pool *p, struct slot *s)
{
    list_remove(&p->idlers, &s->idle_link);
    p->idle_asks -= s->box.state == POOL_LEASED && s->is_asked ? 1 : 0;
}

static bool is_over(const struct pool *p, const struct slot *s)
{
    return !s->box.is_paused && s->box.busy == 0 &&
           time_after(pool_active_ns(&s->box), s->box.idle_ns) <= p->now_ns;
}

uint64_t idle_due(const struct slot *s)
{
    if (s->box.idle_ns == POOL_NEVER || s->box.is_paused)
        return POOL_NEVER;
    if (s->box.busy > 0) /* at work: only the store must be updated */
        return time_after(s->saved_ns, s->box.idle_ns / 4 + 1);
    if (s->is_asked || list_is_linked(&s->idle_link))
        return POOL_NEVER;
    return MAX_OF(time_after(pool_active_ns(&s->box), s->box.idle_ns), s->pulse_ns);
}

void idle_enlist(struct pool *p, struct slot *s)
{
    list_push_back(&p->idlers, &s->idle_link);
}

void idle_ask(struct pool *p)
{
    while (p->idle_asks < POOL_IDLE_ASKS_MAX && !list_is_empty(&p->idlers)) {
        struct slot *s = container_of(list_pop_front(&p->idlers), struct slot, idle_link);

        if (is_over(p, s)) { /* otherwise it was used while it waited */
            s->is_asked = true;
            p->idle_asks++;
            emit_backend(p, POOL_FX_ASK_USE, s, time_after(p->now_ns, IDLE_ASK_NS));
        }
        expiry_update(p, s);
    }
}

static void ask_again(struct pool *p, struct slot *s)
{
    s->unanswered++;
    if (s->unanswered >= IDLE_TRIES && is_over(p, s)) {
        emit_event(p, POOL_FACT_IDLE_UNKNOWN, s, "its agent did not answer 4 times");
        hibernate_or_doom(p, s, POOL_END_IDLE);
        return;
    }
    s->pulse_ns = time_after(p->now_ns, MIN_OF(s->box.idle_ns / 4 + 1, (uint64_t) IDLE_PAUSE_NS));
    expiry_update(p, s);
}

void idle_answered(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);
    enum pool_use use = ev->u.used.use;

    if (s == NULL || s->box.epoch != ev->epoch || s->box.state != POOL_LEASED || !s->is_asked) {
        p->late_answers++;
        return;
    }
    s->is_asked = false;
    p->idle_asks--;
    if (use == POOL_USE_UNKNOWN) {
        ask_again(p, s);
        return;
    }
    s->unanswered = 0;
    s->pulse_ns = 0;
    s->is_known = s->is_known || use == POOL_USE_BUSY;
    if (use == POOL_USE_BUSY)
        lease_touch(p, s, p->now_ns);
    else if (use == POOL_USE_NONE) /* a time in the future is not possible */
        lease_touch(p, s, MIN_OF(ev->u.used.active_ns, p->now_ns));
    if (is_over(p, s))
        hibernate_or_doom(p, s, POOL_END_IDLE);
    else
        expiry_update(p, s);
}
