/* test_pool_pause.c - boxes that stand still: the row comes first, and goes last. */
#include <string.h>

#include "fixture.h"

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.profiles[0].idle_ns = 40 * NS_PER_S;
    fixture.config.profiles[0].park_ns = 1000 * NS_PER_S;
    return 0;
}

static void start_with_lease(void)
{
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
}

static void thaw(void)
{
    struct pool_event ev = {.kind = POOL_EV_RESUMED, .box = fixture_box(&fixture, "t1")->id};

    fixture_send(&fixture, &ev);
}

static void test_the_row_comes_first(void **state)
{
    uint64_t req;

    (void) state;
    start_with_lease();
    fixture.hold.store = true;
    req = fixture_on(&fixture, POOL_EV_PAUSE, "t1", 0, false);
    assert_int_equal(fixture.effects[POOL_FX_FREEZE], 0);
    assert_true(fixture_held(&fixture, POOL_FX_STORE)->snapshot.is_paused);
    assert_int_equal(fixture_code(&fixture, req), -1000);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
    assert_int_equal(fixture.effects[POOL_FX_FREEZE], 1);
    assert_true(fixture.is_frozen);
    assert_int_equal(fixture_code(&fixture, req), SP_OK);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_PAUSE, "t1", 0, false)),
                     SP_OK);
    assert_int_equal(fixture.effects[POOL_FX_FREEZE], 1); /* it is paused already */
    thaw();
    assert_false(fixture_held(&fixture, POOL_FX_STORE)->snapshot.is_paused);
    assert_false(fixture_box(&fixture, "t1")->is_paused);
}

static void test_a_row_that_cannot_be_written(void **state)
{
    uint64_t req;

    (void) state;
    start_with_lease();
    fixture.fail_store = true;
    req = fixture_on(&fixture, POOL_EV_PAUSE, "t1", 0, false);
    assert_int_equal(fixture_code(&fixture, req), SP_STORE_UNAVAILABLE);
    assert_int_equal(fixture.effects[POOL_FX_FREEZE], 0);
    assert_false(fixture_box(&fixture, "t1")->is_paused);
}

/* Somebody needs it before its row is written: then it is not frozen at all. */
static void test_needed_at_once(void **state)
{
    (void) state;
    start_with_lease();
    fixture.hold.store = true;
    (void) fixture_on(&fixture, POOL_EV_PAUSE, "t1", 0, false);
    thaw();
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture.effects[POOL_FX_FREEZE], 0);
    assert_false(fixture_box(&fixture, "t1")->is_paused);
}

static void test_its_idle_time_does_not_run(void **state)
{
    (void) state;
    start_with_lease();
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_PAUSE, "t1", 0, false)),
                     SP_OK);
    fixture_advance(&fixture, 500 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture.effects[POOL_FX_ASK_USE], 0);
    thaw();
    fixture_advance(&fixture, 39 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
}

/* From the decision on, until its row is gone. */
static void test_one_that_ends(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_PAUSE, .req = {90}};

    (void) state;
    start_with_lease();
    ev.box = fixture_box(&fixture, "t1")->id;
    ev.u.on.is_operator = true;
    fixture.hold.destroy = true;
    (void) fixture_on(&fixture, POOL_EV_DESTROY, "t1", 0, false);
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture_code(&fixture, 90), SP_SANDBOX_LOST);
    fixture.hold.store = true;
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, true));
    ev.req.v = 91;
    fixture_send(&fixture, &ev); /* its row is being removed */
    assert_int_equal(fixture_code(&fixture, 91), SP_SANDBOX_LOST);
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    ev.req.v = 92;
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture_code(&fixture, 92), SP_NOT_FOUND);
}

static void test_the_deadline_of_the_lease_holds(void **state)
{
    (void) state;
    fixture.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    start_with_lease();
    (void) fixture_on(&fixture, POOL_EV_PAUSE, "t1", 0, false);
    fixture_advance(&fixture, 101 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(pool_find_past(fixture.pool, "s-t1", NULL, NULL), POOL_END_TTL);
}

static void test_parked_boxes(void **state)
{
    (void) state;
    start_with_lease();
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_PAUSE, "t1", 0, false)),
                     SP_OK);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    assert_true(fixture.is_frozen);
    assert_true(fixture_reply(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S))
                    ->snapshot.is_paused);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
}

static void test_park_freezes(void **state)
{
    (void) state;
    fixture.config.profiles[0].want_freeze = true;
    start_with_lease();
    fixture.hold.store = true;
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    assert_true(fixture_held(&fixture, POOL_FX_STORE)->snapshot.is_paused);
    assert_int_equal(fixture.effects[POOL_FX_FREEZE], 0);
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture.effects[POOL_FX_FREEZE], 1);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
}

/* After a restart each box is made what its row says. */
static void test_what_a_restart_finds(void **state)
{
    (void) state;
    for (unsigned i = 0; i < 4; i++) {
        struct pool_seen seen = {.is_frozen = i % 2 == 1};
        struct pool_box row;

        if (i > 0)
            fixture_stop(&fixture);
        (void) setup(NULL);
        start_with_lease();
        row = *fixture_box(&fixture, "t1");
        row.is_paused = i / 2 == 1;
        seen.id = row.id;
        memcpy(seen.sandbox_id, row.sandbox_id, sizeof(seen.sandbox_id));
        memcpy(seen.ref, row.ref, sizeof(seen.ref));
        fixture_stop(&fixture);
        (void) setup(NULL);
        fixture_start(&fixture);
        assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
        fixture_advance(&fixture, NS_PER_MS);
        fixture_list(&fixture, true, &seen, 1);
        assert_int_equal(fixture.effects[POOL_FX_FREEZE], row.is_paused != seen.is_frozen ? 1 : 0);
        assert_true(fixture.effects[POOL_FX_FREEZE] == 0 || fixture.is_frozen == row.is_paused);
    }
}

/* The first listing after a restart leaves the box out, but its own answer shows that it runs: the next listing, which
 * shows it, still makes it what its row says. */
static void test_a_first_listing_without_it(void **state)
{
    struct pool_seen seen = {.is_frozen = false};
    struct pool_box row;

    (void) state;
    start_with_lease();
    row = *fixture_box(&fixture, "t1");
    row.is_paused = true;
    seen.id = row.id;
    memcpy(seen.sandbox_id, row.sandbox_id, sizeof(seen.sandbox_id));
    memcpy(seen.ref, row.ref, sizeof(seen.ref));
    fixture_stop(&fixture);
    (void) setup(NULL);
    fixture_start(&fixture);
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
    fixture_advance(&fixture, NS_PER_MS);
    fixture.verdict = POOL_ALIVE;
    fixture_list(&fixture, true, NULL, 0);
    assert_false(fixture_box(&fixture, "t1")->is_unseen);
    assert_int_equal(fixture.effects[POOL_FX_FREEZE], 0);
    fixture_advance(&fixture, NS_PER_MS);
    fixture_list(&fixture, true, &seen, 1);
    assert_int_equal(fixture.effects[POOL_FX_FREEZE], 1);
    assert_true(fixture.is_frozen);
    fixture_advance(&fixture, NS_PER_MS);
    fixture_list(&fixture, true, &seen, 1); /* once: what comes later is this process's own doing */
    assert_int_equal(fixture.effects[POOL_FX_FREEZE], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_row_comes_first, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_row_that_cannot_be_written, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_needed_at_once, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_its_idle_time_does_not_run, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_one_that_ends, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_deadline_of_the_lease_holds, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_parked_boxes, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_park_freezes, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_what_a_restart_finds, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_first_listing_without_it, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
