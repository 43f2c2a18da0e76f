/* test_pool_scale.c - what one operation costs does not depend on how many boxes there are and how many
 * callers wait. Two pools, one small and one large, are asked in turns; the medians of the times are
 * compared, with a bound that is generous enough for a busy machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "pool/pool.h"
#include "sandpool/errors.h"
#include "tests/lib/unit.h"

enum {
    SMALL = 100,
    BIG = 100000,
    WAITERS = 16000,
    USERS = 4000,
    OWN = 20,
    WARM = 16,
    ROUNDS = 41,
    BATCH = 40
};
#define BOUND 1.6
/* What was parked long ago is in no cache, however many instructions it takes (they are the same, to a thousandth). */
#define BOUND_UNCACHED 8.0

struct fixture {
    struct pool *pool;
    uint64_t now_ns;
    uint64_t req;
    struct pool_event queue[8192];
    size_t first;
    size_t len;
    unsigned waiters;
    uint64_t sink;
};

static struct fixture fixtures[2];

static uint64_t clock_ns(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t) ts.tv_sec * NS_PER_S + (uint64_t) ts.tv_nsec;
}

static void answer(struct fixture *w, const struct pool_fx *fx)
{
    struct pool_event *ev = &w->queue[w->len];

    assert_true(w->len < ARRAY_LEN(w->queue));
    memset(ev, 0, sizeof(*ev));
    ev->box = fx->box;
    ev->epoch = fx->epoch;
    switch (fx->kind) {
    case POOL_FX_STORE:
        ev->kind = POOL_EV_STORED;
        ev->u.stored.write = fx->u.store.write;
        ev->u.stored.expires_ns = fx->snapshot.expires_ns;
        break;
    case POOL_FX_CREATE:
        ev->kind = POOL_EV_CREATED;
        ev->u.created.is_ready = true;
        snprintf(ev->u.created.ref, sizeof(ev->u.created.ref), "ref-%llx",
                 (unsigned long long) fx->box.v);
        break;
    case POOL_FX_DESTROY:
        ev->kind = POOL_EV_DESTROYED;
        break;
    case POOL_FX_CHECK:
        ev->kind = POOL_EV_CHECKED;
        ev->u.verdict = POOL_ALIVE;
        break;
    case POOL_FX_PROBE:
        ev->kind = POOL_EV_PROBED;
        break;
    case POOL_FX_ASK_USE:
        ev->kind = POOL_EV_USED;
        ev->u.used.use = POOL_USE_BUSY;
        break;
    case POOL_FX_REPLY:
        w->sink += fx->u.reply.code == SP_OK ? 1 : 0;
        return;
    case POOL_FX_DISCOVER:
    case POOL_FX_HIBERNATE:
    case POOL_FX_BIND:
    case POOL_FX_FREEZE:
    case POOL_FX_AGAIN:
    case POOL_FX_EVENT:
    case POOL_FX_COUNT:
        return;
    }
    w->len++;
}

static void send_event(struct fixture *w, const struct pool_event *first)
{
    static struct pool_fx fx;
    struct pool_event ev = *first;

    w->first = 0;
    w->len = 0;
    for (;;) {
        pool_step(w->pool, w->now_ns, &ev);
        while (pool_next_fx(w->pool, &fx))
            answer(w, &fx);
        if (w->first == w->len)
            return;
        ev = w->queue[w->first];
        w->first++;
    }
}

/* Boxes of one principal each, but for a few of principal 7; then one profile of which many wait, and one without blank boxes. */
static void make_fixture(struct fixture *w, unsigned boxes, unsigned waiters)
{
    struct pool_config *config = calloc(1, sizeof(*config));
    struct pool_event wake = {.kind = POOL_EV_WAKE};

    assert_non_null(config);
    w->now_ns = 1000 * NS_PER_S;
    w->waiters = waiters;
    config->max_boxes = boxes + WARM + 1; /* what is made beside these is made for another one */
    config->max_waiters = waiters + 64;
    config->seed = 7;
    config->profile_count = 3;
    for (unsigned i = 0; i < 3; i++) {
        struct pool_profile *c = &config->profiles[i];

        snprintf(c->name, sizeof(c->name), i == 0 ? "default" : i == 1 ? "full" : "cold");
        c->spec_hash = 1;
        c->is_watched = true;
        c->warm_min = i == 0 ? WARM : 0;
        c->warm_max = c->warm_min;
        c->create_max = i == 1 ? 0 : 16; /* nobody is served of the second one */
        c->create_timeout_ns = c->ready_timeout_ns = c->destroy_timeout_ns = 60 * NS_PER_S;
        c->park_ns = c->shrink_ns = 3600 * NS_PER_S;
        c->backoff_min_ns = c->backoff_max_ns = NS_PER_S;
        c->breaker_after = 3;
    }
    w->pool = pool_new(config);
    free(config);
    for (unsigned i = 1; i <= boxes; i++) {
        struct pool_box row = {
            .id = {i}, .state = i % 2 == 0 ? POOL_LEASED : POOL_PARKED, .spec_hash = 1};

        row.expires_ns = row.idle_ns = POOL_NEVER;
        row.parked_ns = row.active_ns = w->now_ns;
        row.principal = i <= OWN ? 7 : 1000 + i;
        row.generation = 1;
        snprintf(row.sandbox_id, sizeof(row.sandbox_id), "s%u", i);
        snprintf(row.user, sizeof(row.user), "u");
        snprintf(row.thread, sizeof(row.thread), "t%u", i);
        snprintf(row.ref, sizeof(row.ref), "row-%u", i);
        assert_true(pool_restore_box(w->pool, w->now_ns, &row));
    }
    send_event(w, &wake);
    for (unsigned i = 0; i < waiters; i++) {
        struct pool_event ev = {.kind = POOL_EV_ACQUIRE};

        w->req++;
        ev.req.v = w->req;
        ev.u.acquire.profile = 1;
        ev.u.acquire.principal = 500 + i % 100;
        ev.u.acquire.deadline_ns = w->now_ns + 3600 * NS_PER_S;
        snprintf(ev.u.acquire.user, sizeof(ev.u.acquire.user), "u%u", i % USERS);
        snprintf(ev.u.acquire.thread, sizeof(ev.u.acquire.thread), "w%u", i);
        snprintf(ev.u.acquire.sandbox_id, sizeof(ev.u.acquire.sandbox_id), "w%u", i);
        send_event(w, &ev);
    }
}

static void on_box(struct fixture *w, enum pool_event_kind kind, unsigned box, bool want_destroy)
{
    struct pool_event ev = {.kind = kind};

    w->req++;
    ev.req.v = w->req;
    ev.u.on.is_operator = true;
    ev.u.on.want_destroy = want_destroy;
    ev.u.on.ttl_ns = 100 * NS_PER_S;
    snprintf(ev.u.on.sandbox_id, sizeof(ev.u.on.sandbox_id), "s%u", box);
    send_event(w, &ev);
}

static void acquire_of(struct fixture *w, unsigned profile, const char *thread, uint64_t principal)
{
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE};

    w->req++;
    ev.req.v = w->req;
    ev.u.acquire.profile = profile;
    ev.u.acquire.principal = principal;
    ev.u.acquire.is_operator = true;
    ev.u.acquire.deadline_ns = w->now_ns + NS_PER_MS;
    snprintf(ev.u.acquire.user, sizeof(ev.u.acquire.user), "u");
    snprintf(ev.u.acquire.thread, sizeof(ev.u.acquire.thread), "t%s", thread);
    snprintf(ev.u.acquire.sandbox_id, sizeof(ev.u.acquire.sandbox_id), "s%s", thread);
    send_event(w, &ev);
}

static void acquire(struct fixture *w, unsigned box, uint64_t principal)
{
    char thread[16];

    snprintf(thread, sizeof(thread), "%u", box);
    acquire_of(w, 0, thread, principal);
}

static void on_id(struct fixture *w, enum pool_event_kind kind, unsigned box, int delta)
{
    struct pool_event ev = {.kind = kind, .box = {box}};

    ev.u.activity.delta = delta;
    send_event(w, &ev);
}

static void do_renew(struct fixture *w)
{
    on_box(w, POOL_EV_RENEW, 2, false);
}

static void do_reclaim(struct fixture *w)
{
    acquire(w, 1, 7);
    on_box(w, POOL_EV_RELEASE, 1, false);
}

static void do_warm(struct fixture *w)
{
    acquire(w, 9999999, 8);
    on_box(w, POOL_EV_RELEASE, 9999999, true);
}

static void do_get(struct fixture *w)
{
    const struct pool_box *b = pool_find_sandbox(w->pool, "s2");

    w->sink += b != NULL ? pool_profile(w->pool, b->profile)->backend : 0;
}

static void do_view(struct fixture *w)
{
    struct pool_profile_view view;

    pool_get_profile(w->pool, w->now_ns, 1, &view);
    w->sink += view.waiting;
}

static void do_list_own(struct fixture *w)
{
    for (const struct pool_box *b = pool_first_of(w->pool, 7, 0); b != NULL; b = pool_next_of(b))
        w->sink += b->generation;
}

static void do_page(struct fixture *w)
{
    size_t at;
    const struct pool_box *b = pool_first(w->pool, 40, &at);

    for (unsigned i = 0; i < 20 && b != NULL; i++, b = pool_next(w->pool, &at))
        w->sink += b->generation;
}

static void do_wait_and_leave(struct fixture *w)
{
    struct pool_event ev = {.kind = POOL_EV_ABANDON};

    acquire_of(w, 1, "-waits", 9);
    ev.req.v = w->req;
    send_event(w, &ev);
}

static void do_wait_in_vain(struct fixture *w)
{
    struct pool_event wake = {.kind = POOL_EV_WAKE};

    acquire_of(w, 1, "-waits", 9);
    w->now_ns += 2 * NS_PER_MS;
    send_event(w, &wake);
    w->sink += pool_next_wake(w->pool);
}

/* Of the one who came last. */
static void do_place(struct fixture *w)
{
    unsigned last = w->waiters - 1;
    struct pool_waiting found;
    char id[16];

    snprintf(id, sizeof(id), "w%u", last);
    assert_true(pool_find_waiting(w->pool, id, 500 + last % 100, &found));
    w->sink += found.place;
}

static void do_stats(struct fixture *w)
{
    struct pool_stats stats;

    pool_get_stats(w->pool, &stats);
    w->sink += stats.total + pool_is_exhausted(w->pool);
}

static void do_pause(struct fixture *w)
{
    on_box(w, POOL_EV_PAUSE, 2, false);
    on_id(w, POOL_EV_RESUMED, 2, 0);
}

static void do_activity(struct fixture *w)
{
    on_id(w, POOL_EV_ACTIVITY, 2, 1);
    on_id(w, POOL_EV_ACTIVITY, 2, -1);
}

static void do_death(struct fixture *w)
{
    struct pool_event ev = {.kind = POOL_EV_DIED};

    acquire_of(w, 0, "-dies", 10);
    ev.box = pool_find_sandbox(w->pool, "s-dies")->id;
    send_event(w, &ev);
}

/* All boxes that may be are there: the one that was parked first makes way, and the new one is parked in turn. */
static void do_evict(struct fixture *w)
{
    struct pool_event ev = {.kind = POOL_EV_RELEASE};
    char thread[24];

    snprintf(thread, sizeof(thread), "-%llu", (unsigned long long) w->req);
    acquire_of(w, 2, thread, 11);
    w->req++;
    ev.req.v = w->req;
    ev.u.on.is_operator = true;
    snprintf(ev.u.on.sandbox_id, sizeof(ev.u.on.sandbox_id), "s%s", thread);
    assert_non_null(pool_find_sandbox(w->pool, ev.u.on.sandbox_id));
    send_event(w, &ev);
}

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *) a;
    const uint64_t y = *(const uint64_t *) b;

    return (x > y) - (x < y);
}

static double ratio_of(void (*work)(struct fixture *w))
{
    uint64_t took[2][ROUNDS];

    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned which = 0; which < 2; which++) {
            uint64_t start_ns;

            work(&fixtures[which]); /* what the other one has pushed out of the caches comes back */
            start_ns = clock_ns();
            for (unsigned i = 0; i < BATCH; i++)
                work(&fixtures[which]);
            took[which][round] = clock_ns() - start_ns;
        }
    for (unsigned which = 0; which < 2; which++)
        qsort(took[which], ROUNDS, sizeof(took[0][0]), by_size);
    return (double) took[1][ROUNDS / 2] / (double) (took[0][ROUNDS / 2] + 1);
}

static void test_cost_of_operations(void **state)
{
    static const struct {
        const char *name;
        void (*work)(struct fixture *w);
        double bound;
    } works[] = {{"renew", do_renew, BOUND},
                 {"release and acquire, parked", do_reclaim, BOUND},
                 {"warm acquire and end", do_warm, BOUND},
                 {"get", do_get, BOUND},
                 {"view of a profile", do_view, BOUND},
                 {"list of one principal", do_list_own, BOUND},
                 {"page of all", do_page, BOUND},
                 {"wait and leave", do_wait_and_leave, BOUND},
                 {"wait until the deadline", do_wait_in_vain, BOUND},
                 {"place in line", do_place, BOUND},
                 {"state of the pool", do_stats, BOUND},
                 {"pause and go on", do_pause, BOUND},
                 {"a call begins and ends", do_activity, BOUND},
                 {"warm acquire and death", do_death, BOUND},
                 {"cold acquire of a full pool", do_evict, BOUND_UNCACHED}};
    bool is_flat = true;

    (void) state;
    make_fixture(&fixtures[0], SMALL, SMALL);
    make_fixture(&fixtures[1], BIG, WAITERS);
    for (size_t i = 0; i < ARRAY_LEN(works); i++) {
        double ratio = ratio_of(works[i].work);

        for (unsigned again = 0; again < 2 && ratio > works[i].bound; again++)
            ratio = ratio_of(works[i].work); /* the machine may have been busy */
        printf("%s: %.2f times the cost with %d boxes, %d waiting, against %d of each\n",
               works[i].name, ratio, BIG, WAITERS, SMALL);
        is_flat = is_flat && ratio <= works[i].bound;
    }
    for (unsigned i = 0; i < 2; i++)
        fixtures[i].pool = pool_free(fixtures[i].pool);
    assert_true(is_flat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cost_of_operations)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
