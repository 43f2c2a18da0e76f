/* breaker.c - what happens when boxes cannot be made: the pauses between creates become longer, and
 * after enough failures in a row the circuit opens: callers are refused at once, and one box at a
 * time is tried. */
#include "base/str.h"
#include "pool/internal.h"

/* Made with a caller's extras: its success or failure is not counted for the profile. */
static bool has_own_recipe(const struct slot *s)
{
    return box_is_special(s) && s->box.made_with != 0;
}

void breaker_count_success(struct pool *p, struct slot *s)
{
    struct profile *f = profile_of(p, s);
    uint64_t took_ns = s->box.ready_ns - s->box.created_ns;

    if (!s->is_made || has_own_recipe(s))
        return;
    f->provision_ns = f->provision_ns == 0 ? took_ns : f->provision_ns / 5 * 4 + took_ns / 5;
    if (f->is_open)
        emit_event(p, POOL_FACT_BREAKER_CLOSED, s, NULL);
    f->is_open = false;
    f->failures = 0;
    f->retry_ns = 0;
}

/* When to try again after this many earlier failures. */
static uint64_t next_try(struct pool *p, const struct pool_profile *c, unsigned failures)
{
    uint64_t max_ns = MAX_OF(c->backoff_max_ns, c->backoff_min_ns);
    uint64_t pause_ns = MIN_OF(failures < 20 ? c->backoff_min_ns << failures : max_ns, max_ns);

    return time_after(p->now_ns, rand_between(&p->rand, pause_ns / 2, pause_ns));
}

/* Acquires of such a box try again, each after its own pauses, as often as it takes to open a
 * circuit. */
static void fail_callers(struct pool *p, struct slot *s, const char *reason)
{
    const struct pool_profile *c = &profile_of(p, s)->conf;
    struct list_node *next;

    str_copy_cut(p->reason, sizeof(p->reason), reason);
    emit_event(p, POOL_FACT_CREATE_FAILED, s, p->reason);
    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        struct waiter *w = waiter_of(n);

        next = list_next(&s->waiters, n);
        if (!w->acquire.is_special || w->acquire.made_with != s->box.made_with)
            continue;
        w->retry_ns = next_try(p, c, w->tries);
        w->tries++;
        str_copy_cut(w->reason, sizeof(w->reason), reason);
        if (w->tries >= MAX_OF(c->breaker_after, 1U)) {
            struct refusal r = acquire_refusal(p, w);

            waiter_refuse(p, w, &r);
        }
    }
}

static void note_failure(struct pool *p, struct profile *f, const char *reason)
{
    if (f->failures < 1000000)
        f->failures++;
    str_copy_cut(f->reason, sizeof(f->reason), reason);
    f->failed_ns = p->now_ns;
}

static void open_circuit(struct pool *p, struct slot *s)
{
    struct profile *f = profile_of(p, s);
    const struct pool_profile *c = &f->conf;

    if (!f->is_open && f->failures >= MAX_OF(c->breaker_after, 1U)) {
        f->is_open = true;
        emit_event(p, POOL_FACT_BREAKER_OPEN, s, f->reason);
    }
    if (f->is_open && f->verifying == 0) /* refused now, not at their deadlines */
        for (unsigned i = 0; i < LINE_COUNT; i++)
            turn_refuse_all(p, f, i, NULL);
}

void breaker_count_failure(struct pool *p, struct slot *s, const char *reason)
{
    struct profile *f = profile_of(p, s);
    const struct pool_profile *c = &f->conf;

    if (!s->is_made)
        return;
    p->create_failures++;
    if (has_own_recipe(s)) {
        fail_callers(p, s, reason);
        return;
    }
    f->retry_ns = next_try(p, c, f->failures);
    note_failure(p, f, reason);
    emit_event(p, POOL_FACT_CREATE_FAILED, s, f->reason);
    open_circuit(p, s);
}

void breaker_still_failing(struct pool *p, struct slot *s, const char *reason)
{
    struct profile *f = profile_of(p, s);

    if (s->box.made_with != 0 || f->conf.backend != s->box.backend)
        return;
    f->retry_ns = MAX_OF(f->retry_ns, s->retry_ns); /* nothing is made before */
    note_failure(p, f, reason);
    open_circuit(p, s);
}
