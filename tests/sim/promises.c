/* promises.c - the answers that callers got. An acknowledged lease must be kept: it ends by its owner's request, by its
 * deadline, or because the box is really dead. */
#include <string.h>

#include "trace.h"
#include "world.h"

/* Never a blank one, and one that was made with the requested extras. */
static void check_special(struct world *w, const struct pool_fx *fx, const struct request *r,
                          const struct world_box *real)
{
    enum pool_source source = fx->u.reply.source;

    if (source == POOL_SRC_WARM && real->is_special)
        world_fail(w, "a box made for one caller was kept warm");
    if (r->is_special && (source == POOL_SRC_WARM || source == POOL_SRC_COLD)) {
        w->specials++;
        if (!real->is_special)
            world_fail(w, "a blank box was given to one who asked for its own");
        if (real->made_with != fx->snapshot.made_with)
            world_fail(w, "a box is not what it was made with");
    }
}

/* Its owner's data in it is lost, and a check would have shown it. */
static void check_life(struct world *w, const struct pool_fx *fx, const struct world_box *real)
{
    const struct pool_box *b = &fx->snapshot;
    const struct pool_profile *c = &w->config.profiles[b->profile];
    uint64_t known_ns = real->restarted_ns + c->check_after_ns + WORLD_PROBE_NS;
    uint64_t asked_ns = w->now_ns - fx->u.reply.queued_ns;

    if (fx->u.reply.source ==
        POOL_SRC_PARKED) /* who joins a lease that waits for its commit relies on its check */
        asked_ns = MIN_OF(asked_ns, b->leased_ns);

    if ((fx->u.reply.source == POOL_SRC_KEPT || fx->u.reply.source == POOL_SRC_PARKED) &&
        !c->is_watched && world_is_restarted(real, b) && real->doubted_ns < real->restarted_ns &&
        known_ns < asked_ns && real->restarted_ns > w->awake_ns)
        world_fail(w, "an owner got a box that was started again in its place");
}

static void acquired(struct world *w, const struct pool_fx *fx, const struct request *r,
                     struct client *c)
{
    const struct pool_box *b = &fx->snapshot;
    const struct world_row *row = rows_find(w, fx->box.v);
    struct world_box *real = backend_find(w, fx->box.v);
    bool is_delivered;

    if (fx->u.reply.source == POOL_SRC_WARM && real->stopped_ns > w->awake_ns &&
        real->stopped_ns != 0 && !real->is_vouched &&
        w->config.profiles[b->profile].blank_check_ns > 0 &&
        b->leased_ns > real->stopped_ns + WORLD_PULSE_NS + WORLD_PROBE_NS)
        world_fail(w, "a box was given out that has not answered for long");
    check_life(w, fx, real);
    if (w->leased == fx->box.v)
        w->leased = 0;
    if (row == NULL || row->box.state != POOL_LEASED || row->box.generation != b->generation ||
        strcmp(row->box.sandbox_id, c->sandbox_id) != 0)
        world_fail(w, "a box was promised before its lease was committed");
    if (strcmp(b->sandbox_id, c->sandbox_id) != 0 || strcmp(b->thread, c->thread) != 0)
        world_fail(w, "a box was given to somebody else");
    if (real == NULL)
        world_fail(w, "a box was given that never existed");
    if (!real->is_proven &&
        (fx->u.reply.source == POOL_SRC_WARM || fx->u.reply.source == POOL_SRC_COLD))
        world_fail(w, "a box was given that was never seen ready");
    check_special(w, fx, r, real);
    if (b->is_paused) {
        struct pending *p = world_later(w, PENDING_EVENT, world_ms(w, 0, 4));

        p->ev.kind = POOL_EV_RESUMED;
        p->ev.box = fx->box;
    }
    is_delivered =
        !world_chance(w, w->steps / 100 % 6 == 5 ? 60 : 6); /* now and then all replies are lost */
    observer_reply(w, fx, is_delivered);
    if (!is_delivered) {
        struct pending *p = world_later(w, PENDING_EVENT, world_ms(w, 0, 4));

        p->ev.kind = POOL_EV_UNDELIVERED;
        p->ev.box = fx->box;
        p->ev.epoch = b->epoch;
        p->ev.u.undelivered.is_spoiled = fx->req.v % 2 == 1;
        return;
    }
    if (c->is_acked && c->in_doubt == 0 && (c->box != fx->box.v || c->generation != b->generation))
        world_fail(w, "a thread has two boxes");
    if (c->thread[0] != '\0' && c->box != fx->box.v && b->generation <= c->generation)
        world_fail(w, "a new box came with an old generation");
    if (c->box != fx->box.v || !c->is_acked) {
        c->busy = 0;
        c->promised_ns = 0;
    }
    c->is_acked = true;
    c->box = fx->box.v;
    c->generation = b->generation;
    c->active_ns = b->active_ns;
}

/* Its row comes from an older copy and could not be written again: a listing has to show the box
 * first. */
static bool is_excused(struct world *w, const struct client *c, int code)
{
    const struct world_row *row = rows_find(w, c->box);
    const struct world_box *real = backend_find(w, c->box);

    if (code == SP_BACKEND_UNAVAILABLE && real != NULL &&
        (!real->is_running || real->absent > 0 || world_is_checked(w, c->box) ||
         (real->shown_ns != 0 && w->now_ns - real->shown_ns <= CHECK_DELAY_MS * NS_PER_MS)))
        return true; /* it does not answer, and its backend does not know it, as far as the pool
                      * knows */
    return code == SP_BACKEND_UNAVAILABLE && row != NULL && row->box.is_stale;
}

static void refused(struct world *w, const struct pool_fx *fx, const struct request *r,
                    struct client *c)
{
    int code = fx->u.reply.code;
    bool is_sure = c->is_acked && c->in_doubt == 0 && !is_excused(w, c, code);

    w->replies_refused++;
    if (r->kind == POOL_EV_RENEW && c->last_req == fx->req.v)
        c->last_req = r->prev_req; /* it has not changed the deadline */
    w->by_code[-code]++;
    if (fx->reason[0] == '\0')
        world_fail(w, "a refusal without a reason");
    if (r->is_odd && is_sure && r->kind == POOL_EV_ACQUIRE && code != SP_FORBIDDEN &&
        code != SP_OWNER_CONFLICT && !quotas_is_full(code))
        world_fail(w, "a wrong caller was refused for a wrong reason");
    quotas_refused(w, r, code);
    if (code == SP_BUDGET_EXCEEDED) {
        spent_refused(w, r, is_sure);
        return;
    }
    if (!r->is_odd && is_sure && !quotas_is_full(code) && code != SP_STORE_UNAVAILABLE &&
        !(r->kind == POOL_EV_ACQUIRE && code == SP_SPEC_CONFLICT))
        world_fail(w, "the owner of a lease was refused");
    if (!r->is_odd && is_sure && code == SP_STORE_UNAVAILABLE && r->kind == POOL_EV_ACQUIRE)
        world_fail(w, "a lease was not kept while the store is down");
}

static bool holds_lease(struct world *w, const struct client *c)
{
    const struct pool_box *b = pool_find_sandbox(w->pool, c->sandbox_id);

    return b != NULL && b->id.v == c->box && b->state == POOL_LEASED;
}

void clients_reply(struct world *w, const struct pool_fx *fx)
{
    struct request *r = &w->requests[fx->req.v];
    struct client *c = &w->clients[r->client];
    bool is_ok = fx->u.reply.code == SP_OK;

    if (fx->req.v > w->req || !r->is_open)
        world_fail(w, "a reply to nobody, or a second one");
    r->is_open = false;
    if (r->kind == POOL_EV_RELEASE && !r->is_destroy) {
        c->in_doubt--;
        /* A commit may still succeed after its caller was answered. */
        if (is_ok || (fx->u.reply.code == SP_STORE_UNAVAILABLE && !holds_lease(w, c)))
            c->is_acked = false;
    }
    if (!is_ok) {
        refused(w, fx, r, c);
        return;
    }
    w->replies_ok++;
    if (r->is_odd)
        world_fail(w, "a wrong caller, or a stale generation, was served");
    spent_served(w, r);
    if (r->kind == POOL_EV_ACQUIRE)
        acquired(w, fx, r, c);
    if (r->kind == POOL_EV_RENEW && fx->req.v == c->last_req && fx->box.v == c->box &&
        !clients_has_open(w, r->client) && c->loose_ns <= w->now_ns)
        c->promised_ns = r->until_ns;
}

/* Whether the end that the pool reports is true. */
static bool is_justified(struct world *w, const struct pool_fx *fx, enum pool_end end,
                         const struct client *c)
{
    const struct pool_box *b = &fx->snapshot;
    const struct world_box *real = backend_find(w, fx->box.v);

    if (b->leased_ns == w->now_ns && (end == POOL_END_TTL || end == POOL_END_IDLE))
        return true; /* it has been leased again in this step: its old deadlines are not known */
    switch (end) {
    case POOL_END_DIED:
    case POOL_END_NETLESS:
    case POOL_END_UNGUARDED:
    case POOL_END_KERNEL_MEMORY:
    case POOL_END_RESTARTED:
        return real == NULL || !real->is_running || world_is_restarted(real, b);
    case POOL_END_TTL:
        return b->expires_ns <= w->now_ns;
    case POOL_END_IDLE:
        return c->busy == 0 && c->active_ns + b->idle_ns <= w->now_ns &&
               observer_is_idle(w, real, b->idle_ns);
    case POOL_END_RELEASED:
    case POOL_END_DESTROYED:
    case POOL_END_EVICTED:
    case POOL_END_DRAINED:
    case POOL_END_HIBERNATED:
    case POOL_END_NOT_KEPT:
        return c->in_doubt > 0; /* otherwise only of a parked box */
    case POOL_END_NONE:
    case POOL_END_AGED:
    case POOL_END_DRIFT:
    case POOL_END_SHRUNK:
    case POOL_END_CREATE_FAILED:
    case POOL_END_NOT_READY:
    case POOL_END_ORPHAN:
    case POOL_END_COUNT:
        break;
    }
    return false;
}

void clients_fact(struct world *w, const struct pool_fx *fx)
{
    enum pool_end end = trace_end(fx);

    if (fx->u.event.fact == POOL_FACT_LEASED)
        w->leased = fx->box.v;
    if (end == POOL_END_NONE)
        return;
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        struct client *c = &w->clients[i];

        if (!c->is_acked || c->box != fx->box.v)
            continue;
        if (!is_justified(w, fx, end, c))
            world_fail(w, "an acknowledged lease was ended for no good reason");
        c->is_acked = false;
    }
}

/* Requests that were under way are not answered. What was acknowledged must still be there. */
void clients_crashed(struct world *w)
{
    for (uint64_t i = 1; i <= w->req; i++)
        w->requests[i].is_open = false;
    for (size_t i = 0; i < w->box_count; i++) {
        w->boxes[i].is_reported = false;
        w->boxes[i].is_proven = false;
    }
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        struct client *c = &w->clients[i];

        if (c->in_doubt > 0)
            c->is_acked = false;
        if (c->is_acked) { /* the idle clock continues from what is in the store */
            const struct pool_box *row = &rows_find(w, c->box)->box;

            if (row->idle_ns != POOL_NEVER)
                c->active_ns = MIN_OF(c->active_ns, row->active_ns + row->idle_ns / 4);
        }
        c->in_doubt = 0;
        c->busy = 0;
    }
    clients_check(w);
}

/* A request is answered by its deadline, also when the disk hangs. */
static void check_deadlines(struct world *w)
{
    if (w->now_ns < w->awake_ns + WORLD_HANG_NS + WORLD_GRACE_NS)
        return;
    while (w->oldest < w->req && !w->requests[w->oldest].is_open)
        w->oldest++;
    for (uint64_t i = w->oldest; i <= w->req; i++) {
        const struct request *r = &w->requests[i];

        if (r->is_open && r->due_ns != 0 && r->due_ns < w->now_ns)
            world_fail(w, "a request was not answered by its deadline");
    }
}

void clients_check(struct world *w)
{
    check_deadlines(w);
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        const struct client *c = &w->clients[i];
        const struct world_row *row;
        const struct pool_box *b;

        if (!c->is_acked || c->in_doubt > 0)
            continue;
        row = rows_find(w, c->box);
        b = pool_find_sandbox(w->pool, c->sandbox_id);
        if (row == NULL || row->box.state != POOL_LEASED || row->box.generation != c->generation ||
            strcmp(row->box.sandbox_id, c->sandbox_id) != 0)
            world_fail(w, "an acknowledged lease is not in the store");
        if (b == NULL || b->id.v != c->box || b->generation != c->generation ||
            b->state != POOL_LEASED)
            world_fail(w, "an acknowledged lease is not in the pool");
        if (row->box.expires_ns < c->promised_ns || b->expires_ns < c->promised_ns)
            world_fail(w, "an acknowledged renewal was forgotten");
    }
}
