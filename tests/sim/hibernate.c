/* hibernate.c - what the daemon does around the pool for hibernated boxes: snapshots outlive crashes and older copies of
 * the database, and an owner's next box is made from its own. */
#include <string.h>

#include "base/str.h"
#include "world.h"

#define MADE_WITH 1000 /* and the number of the snapshot */

static struct world_snapshot *find(struct world *w, const char *sandbox_id)
{
    for (size_t i = 0; i < WORLD_SNAPSHOTS; i++)
        if (w->snapshots[i].is_used && strcmp(w->snapshots[i].sandbox_id, sandbox_id) == 0)
            return &w->snapshots[i];
    return NULL;
}

static void record(struct world *w, const struct pool_box *box)
{
    struct world_snapshot *s = find(w, box->sandbox_id);

    for (size_t i = 0; i < WORLD_SNAPSHOTS && s == NULL; i++)
        if (!w->snapshots[i].is_used)
            s = &w->snapshots[i];
    if (s == NULL)
        world_fail(w, "too many snapshots for the tables");
    if (s->is_used && s->generation > box->generation)
        return; /* a newer one counts */
    s->is_used = true;
    s->number = ++w->snapshot_count;
    s->generation = box->generation;
    s->profile = box->profile;
    s->principal = box->principal;
    str_copy_cut(s->sandbox_id, sizeof(s->sandbox_id), box->sandbox_id);
}

static bool is_unwanted(struct world *w, const struct world_snapshot *s)
{
    uint64_t generation = 0;
    enum pool_end end = pool_find_past(w->pool, s->sandbox_id, &generation, NULL);

    return (end == POOL_END_DESTROYED || end == POOL_END_RELEASED) && generation >= s->generation;
}

void hibernate_perform(struct world *w, const struct pool_fx *fx)
{
    struct pending *p =
        world_later(w, PENDING_EVENT, world_ms(w, 1, world_chance(w, 10) ? 3000 : 80));

    p->ev.kind = POOL_EV_HIBERNATED;
    p->ev.box = fx->box;
    p->ev.epoch = fx->epoch;
    p->row = fx->snapshot;
    if (world_chance(w, 20))
        p->ev.u.failed.code = world_chance(w, 2) ? SP_TOO_MANY_SNAPSHOTS : SP_BACKEND_FAILED;
    else if (world_chance(w, 10))
        record(
            w,
            &fx->snapshot); /* whole long before the pool is notified: a crash may come between */
}

/* The answer comes now: only a box that runs can have been copied. */
void hibernate_deliver(struct world *w, struct pool_event *ev, const struct pool_box *box)
{
    const struct world_box *real = backend_find(w, ev->box.v);
    const struct pool_box *bound;
    struct world_snapshot *s;

    s = find(w, box->sandbox_id);
    if ((real == NULL || !real->is_running) && (s == NULL || s->generation != box->generation))
        ev->u.failed.code = SP_BACKEND_FAILED;
    if (ev->u.failed.code == SP_OK)
        record(w, box);
    w->too_many += ev->u.failed.code == SP_TOO_MANY_SNAPSHOTS ? 1 : 0;
    world_step(w, ev);
    s = find(w, box->sandbox_id);
    bound = pool_find_sandbox(w->pool, box->sandbox_id);
    if (s != NULL && s->generation == box->generation && (bound != NULL || is_unwanted(w, s)))
        s->is_used = false; /* its box goes on */
}

void hibernate_mark(struct world *w, struct pool_acquire *a)
{
    const struct world_snapshot *s = find(w, a->sandbox_id);

    if (s == NULL)
        return;
    a->is_special = true;
    a->is_restored = true;
    a->generation = s->generation;
    a->made_with = MADE_WITH + s->number;
    if (pool_find_sandbox(w->pool, a->sandbox_id) == NULL)
        a->profile = s->profile;
    a->is_profile_named = false;
    w->restores++;
}

bool hibernate_is_running(struct world *w, const char *sandbox_id)
{
    enum pool_end end = pool_find_past(w->pool, sandbox_id, NULL, NULL);

    if (pool_find_sandbox(w->pool, sandbox_id) != NULL || end == POOL_END_DESTROYED ||
        end == POOL_END_RELEASED)
        return false;
    for (size_t i = 0; i < WORLD_PENDING; i++)
        if (w->pending[i].is_used && w->pending[i].ev.kind == POOL_EV_HIBERNATED &&
            strcmp(w->pending[i].row.sandbox_id, sandbox_id) == 0)
            return true;
    return false;
}

void hibernate_again(struct world *w, const struct pool_fx *fx)
{
    struct pending *p = world_later(w, PENDING_EVENT, 0);

    p->ev.kind = POOL_EV_ACQUIRE;
    p->ev.req = fx->req;
    p->ev.u.acquire = *fx->u.again;
}

void hibernate_ask_again(struct world *w, struct pool_event *ev)
{
    struct request *r = &w->requests[ev->req.v];

    if (!r->is_open)
        return; /* it has hung up */
    if (hibernate_is_running(w, ev->u.acquire.sandbox_id)) {
        r->is_open = false; /* refused */
        return;
    }
    hibernate_mark(w, &ev->u.acquire);
    r->is_special =
        ev->u.acquire.is_special && pool_find_sandbox(w->pool, ev->u.acquire.sandbox_id) == NULL;
    r->made_with = ev->u.acquire.made_with;
    world_step(w, ev);
}

bool hibernate_is_missing(struct world *w, uint64_t made_with)
{
    for (size_t i = 0; i < WORLD_SNAPSHOTS; i++)
        if (w->snapshots[i].is_used && MADE_WITH + w->snapshots[i].number == made_with)
            return false;
    return made_with > MADE_WITH;
}

void hibernate_destroy(struct world *w, enum pool_event_kind kind, const char *sandbox_id)
{
    struct world_snapshot *s = find(w, sandbox_id);

    if (kind == POOL_EV_DESTROY && s != NULL && pool_find_sandbox(w->pool, sandbox_id) == NULL)
        s->is_used = false;
}

static void leased(struct world *w, const struct pool_box *box, struct world_snapshot *s)
{
    const struct world_box *real = backend_find(w, box->id.v);

    if (s->generation > box->generation)
        return; /* an older box, found after an older copy of the database was put back */
    if (s->generation < box->generation && real != NULL && !real->is_exempt &&
        box->made_with != MADE_WITH + s->number && box->made_with < MADE_WITH)
        world_fail(w, "a thread got another box, though its files are in a snapshot");
    s->is_used = false;
}

void hibernate_fact(struct world *w, const struct pool_fx *fx)
{
    struct world_snapshot *s = find(w, fx->snapshot.sandbox_id);
    enum pool_end end = fx->u.event.end;

    if (fx->u.event.fact == POOL_FACT_LEASED && s != NULL)
        leased(w, &fx->snapshot, s);
    if (fx->u.event.fact != POOL_FACT_DOOMED)
        return;
    if (end == POOL_END_HIBERNATED && s == NULL && fx->snapshot.made_with < MADE_WITH)
        world_fail(w, "a box was given up as hibernated, and there is no snapshot of it");
    if (end == POOL_END_NOT_KEPT && ++w->not_kept > w->too_many)
        world_fail(w, "a box ends for want of room, and there was room");
    w->hibernated += end == POOL_END_HIBERNATED ? 1 : 0;
    if ((end == POOL_END_DESTROYED || (end == POOL_END_RELEASED && fx->snapshot.leased_ns != 0)) &&
        s != NULL && s->generation <= fx->snapshot.generation)
        s->is_used = false;
}

/* The daemon has started: what is over is deleted. */
void hibernate_sweep(struct world *w)
{
    for (size_t i = 0; i < WORLD_SNAPSHOTS; i++) {
        struct world_snapshot *s = &w->snapshots[i];
        const struct pool_box *b = pool_find_sandbox(w->pool, s->sandbox_id);

        if (s->is_used && b == NULL && is_unwanted(w, s))
            s->is_used = false;
    }
}
