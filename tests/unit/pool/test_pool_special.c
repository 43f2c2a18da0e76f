/* test_pool_special.c - boxes made for one caller: bound to its id from the intent on, for nobody
 * else, and never blank. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

static const struct pool_acquire special = {.is_special = true, .principal = 0};

static uint64_t ask(const char *who, uint64_t wait_ns)
{
    return fixture_acquire_with(&fixture, "u", who, wait_ns, &special);
}

static unsigned total(void)
{
    struct pool_stats stats;

    pool_get_stats(fixture.pool, &stats);
    return stats.total;
}

/* The profile keeps two warm: they are not for it. */
static void test_never_a_blank_box(void **state)
{
    const struct pool_fx *fx;
    struct pool_acquire with = {.is_special = true, .made_with = 77, .principal = 5};
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].warm_min = 2;
    fixture.config.profiles[0].warm_max = 2;
    fixture_start(&fixture);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 2);
    fixture.hold.store = true;
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &with);
    fx = fixture_held(&fixture, POOL_FX_STORE);
    assert_int_equal(fx->u.store.what, POOL_WRITE_BOX);
    assert_int_equal(fx->snapshot.state, POOL_INTENT);
    assert_string_equal(fx->snapshot.sandbox_id, "s-t1");
    assert_string_equal(fx->snapshot.user, "u");
    assert_string_equal(fx->snapshot.thread, "t1");
    assert_true(fx->snapshot.principal == 5 && fx->snapshot.generation == 1);
    assert_true(fx->snapshot.made_with == 77);
    fixture.hold.create = true;
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 2);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
    fx = fixture_held(&fixture, POOL_FX_CREATE);
    assert_string_equal(fx->snapshot.sandbox_id, "s-t1");
    fixture.hold.store = false;
    assert_true(fixture_answer(&fixture, POOL_FX_CREATE, true));
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_COLD);
    assert_true(fixture_reply(&fixture, a)->snapshot.made_with == 77);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 2);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 3); /* and no other was made for the target */
    assert_int_equal(fixture.effects[POOL_FX_BIND], 0);
    a = fixture_acquire_with(&fixture, "u", "t1", 0, &with);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_KEPT);
}

static void test_parked_is_served(void **state)
{
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    (void) ask("t1", NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 1);
    a = ask("t1", NS_PER_S);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_PARKED);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1);
}

static void test_acquires_of_a_thread_share_it(void **state)
{
    uint64_t reqs[4];

    (void) state;
    fixture.config.max_boxes = 1;
    fixture.hold.create = true;
    fixture_start(&fixture);
    for (int i = 0; i < 3; i++)
        reqs[i] = ask("t1", NS_PER_S);
    reqs[3] = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1);
    fixture_abandon(&fixture, reqs[0]);
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture_code(&fixture, reqs[0]), -1000);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(fixture_code(&fixture, reqs[i]), SP_OK);
        assert_true(fixture_reply(&fixture, reqs[i])->box.v == fixture_box(&fixture, "t1")->id.v);
    }
    assert_int_equal(total(), 1);
}

/* What it may share while it waits in line: a box with the same extras. */
static void test_who_joins_whom(void **state)
{
    struct pool_acquire other = {.is_special = true, .made_with = 9};
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture.config.max_boxes = 1;
    fixture_start(&fixture);
    (void) ask("holds", NS_PER_S);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, ask("t1", NS_PER_S)), SP_SPEC_CONFLICT);
    b = ask("t2", NS_PER_S);
    assert_int_equal(
        fixture_code(&fixture, fixture_acquire_with(&fixture, "u", "t2", NS_PER_S, &other)),
        SP_SPEC_CONFLICT);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t2", NS_PER_S)), -1000);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    assert_int_equal(fixture_code(&fixture, b), -1000);
}

/* The heir of a special one is special if there is one; else it takes any box. */
static void test_heirs(void **state)
{
    struct pool_acquire plain = {.profile = 0};
    uint64_t a;
    uint64_t b;
    uint64_t c;

    (void) state;
    fixture.config.max_boxes = 1;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[0].warm_max = 1;
    fixture_start(&fixture);
    fixture.hold.destroy = true; /* the blank box goes, but its place is not free yet */
    a = ask("t1", NS_PER_S);
    b = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &plain);
    c = ask("t1", NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
    fixture_abandon(&fixture, a);
    fixture.hold.create = true;
    fixture_answer_all(&fixture, POOL_FX_DESTROY, true);
    assert_string_equal(fixture_held(&fixture, POOL_FX_CREATE)->snapshot.sandbox_id, "s-t1");
    fixture_abandon(&fixture, c);
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture_code(&fixture, b), SP_OK); /* it waited for that box already */
    assert_int_equal(total(), 1);
}

static void test_plain_heir_takes_a_blank_box(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[0].warm_max = 1;
    fixture.config.profiles[0].create_max = 1;
    fixture_start(&fixture);
    fixture.hold.create = true;
    (void) ask("t0", NS_PER_S); /* all that may be made at once */
    a = ask("t1", NS_PER_S);
    b = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, b), -1000);
    fixture_abandon(&fixture, a);
    assert_int_equal(fixture_code(&fixture, b), SP_OK);
    assert_int_equal(fixture_reply(&fixture, b)->u.reply.source, POOL_SRC_WARM);
}

static void test_gone_before_the_create(void **state)
{
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    fixture.hold.store = true;
    a = ask("t1", NS_PER_S);
    fixture_abandon(&fixture, a);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 0);
    assert_int_equal(total(), 0);
}

static void test_gone_while_it_is_made(void **state)
{
    uint64_t a;

    (void) state;
    fixture.hold.create = true;
    fixture_start(&fixture);
    a = ask("t1", NS_PER_S);
    fixture_abandon(&fixture, a);
    assert_int_equal(fixture_count(&fixture, POOL_CREATING),
                     1); /* the backend is not asked two things */
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
    assert_int_equal(fixture.effects[POOL_FX_PROBE], 0);
    assert_int_equal(total(), 0);
    a = ask("t2", NS_PER_S); /* back in time */
    fixture_abandon(&fixture, a);
    a = ask("t2", NS_PER_S);
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 2);
}

static void test_deadline_while_it_starts(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture.hold.probe = true;
    fixture_start(&fixture);
    a = ask("t1", NS_PER_S);
    b = ask("t1", 3 * NS_PER_S);
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_ACQUIRE_TIMEOUT);
    assert_int_equal(fixture_count(&fixture, POOL_STARTING), 1);
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, b), SP_ACQUIRE_TIMEOUT);
    assert_int_equal(total(), 0);
    fixture_answer_all(&fixture, POOL_FX_PROBE, true); /* too late */
    assert_int_equal(total(), 0);
}

/* It was to be dispatched again, and its time was over. */
static void test_deadline_met_on_the_way(void **state)
{
    uint64_t a;

    (void) state;
    fixture.hold.probe = true;
    fixture_start(&fixture);
    a = ask("t1", NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_STARTING), 1);
    fixture.now_ns += 2 * NS_PER_S;
    fixture_mode(&fixture, POOL_PAUSED, false);
    assert_int_equal(fixture_code(&fixture, a), SP_PAUSED);
    assert_int_equal(total(), 0);
}

static void test_undone_leases(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_UNDELIVERED};
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    a = ask("t1", NS_PER_S);
    ev.box = fixture_reply(&fixture, a)->box;
    ev.epoch = fixture_reply(&fixture, a)->snapshot.epoch;
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED); /* its caller may know it */
    (void) fixture_on(&fixture, POOL_EV_DESTROY, "t1", 0, true);
    assert_int_equal(total(), 0);
    fixture.hold.probe = true;
    a = ask("t2", NS_PER_S);
    fixture.fail_store = true; /* the lease, not the intent */
    fixture_answer_all(&fixture, POOL_FX_PROBE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
    fixture.fail_store = false;
    fixture_advance(&fixture, 5 * NS_PER_S);
    assert_int_equal(total(), 0);
    fixture.hold.store = true;
    fixture.hold.probe = false;
    a = ask("t3", NS_PER_S);
    while (fixture_held(&fixture, POOL_FX_STORE)->u.store.what != POOL_WRITE_LEASE)
        assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
    fixture_abandon(&fixture, a);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(total(), 0);
}

static void test_cap_and_eviction(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.max_boxes = 2;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[0].warm_max = 1;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t0", NS_PER_S);
    assert_int_equal(total(), 2);
    a = ask("t1", NS_PER_S); /* the blank box makes room */
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(total(), 2);
    assert_int_equal(fixture_code(&fixture, ask("t2", 0)), SP_POOL_EXHAUSTED);
    a = ask("t2", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t0", 0, false);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

/* One place, three acquires: the one that has waited longest gets it, whatever its kind. */
static void test_lines_and_turns(void **state)
{
    uint64_t reqs[4];

    (void) state;
    fixture.config.max_boxes = 1;
    fixture.config.profiles[0].park_ns = 0;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t0", NS_PER_S);
    for (unsigned i = 0; i < 4; i++) {
        static const char *const who[] = {"a", "b", "c", "d"};

        fixture_advance(&fixture, NS_PER_MS);
        reqs[i] = fixture_acquire_with(&fixture, i == 3 ? "v" : "u", who[i], 60 * NS_PER_S,
                                       i == 1 ? NULL : &special);
    }
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t0", 0, true);
    assert_int_equal(fixture_code(&fixture, reqs[0]), SP_OK);
    assert_int_equal(fixture_code(&fixture, reqs[1]), -1000);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "a", 0, true);
    assert_int_equal(fixture_code(&fixture, reqs[1]), SP_OK);
    assert_int_equal(fixture_code(&fixture, reqs[3]), -1000);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "b", 0, true);
    assert_int_equal(fixture_code(&fixture, reqs[3]),
                     SP_OK); /* user v has its turn before u's second */
    assert_int_equal(fixture_code(&fixture, reqs[2]), -1000);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "d", 0, true);
    assert_int_equal(fixture_code(&fixture, reqs[2]), SP_OK);
}

static void test_failures_open_the_circuit(void **state)
{
    uint64_t a;

    (void) state;
    fixture.fail_create = true;
    fixture_start(&fixture);
    a = ask("t1", 60 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1);
    fixture_advance(&fixture, 10 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 3); /* as many as the breaker allows */
    assert_int_equal(total(), 0);
    fixture.fail_create = false;
    fixture_advance(&fixture, 60 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, ask("t1", NS_PER_S)), SP_OK);
    assert_int_equal(fixture.facts[POOL_FACT_BREAKER_CLOSED], 1);
}

/* A request that cannot be fulfilled is answered at once, and does not count against the
 * profile. */
static void test_a_request_that_cannot_be_fulfilled(void **state)
{
    struct pool_acquire with = {.is_special = true, .made_with = 7};
    struct pool_event ev = {.kind = POOL_EV_CREATE_FAILED};
    struct pool_profile_view view;
    uint64_t a;
    uint64_t b;
    uint64_t c;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[0].warm_max = 1;
    fixture_start(&fixture);
    fixture.hold.create = true;
    a = fixture_acquire_with(&fixture, "u", "t1", 60 * NS_PER_S, &with);
    b = fixture_acquire_with(&fixture, "u", "t1", 60 * NS_PER_S, &with);
    c = fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S);
    ev.box = fixture_held(&fixture, POOL_FX_CREATE)->box;
    ev.epoch = fixture_held(&fixture, POOL_FX_CREATE)->epoch;
    ev.u.failed.code = SP_FORBIDDEN;
    snprintf(ev.u.failed.reason, sizeof(ev.u.failed.reason), "not that directory");
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture_code(&fixture, a), SP_FORBIDDEN);
    assert_string_equal(fixture_reply(&fixture, a)->reason, "not that directory");
    assert_int_equal(fixture_code(&fixture, b), SP_FORBIDDEN);
    assert_int_equal(fixture_code(&fixture, c), SP_OK); /* it did not ask for it */
    assert_int_equal(fixture_reply(&fixture, c)->u.reply.source, POOL_SRC_WARM);
    pool_get_profile(fixture.pool, fixture.now_ns, 0, &view);
    assert_int_equal(view.failures, 0);
}

static void test_modes(void **state)
{
    uint64_t a;

    (void) state;
    fixture.hold.create = true;
    fixture_start(&fixture);
    a = ask("t1", 60 * NS_PER_S);
    fixture_mode(&fixture, POOL_PAUSED, false);
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    fixture_mode(&fixture, POOL_RUNNING, false);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1);
    a = ask("t2", 60 * NS_PER_S);
    fixture_mode(&fixture, POOL_DRAINING, true);
    assert_int_equal(fixture_code(&fixture, a), SP_DRAINING);
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(total(), 1);
}

static struct pool_box intent_of(uint64_t id, const char *who, bool is_anonymous)
{
    struct pool_box row = {.id = {id}, .state = POOL_INTENT, .spec_hash = 1, .generation = 2};

    row.expires_ns = POOL_NEVER;
    row.idle_ns = POOL_NEVER;
    row.made_with = 77;
    snprintf(row.sandbox_id, sizeof(row.sandbox_id), "s-%s", who);
    snprintf(row.user, sizeof(row.user), "u");
    if (!is_anonymous)
        snprintf(row.thread, sizeof(row.thread), "%s", who);
    return row;
}

/* Its thread gets it, the box of an unknown caller is destroyed, one that was never made is
 * forgotten. */
static void test_intents_after_a_crash(void **state)
{
    struct pool_box rows[] = {intent_of(1, "t1", false), intent_of(2, "-x", true),
                              intent_of(3, "t3", false)};
    struct pool_seen seen[2] = {{.id = {1}, .profile = "default", .generation = 2},
                                {.id = {2}, .profile = "default", .generation = 2}};
    uint64_t a;

    (void) state;
    memcpy(seen[0].sandbox_id, rows[0].sandbox_id, sizeof(seen[0].sandbox_id));
    memcpy(seen[1].sandbox_id, rows[1].sandbox_id, sizeof(seen[1].sandbox_id));
    fixture.config.restore_max = 8;
    fixture.pool = pool_new(&fixture.config);
    for (size_t i = 0; i < 3; i++)
        assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &rows[i]));
    fixture.hold.probe = true;
    fixture_start(&fixture);
    a = ask("t1", 60 * NS_PER_S);
    fixture.verdict = POOL_DEAD;
    fixture_list(&fixture, true, seen, 2);
    assert_int_equal(fixture_code(&fixture, a), -1000); /* it must prove itself first */
    fixture_answer_all(&fixture, POOL_FX_PROBE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(fixture_reply(&fixture, a)->box.v == 1);
    assert_true(fixture_reply(&fixture, a)->snapshot.generation == 2);
    assert_true(fixture_reply(&fixture, a)->snapshot.made_with == 77);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
    assert_int_equal(total(), 1);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_never_a_blank_box, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_parked_is_served, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_acquires_of_a_thread_share_it, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_who_joins_whom, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_heirs, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_plain_heir_takes_a_blank_box, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_gone_before_the_create, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_gone_while_it_is_made, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_deadline_while_it_starts, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_deadline_met_on_the_way, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_undone_leases, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_cap_and_eviction, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_lines_and_turns, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_failures_open_the_circuit, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_request_that_cannot_be_fulfilled, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_modes, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_intents_after_a_crash, fixture_setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
