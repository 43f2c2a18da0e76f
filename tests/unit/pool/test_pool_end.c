/* test_pool_end.c - how boxes end: idle, age, death, destroys that fail, creates that come too late. */
#include <string.h>

#include "fixture.h"

static void send_activity(int delta)
{
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY, .u.activity.delta = delta};

    ev.box = fixture_box(&fixture, "t1")->id;
    fixture_send(&fixture, &ev);
}

static void test_idle_clock_holds_while_busy(void **state)
{
    (void) state;
    fixture.config.profiles[0].idle_ns = 10 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    send_activity(1);
    fixture_advance(&fixture, 100 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    send_activity(-1);
    fixture_advance(&fixture, 9 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    send_activity(0);
    fixture_advance(&fixture, 9 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(pool_find_past(fixture.pool, "s-t1", NULL, NULL), POOL_END_IDLE);
}

/* The store is never behind by more than a quarter of the idle limit, and gets only a few rows. */
static void test_activity_reaches_the_store(void **state)
{
    unsigned writes;

    (void) state;
    fixture.config.profiles[0].idle_ns = 100 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    writes = fixture.writes[POOL_WRITE_LEASE];
    for (int i = 0; i < 1000; i++) {
        fixture_advance(&fixture, 100 * NS_PER_MS);
        send_activity(0);
    }
    assert_int_equal(fixture.writes[POOL_WRITE_LEASE] - writes, 4);
    send_activity(1);
    fixture_advance(&fixture, 100 * NS_PER_S);
    assert_in_range(fixture.writes[POOL_WRITE_LEASE] - writes, 7, 8);
}

static void test_parked_box_expires(void **state)
{
    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    fixture_advance(&fixture, 99 * NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 1);
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 0);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false)),
                     SP_SANDBOX_LOST);
}

static void test_blank_boxes_age_one_by_one(void **state)
{
    uint64_t first_ns = 0;
    uint64_t last_ns = 0;

    (void) state;
    fixture.config.profiles[0].warm_min = 4;
    fixture.config.profiles[0].max_age_ns = 1000 * NS_PER_S;
    fixture_start(&fixture);
    for (int i = 0; i < 1100; i++) {
        unsigned before = fixture.effects[POOL_FX_DESTROY];

        fixture_advance(&fixture, NS_PER_S);
        if (fixture.effects[POOL_FX_DESTROY] > before) {
            first_ns = first_ns == 0 ? fixture.now_ns : first_ns;
            last_ns = fixture.now_ns;
        }
    }
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 4);
    assert_true(first_ns >= 1900 * NS_PER_S && last_ns <= 2001 * NS_PER_S);
    assert_true(last_ns > first_ns);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 4);
}

static void test_destroy_is_tried_until_it_works(void **state)
{
    uint64_t gone;

    (void) state;
    fixture.hold.destroy = true;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    gone = fixture_on(&fixture, POOL_EV_DESTROY, "t1", 0, false);
    for (int i = 0; i < 5; i++) {
        assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, false));
        assert_null(fixture_held(&fixture, POOL_FX_DESTROY)); /* not at once */
        assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
        fixture_advance(&fixture, 5 * NS_PER_S);
    }
    assert_int_equal(fixture_code(&fixture, gone), -1000);
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, true));
    assert_int_equal(fixture_code(&fixture, gone), SP_OK);
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 0);
}

static void test_quick_destroy(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_DESTROY, .req = {99}};

    (void) state;
    fixture.hold.destroy = true;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = true;
    ev.box = fixture_box(&fixture, "t1")->id;
    ev.u.on.is_quick = true;
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture_code(&fixture, 99), -1000); /* not before the commit */
    assert_null(fixture_held(&fixture, POOL_FX_DESTROY));
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
    assert_int_equal(fixture_code(&fixture, 99), SP_OK);
    assert_non_null(fixture_held(&fixture, POOL_FX_DESTROY));
}

/* A create that is given up and then succeeds: the box must not stay alive. */
static void test_late_create(void **state)
{
    struct pool_event late = {.kind = POOL_EV_CREATED};
    const struct pool_fx *fx;

    (void) state;
    fixture.hold.create = true;
    fixture.hold.destroy = true;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fx = fixture_held(&fixture, POOL_FX_CREATE);
    late.box = fx->box;
    late.epoch = fx->epoch;
    memcpy(late.u.created.ref, "late", 5);
    assert_true(fixture_answer(&fixture, POOL_FX_CREATE, false));
    assert_string_equal(fixture_held(&fixture, POOL_FX_DESTROY)->snapshot.ref, "");
    /* While it is being destroyed: destroyed again, now by name; the first answer is void. */
    fixture_send(&fixture, &late);
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, true));
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
    assert_string_equal(fixture_held(&fixture, POOL_FX_DESTROY)->snapshot.ref, "late");
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, true));
    assert_null(pool_find_box(fixture.pool, late.box));
    /* After it was forgotten: known again until it is destroyed. */
    fixture_send(&fixture, &late);
    assert_string_equal(fixture_held(&fixture, POOL_FX_DESTROY)->snapshot.ref, "late");
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, true));
    assert_null(pool_find_box(fixture.pool, late.box));
    /* One that was never known, on another backend than that of the first profile. */
    late.box.v = 12345;
    late.u.created.backend = 1;
    fixture_send(&fixture, &late);
    assert_true(fixture_held(&fixture, POOL_FX_DESTROY)->box.v == 12345);
    assert_int_equal(fixture_held(&fixture, POOL_FX_DESTROY)->snapshot.backend, 1);
}

/* Its owner has come back and only waits for the backend to answer that the box is alive. */
static void test_no_eviction_of_a_box_its_owner_waits_for(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture.config.max_boxes = 2;
    fixture.config.profiles[0].is_watched = false;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    fixture_advance(&fixture, 50 * NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    fixture.hold.check = true;
    a = fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S);
    assert_non_null(fixture_held(&fixture, POOL_FX_CHECK));
    b = fixture_acquire(&fixture, "u", "t3", 120 * NS_PER_S);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    fixture_advance(&fixture, 51 * NS_PER_S); /* nor does its time run out now */
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    assert_true(fixture_answer(&fixture, POOL_FX_CHECK, true));
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_PARKED);
    assert_int_equal(fixture_code(&fixture, b), -1000);
}

/* A caller that waits for the end of a box that cannot be destroyed is answered after a limited
 * time: recorded, or that it could not be. */
static void test_destroy_that_takes_too_long(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture.config.profiles[0].destroy_timeout_ns = 30 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    fixture.hold.destroy = true;
    a = fixture_on(&fixture, POOL_EV_DESTROY, "t1", 0, false);
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, false));
    assert_int_equal(fixture_code(&fixture, a), -1000); /* the next try may do */
    fixture_advance(&fixture, 31 * NS_PER_S);
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, false));
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_reply(&fixture, a)->snapshot.state, POOL_DESTROYING);

    fixture_store(&fixture, false);
    fixture.hold.store = true;
    b = fixture_on(&fixture, POOL_EV_DESTROY, "t2", 0, false);
    fixture_advance(&fixture, 31 * NS_PER_S);
    fixture_answer_all(&fixture, POOL_FX_DESTROY, false);
    assert_int_equal(fixture_code(&fixture, b), SP_STORE_UNAVAILABLE);
}

static void test_death(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", 0);
    fixture_died(&fixture, fixture_reply(&fixture, a)->box);
    assert_int_equal(fixture.facts[POOL_FACT_LOST], 1);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(pool_find_past(fixture.pool, "s-t1", NULL, NULL), POOL_END_DIED);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1); /* leftovers go too */
}

/* Answers to an older epoch are counted and dropped. */
static void test_stale_answers(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_PROBED};
    struct pool_stats stats;

    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    ev.box = fixture_box(&fixture, "t1")->id;
    ev.epoch = 1;
    ev.u.failed.code = SP_TIMEOUT;
    fixture_send(&fixture, &ev);
    ev.kind = POOL_EV_DESTROYED;
    ev.u.failed.code = SP_OK;
    fixture_send(&fixture, &ev);
    ev.kind = POOL_EV_CHECKED;
    ev.u.verdict = POOL_DEAD;
    fixture_send(&fixture, &ev);
    pool_get_stats(fixture.pool, &stats);
    assert_int_equal(stats.late_answers, 3);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
}

/* Three times absent ends a lease, unless somebody else has found it in between. */
static void test_absences_in_a_row(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_LOOKED, .u.verdict = POOL_SILENT};

    (void) state;
    fixture.config.profiles[0].is_watched = false;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    ev.box = fixture_box(&fixture, "t1")->id;
    fixture.verdict = POOL_ABSENT;
    for (int i = 0; i < 60; i++) { /* it is asked after 30 to 45 s, then every 2 s */
        fixture_send(&fixture, &ev);
        fixture_advance(&fixture, 3 * NS_PER_S);
        assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    }
    fixture_advance(&fixture, 60 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
}

/* While it is being removed, and when that was asked for in the moment before. A release that wants the end waits for it. */
static void test_every_verb_while_it_goes(void **state)
{
    static const enum pool_event_kind verbs[] = {POOL_EV_RENEW, POOL_EV_RELEASE, POOL_EV_PAUSE};
    uint64_t before[2];
    uint64_t end;

    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = true;
    fixture.hold.destroy = true;
    before[0] = fixture_on(&fixture, POOL_EV_RENEW, "t1", 1, false);
    before[1] = fixture_on(&fixture, POOL_EV_PAUSE, "t1", 1, false);
    (void) fixture_on(&fixture, POOL_EV_DESTROY, "t1", 1, false);
    for (unsigned i = 0; i < ARRAY_LEN(before); i++)
        assert_int_equal(fixture_code(&fixture, before[i]), SP_SANDBOX_LOST);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    for (unsigned i = 0; i < ARRAY_LEN(verbs); i++) {
        end = fixture_on(&fixture, verbs[i], "t1", 1, false);
        assert_int_equal(fixture_code(&fixture, end), SP_SANDBOX_LOST);
        assert_int_equal(fixture_reply(&fixture, end)->u.reply.lost, POOL_END_DESTROYED);
    }
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RENEW, "t1", 7, false)),
                     SP_STALE_GENERATION);
    end = fixture_on(&fixture, POOL_EV_RELEASE, "t1", 1, true);
    fixture.hold.destroy = false;
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, true));
    assert_int_equal(fixture_code(&fixture, end), SP_OK);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RENEW, "t1", 1, false)),
                     SP_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_verb_while_it_goes, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_idle_clock_holds_while_busy, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_activity_reaches_the_store, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_parked_box_expires, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_blank_boxes_age_one_by_one, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_destroy_is_tried_until_it_works, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_destroy_that_takes_too_long, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_quick_destroy, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_late_create, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_no_eviction_of_a_box_its_owner_waits_for,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_death, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_stale_answers, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_absences_in_a_row, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
