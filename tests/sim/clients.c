/* clients.c - the callers, and what they ask for. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "trace.h"
#include "world.h"

void clients_init(struct world *w)
{
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        struct client *c = &w->clients[i];

        snprintf(c->user, sizeof(c->user), "user-%zu", i % WORLD_USERS);
        snprintf(c->sandbox_id, sizeof(c->sandbox_id), "s%zu", i);
        if (i < WORLD_THREADS)
            snprintf(c->thread, sizeof(c->thread), "thread-%zu", i);
    }
}

uint64_t clients_principal(const struct client *c)
{
    return WORLD_PRINCIPAL + (uint64_t) (c->user[5] - '0');
}

static struct request *open_request(struct world *w, struct pool_event *ev, size_t client)
{
    struct request *r;

    w->req++;
    if (w->req >= WORLD_REQS)
        world_fail(w, "too many requests for the tables");
    ev->req.v = w->req;
    r = &w->requests[w->req];
    *r = (struct request){.kind = ev->kind, .client = client, .is_open = true};
    return r;
}

bool clients_has_open(const struct world *w, size_t client)
{
    for (uint64_t i = 1; i <= w->req; i++)
        if (w->requests[i].is_open && w->requests[i].client == client)
            return true;
    return false;
}

/* Until it is answered, the deadline may be the requested one, or the previous one. */
static void may_move_deadline(struct world *w, struct client *c, struct request *r, uint64_t ttl_ns)
{
    r->until_ns = w->now_ns + (ttl_ns != 0 ? ttl_ns : WORLD_TTL_NS);
    c->promised_ns = MIN_OF(c->promised_ns, r->until_ns);
    r->prev_req = c->last_req;
    c->last_req = w->req;
}

static void acquire(struct world *w, size_t index)
{
    struct client *c = &w->clients[index];
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE};
    struct pool_acquire *a = &ev.u.acquire;
    struct request *r;
    bool is_sure = c->is_acked && c->in_doubt == 0;

    if (hibernate_is_running(w, c->sandbox_id))
        return;
    if (index >= WORLD_THREADS && !c->is_acked && !clients_has_open(w, index))
        snprintf(c->sandbox_id, sizeof(c->sandbox_id), "anon-%llu", (unsigned long long) w->req);
    r = open_request(w, &ev, index);
    memcpy(a->user, c->user, sizeof(a->user));
    memcpy(a->thread, c->thread, sizeof(a->thread));
    memcpy(a->sandbox_id, c->sandbox_id, sizeof(a->sandbox_id));
    a->principal = clients_principal(c);
    a->profile = (unsigned) rand_below(&w->rand, WORLD_PROFILES);
    if (rand_below(&w->rand, 3) == 0) {
        a->profile = (unsigned) (index % WORLD_PROFILES);
        a->is_profile_named = true;
    }
    a->deadline_ns = w->now_ns + (rand_below(&w->rand, 5) == 0 ? 0 : world_ms(w, 1, 400));
    r->due_ns = a->deadline_ns + WORLD_GRACE_NS;
    a->ttl_ns = rand_below(&w->rand, 3) == 0 ? world_ms(w, 10, 5000) : 0;
    a->idle_ns = rand_below(&w->rand, 3) == 0 ? world_ms(w, 10, 5000) : 0;
    a->is_special = rand_below(&w->rand, 4) == 0;
    a->made_with = a->is_special ? rand_below(&w->rand, 3) : 0;
    a->is_spent = spent_ask(w, c, r);
    hibernate_mark(w, a);
    if (!a->is_spent)
        may_move_deadline(w, c, r, a->ttl_ns);
    r->is_special = a->is_special && pool_find_sandbox(w->pool, a->sandbox_id) == NULL;
    r->made_with = a->made_with;
    if (is_sure && rand_below(&w->rand, 10) == 0) {
        r->is_odd = true;
        if (rand_below(&w->rand, 2) == 0)
            a->principal++;
        else
            str_copy_cut(a->user, sizeof(a->user), "somebody else");
    }
    world_step(w, &ev);
}

static void on_box(struct world *w, size_t index, enum pool_event_kind kind)
{
    struct client *c = &w->clients[index];
    struct pool_event ev = {.kind = kind};
    struct request *r = open_request(w, &ev, index);
    const struct pool_box *b = pool_find_sandbox(w->pool, c->sandbox_id);

    if ((kind == POOL_EV_RENEW || kind == POOL_EV_PAUSE) && b != NULL)
        observer_held(w, b->id.v);
    hibernate_destroy(w, kind, c->sandbox_id);
    memcpy(ev.u.on.sandbox_id, c->sandbox_id, sizeof(ev.u.on.sandbox_id));
    ev.u.on.principal = clients_principal(c);
    ev.u.on.generation = rand_below(&w->rand, 3) == 0 ? 0 : c->generation;
    ev.u.on.want_destroy = kind != POOL_EV_PAUSE && rand_below(&w->rand, 3) == 0;
    ev.u.on.is_quick = rand_below(&w->rand, 2) == 0;
    if (kind != POOL_EV_DESTROY && !ev.u.on.want_destroy)
        r->due_ns = w->now_ns + WORLD_HANG_NS + WORLD_GRACE_NS;
    if (rand_below(&w->rand, 12) == 0) {
        r->is_odd = true;
        ev.u.on.generation = c->generation + 7;
    }
    if (kind == POOL_EV_RENEW) {
        ev.u.on.is_spent = spent_ask(w, c, r);
        ev.u.on.ttl_ns = rand_below(&w->rand, 3) == 0 ? 0 : world_ms(w, 10, 8000);
        may_move_deadline(w, c, r, ev.u.on.ttl_ns);
    }
    r->is_destroy = !r->is_odd &&
                    (kind == POOL_EV_DESTROY || (kind == POOL_EV_RELEASE && ev.u.on.want_destroy));
    if (r->is_destroy)
        c->is_acked = false;
    else if (kind == POOL_EV_RELEASE)
        c->in_doubt++;
    world_step(w, &ev);
}

/* Several at once, so that the answers of their commits can come in any order. */
static void renew(struct world *w, size_t index)
{
    do {
        on_box(w, index, POOL_EV_RENEW);
    } while (w->clients[index].is_acked && rand_below(&w->rand, 2) == 0);
}

static void activity(struct world *w, size_t index)
{
    struct client *c = &w->clients[index];
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY, .box = {c->box}};

    if (!c->is_acked)
        return;
    ev.u.activity.delta =
        c->busy > 0 && rand_below(&w->rand, 2) == 0 ? -1 : (int) rand_below(&w->rand, 2);
    if (ev.u.activity.delta > 0)
        c->busy++;
    if (ev.u.activity.delta < 0)
        c->busy--;
    c->active_ns = w->now_ns;
    if (pool_find_box(w->pool, ev.box) != NULL && pool_find_box(w->pool, ev.box)->is_paused)
        backend_thaw(w, c->box); /* it is needed */
    world_step(w, &ev);
}

static void hang_up(struct world *w)
{
    for (uint64_t i = w->req; i > 0 && i + 40 > w->req; i--) {
        struct request *r = &w->requests[i];
        struct client *c = &w->clients[r->client];
        struct pool_event ev = {.kind = POOL_EV_ABANDON, .req = {i}};

        if (!r->is_open || rand_below(&w->rand, 3) != 0)
            continue;
        r->is_open = false;
        if (r->kind == POOL_EV_ACQUIRE) /* what it asked for may be written after a later renewal */
            c->loose_ns = w->now_ns + 4 * WORLD_HANG_NS;
        if (r->kind == POOL_EV_RELEASE && !r->is_destroy) {
            c->in_doubt--;
            c->is_acked = false;
        }
        world_step(w, &ev);
        return;
    }
}

void clients_act(struct world *w)
{
    size_t index = rand_below(&w->rand, WORLD_CLIENTS);
    uint64_t dice = rand_below(&w->rand, 100);

    if (dice < 50)
        acquire(w, index);
    else if (dice < 68)
        on_box(w, index, POOL_EV_RELEASE);
    else if (dice < 72)
        renew(w, index);
    else if (dice < 75)
        on_box(w, index, POOL_EV_PAUSE);
    else if (dice < 80)
        on_box(w, index, POOL_EV_DESTROY);
    else if (dice < 92)
        activity(w, index);
    else
        hang_up(w);
}
