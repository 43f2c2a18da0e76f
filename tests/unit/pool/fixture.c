/* fixture.c - performs effects at once, or keeps those that the test holds. The invariants are checked
 * after every step. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

struct fixture fixture;

int fixture_setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    return 0;
}

int fixture_teardown(void **state)
{
    (void) state;
    fixture_stop(&fixture);
    return 0;
}

void fixture_init(struct fixture *r)
{
    struct pool_profile *c = &r->config.profiles[0];

    memset(r, 0, sizeof(*r));
    r->now_ns = 1000 * NS_PER_S;
    r->use = POOL_USE_NONE;
    r->verdict = POOL_ALIVE;
    r->use = POOL_USE_NONE;
    r->config.max_boxes = 8;
    r->config.max_waiters = 16;
    r->config.seed = 7;
    r->config.profile_count = 1;
    snprintf(c->name, sizeof(c->name), "default");
    c->spec_hash = 1;
    c->is_watched = true;
    c->can_bind = true;
    c->create_max = 4;
    c->create_timeout_ns = 60 * NS_PER_S;
    c->ready_timeout_ns = 60 * NS_PER_S;
    c->destroy_timeout_ns = 60 * NS_PER_S;
    c->park_ns = 100 * NS_PER_S;
    c->shrink_ns = 30 * NS_PER_S;
    c->check_after_ns = 10 * NS_PER_S;
    c->backoff_min_ns = 100 * NS_PER_MS;
    c->backoff_max_ns = 10 * NS_PER_S;
    c->breaker_after = 3;
}

void fixture_start(struct fixture *r)
{
    struct pool_event ev = {.kind = POOL_EV_WAKE};

    if (r->pool == NULL)
        r->pool = pool_new(&r->config);
    fixture_send(r, &ev);
}

void fixture_stop(struct fixture *r)
{
    r->pool = pool_free(r->pool);
}

static struct pool_event answer_to(const struct fixture *r, const struct pool_fx *fx, bool is_ok)
{
    struct pool_event ev = {.box = fx->box, .epoch = fx->epoch};
    int code = is_ok ? SP_OK : SP_BACKEND_FAILED;

    switch (fx->kind) {
    case POOL_FX_STORE:
        ev.kind = is_ok ? POOL_EV_STORED : POOL_EV_STORE_FAILED;
        ev.u.stored.write = fx->u.store.write;
        ev.u.stored.expires_ns = fx->snapshot.expires_ns;
        break;
    case POOL_FX_CREATE:
        ev.kind = is_ok ? POOL_EV_CREATED : POOL_EV_CREATE_FAILED;
        if (is_ok) {
            snprintf(ev.u.created.ref, sizeof(ev.u.created.ref), "ref-%llx",
                     (unsigned long long) fx->box.v);
        } else {
            ev.u.failed.code = code;
            snprintf(ev.u.failed.reason, sizeof(ev.u.failed.reason), "no such image");
        }
        break;
    case POOL_FX_PROBE:
        ev.kind = POOL_EV_PROBED;
        ev.u.failed.code = code;
        snprintf(ev.u.failed.reason, sizeof(ev.u.failed.reason), "does not answer");
        break;
    case POOL_FX_CHECK:
        ev.kind = POOL_EV_CHECKED;
        ev.u.verdict = r->verdict;
        if (r->life != NULL)
            snprintf(ev.life, sizeof(ev.life), "%s", r->life);
        break;
    case POOL_FX_ASK_USE:
        ev.kind = POOL_EV_USED;
        ev.u.used.use = is_ok ? r->use : POOL_USE_UNKNOWN;
        ev.u.used.active_ns = r->used_ns;
        break;
    case POOL_FX_DISCOVER:
        ev.kind = POOL_EV_DISCOVERED;
        ev.u.discovered.is_unknown = !is_ok;
        break;
    case POOL_FX_DESTROY:
        ev.kind = POOL_EV_DESTROYED;
        ev.u.failed.code = code;
        break;
    case POOL_FX_HIBERNATE:
        ev.kind = POOL_EV_HIBERNATED;
        ev.u.failed.code = code;
        snprintf(ev.u.failed.reason, sizeof(ev.u.failed.reason), "no space");
        break;
    case POOL_FX_BIND:
    case POOL_FX_FREEZE:
    case POOL_FX_REPLY:
    case POOL_FX_AGAIN:
    case POOL_FX_EVENT:
    case POOL_FX_COUNT:
        fail_msg("no answer to effect %d", (int) fx->kind);
    }
    return ev;
}

static bool is_held(const struct fixture *r, enum pool_fx_kind kind)
{
    const bool held[POOL_FX_COUNT] = {
        [POOL_FX_STORE] = r->hold.store,       [POOL_FX_CREATE] = r->hold.create,
        [POOL_FX_PROBE] = r->hold.probe,       [POOL_FX_CHECK] = r->hold.check,
        [POOL_FX_DISCOVER] = r->hold.discover, [POOL_FX_DESTROY] = r->hold.destroy,
        [POOL_FX_ASK_USE] = r->hold.use,       [POOL_FX_HIBERNATE] = r->hold.hibernate,
    };

    return held[kind];
}

static void take(struct fixture *r, const struct pool_fx *fx)
{
    r->effects[fx->kind]++;
    if (fx->kind == POOL_FX_REPLY) {
        assert_true(fx->req.v < FIXTURE_FX_MAX);
        assert_false(r->has_reply[fx->req.v]);
        r->has_reply[fx->req.v] = true;
        r->replies[fx->req.v] = *fx;
        return;
    }
    if (fx->kind == POOL_FX_EVENT) {
        r->facts[fx->u.event.fact]++;
        return;
    }
    if (fx->kind == POOL_FX_FREEZE)
        r->is_frozen = fx->snapshot.is_paused;
    if (fx->kind == POOL_FX_BIND || fx->kind == POOL_FX_FREEZE)
        return;
    if (fx->kind == POOL_FX_AGAIN) {
        assert_true(r->queue_len < FIXTURE_FX_MAX);
        r->queue[r->queue_len] =
            (struct pool_event){.kind = POOL_EV_ACQUIRE, .req = fx->req, .u.acquire = *fx->u.again};
        r->queue_len++;
        return;
    }
    if (fx->kind == POOL_FX_STORE)
        r->writes[fx->u.store.what]++;
    if (is_held(r, fx->kind)) {
        assert_true(r->held_count < FIXTURE_FX_MAX);
        r->held[r->held_count] = *fx;
        r->held_count++;
        return;
    }
    assert_true(r->queue_len < FIXTURE_FX_MAX);
    r->queue[r->queue_len] = answer_to(r, fx,
                                       !(fx->kind == POOL_FX_STORE && r->fail_store) &&
                                           !(fx->kind == POOL_FX_CREATE && r->fail_create));
    r->queue_len++;
}

static void step(struct fixture *r, const struct pool_event *ev)
{
    static struct pool_fx fx;
    const char *why;

    pool_step(r->pool, r->now_ns, ev);
    while (pool_next_fx(r->pool, &fx))
        take(r, &fx);
    why = pool_check(r->pool);
    if (why != NULL)
        fail_msg("%s", why);
}

void fixture_send(struct fixture *r, const struct pool_event *ev)
{
    step(r, ev);
    for (unsigned i = 0; r->queue_len > 0; i++) {
        struct pool_event next = r->queue[0];

        assert_true(i < 10000);
        r->queue_len--;
        memmove(&r->queue[0], &r->queue[1], r->queue_len * sizeof(next));
        step(r, &next);
    }
}

void fixture_advance(struct fixture *r, uint64_t by_ns)
{
    uint64_t until_ns = r->now_ns + by_ns;
    struct pool_event ev = {.kind = POOL_EV_WAKE};

    for (unsigned i = 0; pool_next_wake(r->pool) <= until_ns; i++) {
        assert_true(i < 10000);
        r->now_ns = MAX_OF(r->now_ns, pool_next_wake(r->pool));
        fixture_send(r, &ev);
    }
    r->now_ns = until_ns;
}

uint64_t fixture_acquire_with(struct fixture *r, const char *user, const char *who,
                              uint64_t wait_ns, const struct pool_acquire *more)
{
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE};
    struct pool_acquire *a = &ev.u.acquire;

    if (more != NULL)
        *a = *more;
    r->req++;
    ev.req.v = r->req;
    snprintf(a->user, sizeof(a->user), "%s", user);
    if (who[0] != '-') /* "-name": anonymous */
        snprintf(a->thread, sizeof(a->thread), "%s", who);
    snprintf(a->sandbox_id, sizeof(a->sandbox_id), "s-%s", who);
    a->deadline_ns = r->now_ns + wait_ns;
    fixture_send(r, &ev);
    return r->req;
}

uint64_t fixture_acquire(struct fixture *r, const char *user, const char *who, uint64_t wait_ns)
{
    return fixture_acquire_with(r, user, who, wait_ns, NULL);
}

uint64_t fixture_on(struct fixture *r, enum pool_event_kind kind, const char *who,
                    uint64_t generation, bool want_destroy)
{
    struct pool_event ev = {.kind = kind};

    r->req++;
    ev.req.v = r->req;
    snprintf(ev.u.on.sandbox_id, sizeof(ev.u.on.sandbox_id), "s-%s", who);
    ev.u.on.generation = generation;
    ev.u.on.want_destroy = want_destroy;
    ev.u.on.is_quick = kind == POOL_EV_RELEASE;
    fixture_send(r, &ev);
    return r->req;
}

void fixture_abandon(struct fixture *r, uint64_t req)
{
    struct pool_event ev = {.kind = POOL_EV_ABANDON, .req = {req}};

    fixture_send(r, &ev);
}

int fixture_code(const struct fixture *r, uint64_t req)
{
    return r->has_reply[req] ? r->replies[req].u.reply.code : -1000;
}

const struct pool_fx *fixture_reply(const struct fixture *r, uint64_t req)
{
    assert_true(r->has_reply[req]);
    return &r->replies[req];
}

const struct pool_box *fixture_box(const struct fixture *r, const char *who)
{
    char id[POOL_ID_MAX + 1];

    snprintf(id, sizeof(id), "s-%s", who);
    return pool_find_sandbox(r->pool, id);
}

unsigned fixture_count(const struct fixture *r, enum pool_state state)
{
    struct pool_stats stats;

    pool_get_stats(r->pool, &stats);
    return stats.by_state[state];
}

const struct pool_fx *fixture_held(const struct fixture *r, enum pool_fx_kind kind)
{
    for (size_t i = 0; i < r->held_count; i++)
        if (r->held[i].kind == kind)
            return &r->held[i];
    return NULL;
}

bool fixture_answer(struct fixture *r, enum pool_fx_kind kind, bool is_ok)
{
    const struct pool_fx *fx = fixture_held(r, kind);
    struct pool_event ev;
    size_t index;

    if (fx == NULL)
        return false;
    ev = answer_to(r, fx, is_ok);
    index = (size_t) (fx - r->held);
    r->held_count--;
    memmove(&r->held[index], &r->held[index + 1], (r->held_count - index) * sizeof(r->held[0]));
    fixture_send(r, &ev);
    return true;
}

void fixture_answer_all(struct fixture *r, enum pool_fx_kind kind, bool is_ok)
{
    for (unsigned i = 0; fixture_answer(r, kind, is_ok); i++)
        assert_true(i < 10000);
}

void fixture_list(struct fixture *r, bool is_clean, const struct pool_seen *seen, size_t count)
{
    struct pool_event ev = {.kind = POOL_EV_LISTED};

    r->now_ns += NS_PER_MS;
    ev.u.listed.is_clean = is_clean;
    ev.u.listed.started_ns = r->now_ns;
    ev.u.listed.seen = seen;
    ev.u.listed.count = count;
    fixture_send(r, &ev);
}

void fixture_store(struct fixture *r, bool is_up)
{
    struct pool_event ev = {.kind = POOL_EV_STORE_STATE, .u.is_store_up = is_up};

    r->fail_store = !is_up;
    fixture_send(r, &ev);
}

void fixture_mode(struct fixture *r, enum pool_mode mode, bool want_parked_gone)
{
    struct pool_event ev = {.kind = POOL_EV_MODE};

    ev.u.mode.mode = mode;
    ev.u.mode.want_parked_gone = want_parked_gone;
    fixture_send(r, &ev);
}

void fixture_died(struct fixture *r, struct box_id id)
{
    struct pool_event ev = {.kind = POOL_EV_DIED, .box = id};

    fixture_send(r, &ev);
}

struct pool_box fixture_row(uint64_t id, enum pool_state state, const char *who)
{
    struct pool_box row = {.id = {id}, .state = state, .spec_hash = 1};

    row.expires_ns = POOL_NEVER;
    row.idle_ns = POOL_NEVER;
    row.created_ns = 900 * NS_PER_S;
    row.parked_ns = 990 * NS_PER_S;
    row.active_ns = 990 * NS_PER_S;
    if (who != NULL) {
        snprintf(row.sandbox_id, sizeof(row.sandbox_id), "s-%s", who);
        snprintf(row.thread, sizeof(row.thread), "%s", who);
        snprintf(row.user, sizeof(row.user), "u");
        row.generation = 3;
    }
    return row;
}

struct pool_seen fixture_seen(uint64_t id, const char *who)
{
    struct pool_seen seen = {.id = {id}, .profile = "default", .spec_hash = 1};

    snprintf(seen.ref, sizeof(seen.ref), "ref-%llu", (unsigned long long) id);
    if (who != NULL) {
        snprintf(seen.sandbox_id, sizeof(seen.sandbox_id), "s-%s", who);
        snprintf(seen.thread, sizeof(seen.thread), "%s", who);
        snprintf(seen.user, sizeof(seen.user), "u");
        seen.generation = 3;
    }
    return seen;
}

enum pool_state fixture_state(const struct fixture *r, uint64_t id)
{
    const struct pool_box *b = pool_find_box(r->pool, (struct box_id){id});

    return b != NULL ? b->state : POOL_FREE;
}
