/* away.c - a backend that does not answer must not fill the pool. A create without an answer may
 * have made a box, so its row stays and counts until the box is known to be gone. Every further
 * create would only add such a row: no box is made on that backend until it has reported the result
 * of the first create, or has answered a later listing. And if there are other backends, boxes that
 * cannot be destroyed take no more than one backend's share of the places. */
#include "pool/internal.h"

static_assert(POOL_BACKENDS_MAX >= 2 * POOL_PROFILES_MAX, "also those that only rows name");

bool away_is_silence(int code)
{
    return code == SP_TIMEOUT || code == SP_CANCELLED || code == SP_BACKEND_UNAVAILABLE ||
           code == SP_CONNECT_FAILED || code == SP_IO;
}

bool away_is_unknown(const struct slot *s)
{
    return s->is_create_unknown && (s->box.state == POOL_DOOMED || s->box.state == POOL_DESTROYING);
}

void away_count(struct pool *p, const struct slot *s, bool is_in)
{
    unsigned one = is_in ? 1U : -1U; /* unsigned: wraps to minus one */
    unsigned backend = s->box.backend;

    if (backend >= POOL_BACKENDS_MAX)
        return;
    if (away_is_unknown(s) && s->box.made_with != 0)
        p->away.unknown_own[backend] += one;
    else if (away_is_unknown(s))
        p->away.unknown[backend] += one;
    if (s->tries > 0)
        p->away.stuck[backend] += one;
}

void away_count_used(struct pool *p)
{
    bool is_used[POOL_BACKENDS_MAX] = {false};

    p->away.used = 0;
    for (unsigned i = 0; i < p->profile_count; i++) {
        const struct pool_profile *c = &p->profiles[i].conf;

        if (c->is_retired || c->backend >= POOL_BACKENDS_MAX || is_used[c->backend])
            continue;
        is_used[c->backend] = true;
        p->away.used++;
    }
}

static bool has_its_part(const struct pool *p, unsigned backend)
{
    return p->away.used > 1 && p->away.stuck[backend] >= MAX_OF(p->max_boxes / p->away.used, 1U);
}

bool away_holds(const struct pool *p, const struct profile *f)
{
    unsigned backend = f->conf.backend;

    return backend < POOL_BACKENDS_MAX &&
           (p->away.unknown[backend] > 0 || has_its_part(p, backend));
}

bool away_holds_special(const struct pool *p, const struct profile *f)
{
    unsigned backend = f->conf.backend;

    return away_holds(p, f) ||
           (backend < POOL_BACKENDS_MAX && p->away.unknown_own[backend] >= POOL_UNKNOWN_OWN_MAX);
}

void away_answered(struct pool *p, struct slot *s)
{
    away_count(p, s, false);
    s->is_create_unknown = false;
    away_count(p, s, true);
}

static void mark_answered(struct pool *p, const struct list *dying, unsigned backend,
                          uint64_t started_ns)
{
    for (struct list_node *n = list_first(dying); n != NULL; n = list_next(dying, n)) {
        struct slot *s = slot_of(n);

        if (s->box.backend == backend && s->is_create_unknown && s->changed_ns < started_ns)
            away_answered(p, s);
    }
}

/* The backend does answer. One box that cannot be destroyed is no reason to make no others. */
void away_listed(struct pool *p, unsigned backend, uint64_t started_ns)
{
    if (backend >= POOL_BACKENDS_MAX ||
        p->away.unknown[backend] + p->away.unknown_own[backend] == 0)
        return;
    mark_answered(p, &p->lists[POOL_DOOMED], backend, started_ns);
    mark_answered(p, &p->lists[POOL_DESTROYING], backend, started_ns);
}
