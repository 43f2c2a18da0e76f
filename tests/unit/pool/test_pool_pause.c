/* test_pool_pause.c - boxes that stand still: the row comes first, and goes last. */
#include <string.h>

#include "rig.h"

static int setup(void **state)
{
    (void) state;
    rig_init(&rig);
    rig.config.profiles[0].idle_ns = 40 * NS_PER_S;
    rig.config.profiles[0].park_ns = 1000 * NS_PER_S;
    return 0;
}

static void start_with_lease(void)
{
    rig_start(&rig);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t1", NS_PER_S)), SP_OK);
}

static void thaw(void)
{
    struct pool_event ev = {.kind = POOL_EV_RESUMED, .box = rig_box(&rig, "t1")->id};

    rig_send(&rig, &ev);
}

static void test_the_row_comes_first(void **state)
{
    uint64_t req;

    (void) state;
    start_with_lease();
    rig.hold.store = true;
    req = rig_on(&rig, POOL_EV_PAUSE, "t1", 0, false);
    assert_int_equal(rig.effects[POOL_FX_FREEZE], 0);
    assert_true(rig_held(&rig, POOL_FX_STORE)->snapshot.is_paused);
    assert_int_equal(rig_code(&rig, req), -1000);
    assert_true(rig_answer(&rig, POOL_FX_STORE, true));
    assert_int_equal(rig.effects[POOL_FX_FREEZE], 1);
    assert_true(rig.is_frozen);
    assert_int_equal(rig_code(&rig, req), SP_OK);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_PAUSE, "t1", 0, false)), SP_OK);
    assert_int_equal(rig.effects[POOL_FX_FREEZE], 1); /* it is paused already */
    thaw();
    assert_false(rig_held(&rig, POOL_FX_STORE)->snapshot.is_paused);
    assert_false(rig_box(&rig, "t1")->is_paused);
}

static void test_a_row_that_cannot_be_written(void **state)
{
    uint64_t req;

    (void) state;
    start_with_lease();
    rig.fail_store = true;
    req = rig_on(&rig, POOL_EV_PAUSE, "t1", 0, false);
    assert_int_equal(rig_code(&rig, req), SP_STORE_UNAVAILABLE);
    assert_int_equal(rig.effects[POOL_FX_FREEZE], 0);
    assert_false(rig_box(&rig, "t1")->is_paused);
}

/* Somebody needs it before its row is written: then it is not frozen at all. */
static void test_needed_at_once(void **state)
{
    (void) state;
    start_with_lease();
    rig.hold.store = true;
    (void) rig_on(&rig, POOL_EV_PAUSE, "t1", 0, false);
    thaw();
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig.effects[POOL_FX_FREEZE], 0);
    assert_false(rig_box(&rig, "t1")->is_paused);
}

static void test_its_idle_time_does_not_run(void **state)
{
    (void) state;
    start_with_lease();
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_PAUSE, "t1", 0, false)), SP_OK);
    rig_advance(&rig, 500 * NS_PER_S);
    assert_non_null(rig_box(&rig, "t1"));
    assert_int_equal(rig.effects[POOL_FX_ASK_USE], 0);
    thaw();
    rig_advance(&rig, 39 * NS_PER_S);
    assert_non_null(rig_box(&rig, "t1"));
    rig_advance(&rig, 2 * NS_PER_S);
    assert_null(rig_box(&rig, "t1"));
}

/* From the decision on, until its row is gone. */
static void test_one_that_ends(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_PAUSE, .req = {90}};

    (void) state;
    start_with_lease();
    ev.box = rig_box(&rig, "t1")->id;
    ev.u.on.is_operator = true;
    rig.hold.destroy = true;
    (void) rig_on(&rig, POOL_EV_DESTROY, "t1", 0, false);
    rig_send(&rig, &ev);
    assert_int_equal(rig_code(&rig, 90), SP_SANDBOX_LOST);
    rig.hold.store = true;
    assert_true(rig_answer(&rig, POOL_FX_DESTROY, true));
    ev.req.v = 91;
    rig_send(&rig, &ev); /* its row is being removed */
    assert_int_equal(rig_code(&rig, 91), SP_SANDBOX_LOST);
    rig_answer_all(&rig, POOL_FX_STORE, true);
    ev.req.v = 92;
    rig_send(&rig, &ev);
    assert_int_equal(rig_code(&rig, 92), SP_NOT_FOUND);
}

static void test_the_deadline_of_the_lease_holds(void **state)
{
    (void) state;
    rig.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    start_with_lease();
    (void) rig_on(&rig, POOL_EV_PAUSE, "t1", 0, false);
    rig_advance(&rig, 101 * NS_PER_S);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(pool_find_past(rig.pool, "s-t1", NULL, NULL), POOL_END_TTL);
}

static void test_parked_boxes(void **state)
{
    (void) state;
    start_with_lease();
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_PAUSE, "t1", 0, false)), SP_OK);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    assert_true(rig.is_frozen);
    assert_true(rig_reply(&rig, rig_acquire(&rig, "u", "t1", NS_PER_S))->snapshot.is_paused);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
}

static void test_park_freezes(void **state)
{
    (void) state;
    rig.config.profiles[0].want_freeze = true;
    start_with_lease();
    rig.hold.store = true;
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    assert_true(rig_held(&rig, POOL_FX_STORE)->snapshot.is_paused);
    assert_int_equal(rig.effects[POOL_FX_FREEZE], 0);
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig.effects[POOL_FX_FREEZE], 1);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
}

/* After a restart each box is made what its row says. */
static void test_what_a_restart_finds(void **state)
{
    (void) state;
    for (unsigned i = 0; i < 4; i++) {
        struct pool_seen seen = {.is_frozen = i % 2 == 1};
        struct pool_box row;

        if (i > 0)
            rig_stop(&rig);
        (void) setup(NULL);
        start_with_lease();
        row = *rig_box(&rig, "t1");
        row.is_paused = i / 2 == 1;
        seen.id = row.id;
        memcpy(seen.sandbox_id, row.sandbox_id, sizeof(seen.sandbox_id));
        memcpy(seen.ref, row.ref, sizeof(seen.ref));
        rig_stop(&rig);
        (void) setup(NULL);
        rig_start(&rig);
        assert_true(pool_restore_box(rig.pool, rig.now_ns, &row));
        rig_advance(&rig, NS_PER_MS);
        rig_list(&rig, true, &seen, 1);
        assert_int_equal(rig.effects[POOL_FX_FREEZE], row.is_paused != seen.is_frozen ? 1 : 0);
        assert_true(rig.effects[POOL_FX_FREEZE] == 0 || rig.is_frozen == row.is_paused);
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
    row = *rig_box(&rig, "t1");
    row.is_paused = true;
    seen.id = row.id;
    memcpy(seen.sandbox_id, row.sandbox_id, sizeof(seen.sandbox_id));
    memcpy(seen.ref, row.ref, sizeof(seen.ref));
    rig_stop(&rig);
    (void) setup(NULL);
    rig_start(&rig);
    assert_true(pool_restore_box(rig.pool, rig.now_ns, &row));
    rig_advance(&rig, NS_PER_MS);
    rig.verdict = POOL_ALIVE;
    rig_list(&rig, true, NULL, 0);
    assert_false(rig_box(&rig, "t1")->is_unseen);
    assert_int_equal(rig.effects[POOL_FX_FREEZE], 0);
    rig_advance(&rig, NS_PER_MS);
    rig_list(&rig, true, &seen, 1);
    assert_int_equal(rig.effects[POOL_FX_FREEZE], 1);
    assert_true(rig.is_frozen);
    rig_advance(&rig, NS_PER_MS);
    rig_list(&rig, true, &seen, 1); /* once: what comes later is this process's own doing */
    assert_int_equal(rig.effects[POOL_FX_FREEZE], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_row_comes_first, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_row_that_cannot_be_written, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_needed_at_once, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_its_idle_time_does_not_run, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_one_that_ends, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_deadline_of_the_lease_holds, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_parked_boxes, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_park_freezes, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_what_a_restart_finds, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_first_listing_without_it, setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
