/* test_pool_end.c - how boxes end: idle, age, death, destroys that fail, creates that come too late. */
#include <string.h>

#include "rig.h"

static void send_activity(int delta)
{
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY, .u.activity.delta = delta};

    ev.box = rig_box(&rig, "t1")->id;
    rig_send(&rig, &ev);
}

static void test_idle_clock_holds_while_busy(void **state)
{
    (void) state;
    rig.config.profiles[0].idle_ns = 10 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    send_activity(1);
    rig_advance(&rig, 100 * NS_PER_S);
    assert_non_null(rig_box(&rig, "t1"));
    send_activity(-1);
    rig_advance(&rig, 9 * NS_PER_S);
    assert_non_null(rig_box(&rig, "t1"));
    send_activity(0);
    rig_advance(&rig, 9 * NS_PER_S);
    assert_non_null(rig_box(&rig, "t1"));
    rig_advance(&rig, 2 * NS_PER_S);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(pool_find_past(rig.pool, "s-t1", NULL, NULL), POOL_END_IDLE);
}

/* The store is never behind by more than a quarter of the idle limit, and gets only a few rows. */
static void test_activity_reaches_the_store(void **state)
{
    unsigned writes;

    (void) state;
    rig.config.profiles[0].idle_ns = 100 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    writes = rig.writes[POOL_WRITE_LEASE];
    for (int i = 0; i < 1000; i++) {
        rig_advance(&rig, 100 * NS_PER_MS);
        send_activity(0);
    }
    assert_int_equal(rig.writes[POOL_WRITE_LEASE] - writes, 4);
    send_activity(1);
    rig_advance(&rig, 100 * NS_PER_S);
    assert_in_range(rig.writes[POOL_WRITE_LEASE] - writes, 7, 8);
}

static void test_parked_box_expires(void **state)
{
    (void) state;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    rig_advance(&rig, 99 * NS_PER_S);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 1);
    rig_advance(&rig, 2 * NS_PER_S);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 0);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false)),
                     SP_SANDBOX_LOST);
}

static void test_blank_boxes_age_one_by_one(void **state)
{
    uint64_t first_ns = 0;
    uint64_t last_ns = 0;

    (void) state;
    rig.config.profiles[0].warm_min = 4;
    rig.config.profiles[0].max_age_ns = 1000 * NS_PER_S;
    rig_start(&rig);
    for (int i = 0; i < 1100; i++) {
        unsigned before = rig.effects[POOL_FX_DESTROY];

        rig_advance(&rig, NS_PER_S);
        if (rig.effects[POOL_FX_DESTROY] > before) {
            first_ns = first_ns == 0 ? rig.now_ns : first_ns;
            last_ns = rig.now_ns;
        }
    }
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 4);
    assert_true(first_ns >= 1900 * NS_PER_S && last_ns <= 2001 * NS_PER_S);
    assert_true(last_ns > first_ns);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 4);
}

static void test_destroy_is_tried_until_it_works(void **state)
{
    uint64_t gone;

    (void) state;
    rig.hold.destroy = true;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    gone = rig_on(&rig, POOL_EV_DESTROY, "t1", 0, false);
    for (int i = 0; i < 5; i++) {
        assert_true(rig_answer(&rig, POOL_FX_DESTROY, false));
        assert_null(rig_held(&rig, POOL_FX_DESTROY)); /* not at once */
        assert_int_equal(rig_count(&rig, POOL_DESTROYING), 1);
        rig_advance(&rig, 5 * NS_PER_S);
    }
    assert_int_equal(rig_code(&rig, gone), -1000);
    assert_true(rig_answer(&rig, POOL_FX_DESTROY, true));
    assert_int_equal(rig_code(&rig, gone), SP_OK);
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 0);
}

static void test_quick_destroy(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_DESTROY, .req = {99}};

    (void) state;
    rig.hold.destroy = true;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.hold.store = true;
    ev.box = rig_box(&rig, "t1")->id;
    ev.u.on.is_quick = true;
    rig_send(&rig, &ev);
    assert_int_equal(rig_code(&rig, 99), -1000); /* not before the commit */
    assert_null(rig_held(&rig, POOL_FX_DESTROY));
    assert_true(rig_answer(&rig, POOL_FX_STORE, true));
    assert_int_equal(rig_code(&rig, 99), SP_OK);
    assert_non_null(rig_held(&rig, POOL_FX_DESTROY));
}

/* A create that is given up and then succeeds: the box must not stay alive. */
static void test_late_create(void **state)
{
    struct pool_event late = {.kind = POOL_EV_CREATED};
    const struct pool_fx *fx;

    (void) state;
    rig.hold.create = true;
    rig.hold.destroy = true;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    fx = rig_held(&rig, POOL_FX_CREATE);
    late.box = fx->box;
    late.epoch = fx->epoch;
    memcpy(late.u.created.ref, "late", 5);
    assert_true(rig_answer(&rig, POOL_FX_CREATE, false));
    assert_string_equal(rig_held(&rig, POOL_FX_DESTROY)->snapshot.ref, "");
    /* While it is being destroyed: destroyed again, now by name; the first answer is void. */
    rig_send(&rig, &late);
    assert_true(rig_answer(&rig, POOL_FX_DESTROY, true));
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 1);
    assert_string_equal(rig_held(&rig, POOL_FX_DESTROY)->snapshot.ref, "late");
    assert_true(rig_answer(&rig, POOL_FX_DESTROY, true));
    assert_null(pool_find_box(rig.pool, late.box));
    /* After it was forgotten: known again until it is destroyed. */
    rig_send(&rig, &late);
    assert_string_equal(rig_held(&rig, POOL_FX_DESTROY)->snapshot.ref, "late");
    assert_true(rig_answer(&rig, POOL_FX_DESTROY, true));
    assert_null(pool_find_box(rig.pool, late.box));
    /* One that was never known, on another backend than that of the first profile. */
    late.box.v = 12345;
    late.u.created.backend = 1;
    rig_send(&rig, &late);
    assert_true(rig_held(&rig, POOL_FX_DESTROY)->box.v == 12345);
    assert_int_equal(rig_held(&rig, POOL_FX_DESTROY)->snapshot.backend, 1);
}

/* Its owner has come back and only waits for the backend to answer that the box is alive. */
static void test_no_eviction_of_a_box_its_owner_waits_for(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    rig.config.max_boxes = 2;
    rig.config.profiles[0].is_watched = false;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    rig_advance(&rig, 50 * NS_PER_S);
    (void) rig_acquire(&rig, "u", "t2", NS_PER_S);
    rig.hold.check = true;
    a = rig_acquire(&rig, "u", "t1", 60 * NS_PER_S);
    assert_non_null(rig_held(&rig, POOL_FX_CHECK));
    b = rig_acquire(&rig, "u", "t3", 120 * NS_PER_S);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    rig_advance(&rig, 51 * NS_PER_S); /* nor does its time run out now */
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    assert_true(rig_answer(&rig, POOL_FX_CHECK, true));
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_PARKED);
    assert_int_equal(rig_code(&rig, b), -1000);
}

/* A caller that waits for the end of a box that cannot be destroyed is answered after a limited
 * time: recorded, or that it could not be. */
static void test_destroy_that_takes_too_long(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    rig.config.profiles[0].destroy_timeout_ns = 30 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    (void) rig_acquire(&rig, "u", "t2", NS_PER_S);
    rig.hold.destroy = true;
    a = rig_on(&rig, POOL_EV_DESTROY, "t1", 0, false);
    assert_true(rig_answer(&rig, POOL_FX_DESTROY, false));
    assert_int_equal(rig_code(&rig, a), -1000); /* the next try may do */
    rig_advance(&rig, 31 * NS_PER_S);
    assert_true(rig_answer(&rig, POOL_FX_DESTROY, false));
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_reply(&rig, a)->snapshot.state, POOL_DESTROYING);

    rig_store(&rig, false);
    rig.hold.store = true;
    b = rig_on(&rig, POOL_EV_DESTROY, "t2", 0, false);
    rig_advance(&rig, 31 * NS_PER_S);
    rig_answer_all(&rig, POOL_FX_DESTROY, false);
    assert_int_equal(rig_code(&rig, b), SP_STORE_UNAVAILABLE);
}

static void test_death(void **state)
{
    uint64_t a;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", 0);
    rig_died(&rig, rig_reply(&rig, a)->box);
    assert_int_equal(rig.facts[POOL_FACT_LOST], 1);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(pool_find_past(rig.pool, "s-t1", NULL, NULL), POOL_END_DIED);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 1); /* leftovers go too */
}

/* Answers to an older epoch are counted and dropped. */
static void test_stale_answers(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_PROBED};
    struct pool_stats stats;

    (void) state;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    ev.box = rig_box(&rig, "t1")->id;
    ev.epoch = 1;
    ev.u.failed.code = SP_TIMEOUT;
    rig_send(&rig, &ev);
    ev.kind = POOL_EV_DESTROYED;
    ev.u.failed.code = SP_OK;
    rig_send(&rig, &ev);
    ev.kind = POOL_EV_CHECKED;
    ev.u.verdict = POOL_DEAD;
    rig_send(&rig, &ev);
    pool_get_stats(rig.pool, &stats);
    assert_int_equal(stats.late_answers, 3);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
}

/* Three times absent ends a lease, unless somebody else has found it in between. */
static void test_absences_in_a_row(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_LOOKED, .u.verdict = POOL_SILENT};

    (void) state;
    rig.config.profiles[0].is_watched = false;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    ev.box = rig_box(&rig, "t1")->id;
    rig.verdict = POOL_ABSENT;
    for (int i = 0; i < 60; i++) { /* it is asked after 30 to 45 s, then every 2 s */
        rig_send(&rig, &ev);
        rig_advance(&rig, 3 * NS_PER_S);
        assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    }
    rig_advance(&rig, 60 * NS_PER_S);
    assert_null(rig_box(&rig, "t1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_idle_clock_holds_while_busy, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_activity_reaches_the_store, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_parked_box_expires, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_blank_boxes_age_one_by_one, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_destroy_is_tried_until_it_works, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_destroy_that_takes_too_long, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_quick_destroy, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_late_create, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_no_eviction_of_a_box_its_owner_waits_for, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_death, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_stale_answers, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_absences_in_a_row, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
