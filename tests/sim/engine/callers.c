/* callers.c - the callers: several threads of three principals, and some without a thread. They
 * acquire boxes, with extras or without, keep, renew, release and destroy them, disconnect while
 * they wait, and do not read the answer. They use the engine as src/dialects/native does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/hibernate.h"
#include "engine/pauses.h"
#include "walk.h"

#define TTL_NS (20 * NS_PER_S) /* of a profile that has one, see operator.c */

void callers_init(void)
{
    for (size_t i = 0; i < WALK_CLIENTS; i++) {
        struct walk_client *c = &walk.clients[i];

        (void) snprintf(c->user, sizeof(c->user), "user-%zu", i % 3);
        (void) snprintf(c->sandbox_id, sizeof(c->sandbox_id), "s%zu", i);
        if (i < WALK_THREADS)
            (void) snprintf(c->thread, sizeof(c->thread), "thread-%zu", i);
    }
}

uint64_t callers_principal(const struct walk_client *c)
{
    return 100U + (uint64_t) (c->user[5] - '0');
}

static struct walk_request *request_of(struct list_node *n)
{
    return container_of(n, struct walk_request, link);
}

bool callers_has_open(size_t client)
{
    for (struct list_node *n = list_first(&walk.requests); n != NULL;
         n = list_next(&walk.requests, n))
        if (!request_of(n)->is_answered && request_of(n)->client == client)
            return true;
    return false;
}

static struct walk_request *request_new(enum pool_event_kind kind, size_t client)
{
    struct walk_request *r = xcalloc(1, sizeof(*r));

    walk.req++;
    r->number = walk.req;
    r->kind = kind;
    r->client = client;
    str_copy_cut(r->sandbox_id, sizeof(r->sandbox_id), walk.clients[client].sandbox_id);
    r->call.on_reply = replies_take;
    money_asked(r);
    list_push_back(&walk.requests, &r->link);
    return r;
}

void callers_end(struct walk_request *r)
{
    rt_timer_cancel(&walk.rt, &r->taken);
    list_remove(&walk.requests, &r->link);
    free(r->call.extras); /* NULL once the engine owns it */
    free(r);
}

static bool has_other_open(const struct walk_request *r)
{
    for (struct list_node *n = list_first(&walk.requests); n != NULL;
         n = list_next(&walk.requests, n))
        if (request_of(n) != r && !request_of(n)->is_answered && request_of(n)->client == r->client)
            return true;
    return false;
}

/* Until it is answered, the deadline may be the requested one, or the previous one. */
static void may_move_deadline(struct walk_client *c, struct walk_request *r, uint64_t ttl_ns)
{
    r->until_ns = walk_now() + (ttl_ns != 0 ? ttl_ns : TTL_NS);
    c->promised_ns = MIN_OF(c->promised_ns, r->until_ns);
    c->overlap_ns = has_other_open(r) ? MIN_OF(c->overlap_ns, MIN_OF(r->until_ns, c->last_until_ns))
                                      : POOL_NEVER;
    c->last_until_ns = r->until_ns;
    r->prev = c->last_req;
    c->last_req = r->number;
}

/* --- acquire --- */

/* What it requests in addition to the box. Extras that can be applied late contain its number;
 * those that a box can only be made with are of few kinds, so that a box can match again. */
static void add_extras(struct walk_request *r, unsigned profile)
{
    unsigned can = engine_can_apply(walk.engine, profile);
    unsigned late = engine_can_apply_late(walk.engine, profile);
    unsigned kinds = (unsigned) rand_between(&walk.rand, 1, BACKEND_LATE_ALL) & can;
    unsigned marked = kinds & late & (BACKEND_LATE_ENVS | BACKEND_LATE_LIMITS);
    char value[24];
    struct backend_env_var env = {(marked & BACKEND_LATE_ENVS) != 0 ? "MARK" : "SAME", value};
    struct backend_mount mount = {.host_path = walk_one_in(2) ? "/data/a" : "/data/b",
                                  .box_path = "/mnt/data"};
    struct backend_extras x = {.envs = &env, .mounts = &mount};

    if (kinds == 0)
        return;
    (void) snprintf(value, sizeof(value), "%llu",
                    (marked & BACKEND_LATE_ENVS) != 0 ? (unsigned long long) r->number : 1ULL);
    x.env_count = (kinds & BACKEND_LATE_ENVS) != 0 ? 1 : 0;
    x.mount_count = (kinds & BACKEND_LATE_MOUNTS) != 0 ? 1 : 0;
    if ((kinds & BACKEND_LATE_LIMITS) != 0)
        x.memory = (marked & BACKEND_LATE_LIMITS) != 0 ? WALK_MARK + r->number : 1;
    if (x.memory > 0 && walk_one_in(12)) {
        x.memory = 1ULL << 40;
        r->is_excessive = true;
        marked = 0;
    }
    r->kinds = kinds;
    r->marked = marked;
    r->call.extras = backend_extras_copy(&x);
}

static void fill_times(struct walk_request *r, struct pool_acquire *a)
{
    struct walk_client *c = &walk.clients[r->client];
    uint64_t grace_ns = WALK_ACQUIRE_NS + (r->kinds != 0 ? WALK_UPDATE_NS + WALK_CANCEL_NS : 0);

    a->deadline_ns = walk_now() + (walk_one_in(5) ? 0 : walk_ms(1, 5000));
    a->ttl_ns = walk_one_in(4) ? walk_ms(1000, 30000) : 0;
    a->idle_ns = walk_one_in(4) ? walk_ms(1000, 30000) : 0;
    r->call.deadline_ns = a->deadline_ns;
    r->due_ns = a->deadline_ns + grace_ns;
    may_move_deadline(c, r, a->ttl_ns);
}

static void make_odd(struct walk_request *r, struct pool_acquire *a)
{
    r->is_odd = true;
    if (walk_one_in(2))
        a->principal++;
    else
        str_copy_cut(a->user, sizeof(a->user), "somebody-else");
}

static void acquire(size_t index)
{
    struct walk_client *c = &walk.clients[index];
    unsigned which = (unsigned) rand_below(&walk.rand, WALK_PROFILES);
    int profile = pool_profile_index(engine_pool(walk.engine), operator_profile(which));
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE};
    struct pool_acquire *a = &ev.u.acquire;
    struct walk_request *r;

    if (profile < 0 || engine_profile(walk.engine, (unsigned) profile) == NULL)
        return;
    if (index >= WALK_THREADS && !c->is_acked && !callers_has_open(index))
        (void) snprintf(c->sandbox_id, sizeof(c->sandbox_id), "anon-%llu",
                        (unsigned long long) walk.req);
    r = request_new(POOL_EV_ACQUIRE, index);
    str_copy_cut(a->user, sizeof(a->user), c->user);
    str_copy_cut(a->thread, sizeof(a->thread), c->thread);
    str_copy_cut(a->sandbox_id, sizeof(a->sandbox_id), c->sandbox_id);
    str_copy_cut(r->call.sandbox_id, sizeof(r->call.sandbox_id), c->sandbox_id);
    r->was_hibernated = engine_hibernated_find(walk.engine, c->sandbox_id) != NULL;
    a->principal = callers_principal(c);
    a->profile = (unsigned) profile;
    a->is_profile_named = walk_one_in(4);
    if (walk_one_in(3))
        add_extras(r, a->profile);
    if (walk_one_in(4)) {
        (void) snprintf(r->metadata, sizeof(r->metadata), "{\"of\": \"%s\"}", c->sandbox_id);
        r->call.metadata = r->metadata;
    }
    fill_times(r, a);
    if (c->is_acked && c->in_doubt == 0 && walk_one_in(12))
        make_odd(r, a);
    walk_say("caller %zu asks, number %llu, kinds %u", index, (unsigned long long) r->number,
             r->kinds);
    engine_call_start(walk.engine, &r->call, &ev);
}

/* --- what is done with a box --- */

static void on_box(size_t index, enum pool_event_kind kind)
{
    struct walk_client *c = &walk.clients[index];
    struct pool_event ev = {.kind = kind};
    struct walk_request *r = request_new(kind, index);
    const struct pool_box *b = pool_find_sandbox(engine_pool(walk.engine), c->sandbox_id);
    struct walk_box *real = b != NULL ? boxes_find(b->id.v) : NULL;

    if ((kind == POOL_EV_RENEW || kind == POOL_EV_PAUSE) && real != NULL)
        real->held_epoch = b->epoch;
    str_copy_cut(ev.u.on.sandbox_id, sizeof(ev.u.on.sandbox_id), c->sandbox_id);
    ev.u.on.principal = callers_principal(c);
    ev.u.on.generation = walk_one_in(3) ? 0 : c->generation;
    ev.u.on.want_destroy = kind == POOL_EV_RELEASE && walk_one_in(3);
    ev.u.on.is_quick = walk_one_in(2);
    if (walk_one_in(12)) {
        r->is_odd = true;
        ev.u.on.generation = c->generation + 7;
    }
    if (kind == POOL_EV_RENEW) {
        ev.u.on.ttl_ns = walk_one_in(3) ? 0 : walk_ms(1000, 40000);
        may_move_deadline(c, r, ev.u.on.ttl_ns);
    }
    r->is_quick = ev.u.on.is_quick;
    r->is_destroy = !r->is_odd && (kind == POOL_EV_DESTROY || ev.u.on.want_destroy);
    r->may_end = kind == POOL_EV_RELEASE && !r->is_destroy;
    /* Where boxes are not parked a release is an end, too. */
    r->due_ns = walk_now() + (kind == POOL_EV_RENEW || kind == POOL_EV_PAUSE
                                  ? WALK_STORE_S * NS_PER_S + WALK_GRACE_NS
                                  : WALK_DESTROY_NS);
    r->is_of_snapshot = (kind == POOL_EV_DESTROY || ev.u.on.want_destroy) && b == NULL &&
                        engine_hibernated_find(walk.engine, c->sandbox_id) != NULL;
    if (r->is_destroy) {
        c->is_acked = false;
        snapshots_waive(c->sandbox_id);
    }
    c->in_doubt += r->may_end ? 1 : 0;
    walk_say("caller %zu: %s, number %llu", index,
             kind == POOL_EV_RENEW     ? "renews"
             : kind == POOL_EV_RELEASE ? "releases"
             : kind == POOL_EV_PAUSE   ? "pauses"
                                       : "destroys",
             (unsigned long long) r->number);
    engine_call_start(walk.engine, &r->call, &ev);
}

static void pause_box(size_t index)
{
    const struct pool_box *b =
        pool_find_sandbox(engine_pool(walk.engine), walk.clients[index].sandbox_id);

    if (b != NULL && engine_can_pause(walk.engine, b))
        on_box(index, POOL_EV_PAUSE);
}

static void activity(size_t index)
{
    struct walk_client *c = &walk.clients[index];
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY, .box = {c->box}};

    if (!c->is_acked)
        return;
    ev.u.activity.delta = c->busy > 0 && walk_one_in(2) ? -1 : (int) rand_below(&walk.rand, 2);
    if (ev.u.activity.delta > 0)
        c->busy++;
    if (ev.u.activity.delta < 0)
        c->busy--;
    c->active_ns = walk_now();
    engine_post(walk.engine, &ev);
}

/* --- disconnects --- */

static void abandon(struct walk_request *r)
{
    struct walk_client *c = &walk.clients[r->client];

    if (r->may_end) {
        c->in_doubt--;
        c->is_acked = false;
    }
    engine_call_abandon(walk.engine, &r->call);
    callers_end(r);
}

static void hang_up(void)
{
    struct list_node *n;

    for (n = list_last(&walk.requests); n != NULL; n = list_first(&walk.requests)) {
        if (!request_of(n)->is_answered && walk_one_in(2)) {
            walk_say("caller %zu hangs up, number %llu", request_of(n)->client,
                     (unsigned long long) request_of(n)->number);
            abandon(request_of(n));
            return;
        }
        if (n == list_first(&walk.requests) || walk_one_in(2))
            return;
    }
}

void callers_leave(void)
{
    struct list_node *next;

    if (walk_one_in(2)) { /* it asks the successor again */
        for (struct list_node *n = list_first(&walk.requests); n != NULL; n = next) {
            struct walk_request *r = request_of(n);

            next = list_next(&walk.requests, n);
            if (r->kind == POOL_EV_ACQUIRE && !r->is_answered)
                abandon(r);
        }
    }
    engine_refuse_waiting(walk.engine);
}

bool callers_are_gone(void)
{
    return list_is_empty(&walk.requests);
}

void callers_hang_up(void)
{
    while (!list_is_empty(&walk.requests)) {
        struct walk_request *r = request_of(list_first(&walk.requests));

        if (!r->is_answered) {
            abandon(r);
            continue;
        }
        if (r->is_lost && r->box != 0 && !walk.is_frozen) {
            struct box_id box = {r->box};

            engine_undelivered(walk.engine, &r->call, box, false);
        }
        callers_end(r);
    }
}

/* What was acknowledged must still be there after a start; the idle clock continues from what is in
 * the store. */
void callers_crashed(void)
{
    for (size_t i = 0; i < WALK_CLIENTS; i++) {
        struct walk_client *c = &walk.clients[i];
        const struct walk_row *row = disk_row(c->box);

        if (c->in_doubt > 0)
            c->is_acked = false;
        c->in_doubt = 0;
        c->busy = 0;
        if (!c->is_acked)
            continue;
        if (row == NULL)
            walk_fail("an acknowledged lease is not in the store");
        if (row->idle_limit_ms != 0)
            c->active_ns = MIN_OF(
                c->active_ns, rt_mono_of_stored(&walk.rt, row->active_ms + row->idle_limit_ms / 4));
    }
}

void callers_forget(void)
{
    for (size_t i = 0; i < WALK_CLIENTS; i++)
        walk.clients[i].is_acked = false;
}

/* More often than not a caller that has a box. */
static size_t any_owner(void)
{
    size_t index = rand_below(&walk.rand, WALK_CLIENTS);

    for (unsigned i = 0; i < 6 && !walk.clients[index].is_acked; i++)
        index = rand_below(&walk.rand, WALK_CLIENTS);
    return index;
}

void callers_act(void)
{
    uint64_t dice = rand_below(&walk.rand, 100);
    size_t index = dice < 52 ? rand_below(&walk.rand, WALK_CLIENTS) : any_owner();

    if (dice < 52)
        acquire(index);
    else if (dice < 66)
        on_box(index, POOL_EV_RELEASE);
    else if (dice < 72)
        on_box(index, POOL_EV_RENEW);
    else if (dice < 76)
        pause_box(index);
    else if (dice < 81)
        on_box(index, POOL_EV_DESTROY);
    else if (dice < 91)
        activity(index);
    else
        hang_up();
}
