/* test_pool_trouble.c - boxes made with one caller's extras, and failing: that affects this caller
 * only. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

static const struct pool_acquire odd = {.is_special = true, .made_with = 7, .principal = 5};

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.profiles[0].create_max = 2;
    return 0;
}

static struct pool_profile_view view(void)
{
    struct pool_profile_view v;

    pool_get_profile(fixture.pool, fixture.now_ns, 0, &v);
    return v;
}

/* It is tried again, with pauses, and then refused; the failures are not counted for the
 * profile. */
static void test_the_breaker_stays_closed(void **state)
{
    uint64_t a[6];
    unsigned creates;

    (void) state;
    fixture.fail_create = true;
    fixture_start(&fixture);
    for (unsigned i = 0; i < ARRAY_LEN(a); i++) {
        char who[8];

        snprintf(who, sizeof(who), "t%u", i);
        a[i] = fixture_acquire_with(&fixture, "u", who, 60 * NS_PER_S, &odd);
        assert_int_equal(fixture_code(&fixture, a[i]), -1000);
    }
    creates = fixture.effects[POOL_FX_CREATE];
    assert_int_equal(creates, ARRAY_LEN(a)); /* none again before its pause is over */
    fixture.fail_create = false;
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "v", "plain", NS_PER_S)),
                     SP_OK);
    fixture.fail_create = true;
    fixture_advance(&fixture, 30 * NS_PER_S);
    for (unsigned i = 0; i < ARRAY_LEN(a); i++) {
        assert_int_equal(fixture_code(&fixture, a[i]), SP_BACKEND_UNAVAILABLE);
        assert_string_equal(fixture_reply(&fixture, a[i])->reason, "no such image");
        assert_true(fixture_reply(&fixture, a[i])->u.reply.retry_after_ns > 0);
    }
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 3 * creates + 1);
    assert_int_equal(fixture.facts[POOL_FACT_BREAKER_OPEN], 0);
    assert_int_equal(view().failures, 0);
    assert_true(view().retry_at_ns == 0);
}

static void test_the_reason_at_the_deadline(void **state)
{
    uint64_t a;

    (void) state;
    fixture.fail_create = true;
    fixture_start(&fixture);
    a = fixture_acquire_with(&fixture, "u", "t1", 20 * NS_PER_MS, &odd);
    fixture_advance(&fixture, NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    assert_string_equal(fixture_reply(&fixture, a)->reason, "no such image");
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1);
}

/* A caller that joins it, and takes its place when it leaves, takes over the pause too. */
static void test_heirs_pause(void **state)
{
    uint64_t a;

    (void) state;
    fixture.fail_create = true;
    fixture_start(&fixture);
    a = fixture_acquire_with(&fixture, "u", "t1", 60 * NS_PER_S, &odd);
    for (unsigned i = 0; i < 5; i++) {
        uint64_t b = fixture_acquire_with(&fixture, "u", "t1", 60 * NS_PER_S, &odd);

        assert_int_equal(fixture_code(&fixture, b), -1000);
        fixture_abandon(&fixture, a);
        a = b;
    }
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1);
    fixture.fail_create = false;
    fixture_advance(&fixture, NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

static void open_breaker(void)
{
    fixture.fail_create = true;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[0].warm_max = 1;
    fixture_start(&fixture);
    for (unsigned i = 0; i < 100 && !view().is_open; i++)
        fixture_advance(&fixture, 10 * NS_PER_MS);
    assert_true(view().is_open);
}

/* Success with extras is not counted for plain boxes, either. */
static void test_success_does_not_close_it(void **state)
{
    uint64_t a;

    (void) state;
    open_breaker();
    fixture.hold.create = true;
    fixture.now_ns = view().retry_at_ns;
    assert_false(view().is_trial_due); /* the warm box is */
    a = fixture_acquire_with(&fixture, "u", "t1", 60 * NS_PER_S, &odd);
    /* the trial is a plain one */
    assert_string_equal(fixture_held(&fixture, POOL_FX_CREATE)->snapshot.sandbox_id, "");
    assert_true(fixture_answer(&fixture, POOL_FX_CREATE, false));
    assert_true(view().is_open);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
}

static void test_without_plain_ones_it_is_the_trial(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &fixture.config};
    uint64_t a;

    (void) state;
    open_breaker();
    fixture.config.profiles[0].warm_min = 0;
    fixture.config.profiles[0].warm_max = 0;
    fixture_send(&fixture, &ev);
    fixture.fail_create = false;
    assert_false(view().is_trial_due);
    fixture.now_ns = view().retry_at_ns;
    assert_true(view().is_trial_due);
    a = fixture_acquire_with(&fixture, "u", "t1", 60 * NS_PER_S, &odd);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(view().is_open);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "v", "t2", NS_PER_S)), SP_OK);
    assert_false(view().is_open);
}

/* Slow ones do not take all creates. */
static void test_a_create_is_left_for_plain_ones(void **state)
{
    (void) state;
    fixture.config.profiles[0].warm_min = 2;
    fixture.config.profiles[0].warm_max = 2;
    fixture.config.profiles[0].create_max = 3;
    fixture.hold.create = true;
    fixture_start(&fixture);
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    for (unsigned i = 0; i < 6; i++) {
        char who[8];

        snprintf(who, sizeof(who), "t%u", i);
        (void) fixture_acquire_with(&fixture, "u", who, 60 * NS_PER_S, &odd);
    }
    assert_int_equal(fixture_count(&fixture, POOL_CREATING), 2);
    assert_true(fixture_answer(&fixture, POOL_FX_CREATE, true));
    (void) fixture_acquire(&fixture, "v", "plain",
                           NS_PER_S); /* a blank one is taken: another is wanted */
    assert_true(fixture_answer(&fixture, POOL_FX_CREATE, true));
    for (size_t i = 0; i < fixture.held_count; i++)
        if (fixture.held[i].kind == POOL_FX_CREATE &&
            fixture.held[i].snapshot.sandbox_id[0] == '\0')
            return;
    fail_msg("all creates are for one caller");
}

/* The last caller is refused because the box does not start: then the box ends once, whatever the
 * reason. */
static void test_the_last_try_does_not_start(void **state)
{
    struct pool_acquire with = {.is_special = true, .made_with = 7};
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].breaker_after = 1;
    fixture.hold.probe = true;
    fixture_start(&fixture);
    a = fixture_acquire_with(&fixture, "u", "t1", 60 * NS_PER_S, &with);
    assert_true(fixture_answer(&fixture, POOL_FX_PROBE, false));
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(fixture_count(&fixture, POOL_STARTING), 0);
    a = fixture_acquire_with(&fixture, "u", "t1", 60 * NS_PER_S, &with);
    fixture_died(&fixture, fixture_held(&fixture, POOL_FX_PROBE)->box);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(fixture_count(&fixture, POOL_STARTING), 0);
}

/* All boxes are in use: one event for all who are refused or wait, and one when it is over. */
static void test_exhausted_is_said_once(void **state)
{
    (void) state;
    fixture.config.max_boxes = 2;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    assert_true(pool_is_exhausted(fixture.pool));
    assert_int_equal(fixture.facts[POOL_FACT_EXHAUSTED], 0); /* nobody wants one */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t3", 0)),
                         SP_POOL_EXHAUSTED);
        fixture_advance(&fixture, 20 * NS_PER_S);
    }
    (void) fixture_acquire(&fixture, "u", "t4", 100 * NS_PER_S);
    assert_int_equal(fixture.facts[POOL_FACT_EXHAUSTED], 1);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, true); /* goes to the one who waits */
    fixture_advance(&fixture, 20 * NS_PER_S);
    assert_int_equal(fixture.facts[POOL_FACT_AVAILABLE], 0);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t2", 0, true);
    assert_false(pool_is_exhausted(fixture.pool));
    fixture_advance(&fixture, 4 * NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t5", 0); /* it was over for a moment only */
    (void) fixture_acquire(&fixture, "u", "t5", NS_PER_S);
    fixture_advance(&fixture, 20 * NS_PER_S);
    assert_int_equal(fixture.facts[POOL_FACT_AVAILABLE], 0);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t5", 0, true);
    fixture_advance(&fixture, 6 * NS_PER_S);
    assert_int_equal(fixture.facts[POOL_FACT_AVAILABLE], 1);
    assert_int_equal(fixture.facts[POOL_FACT_EXHAUSTED], 1);
    assert_true(pool_next_wake(fixture.pool) >
                fixture.now_ns + 60 * NS_PER_S); /* nothing is left to do */
}

/* Boxes that can be evicted, or are being made, are not in use. */
static void test_full_is_not_exhausted(void **state)
{
    (void) state;
    fixture.config.max_boxes = 1;
    fixture.config.profiles[0].park_ns = 1000 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_true(pool_is_exhausted(fixture.pool));
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 1);
    assert_false(pool_is_exhausted(fixture.pool));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_breaker_stays_closed, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_reason_at_the_deadline, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_heirs_pause, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_success_does_not_close_it, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_without_plain_ones_it_is_the_trial, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_last_try_does_not_start, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_exhausted_is_said_once, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_full_is_not_exhausted, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_create_is_left_for_plain_ones, setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
