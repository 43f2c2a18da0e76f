/* test_pool_trouble.c - boxes made with one caller's extras, and failing: that affects this caller
 * only. */
#include <stdio.h>
#include <string.h>

#include "rig.h"

static const struct pool_acquire odd = {.is_special = true, .made_with = 7, .principal = 5};

static int setup(void **state)
{
    (void) state;
    rig_init(&rig);
    rig.config.profiles[0].create_max = 2;
    return 0;
}

static struct pool_profile_view view(void)
{
    struct pool_profile_view v;

    pool_get_profile(rig.pool, rig.now_ns, 0, &v);
    return v;
}

/* It is tried again, with pauses, and then refused; the failures are not counted for the
 * profile. */
static void test_the_breaker_stays_closed(void **state)
{
    uint64_t a[6];
    unsigned creates;

    (void) state;
    rig.fail_create = true;
    rig_start(&rig);
    for (unsigned i = 0; i < ARRAY_LEN(a); i++) {
        char who[8];

        snprintf(who, sizeof(who), "t%u", i);
        a[i] = rig_acquire_with(&rig, "u", who, 60 * NS_PER_S, &odd);
        assert_int_equal(rig_code(&rig, a[i]), -1000);
    }
    creates = rig.effects[POOL_FX_CREATE];
    assert_int_equal(creates, ARRAY_LEN(a)); /* none again before its pause is over */
    rig.fail_create = false;
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "v", "plain", NS_PER_S)), SP_OK);
    rig.fail_create = true;
    rig_advance(&rig, 30 * NS_PER_S);
    for (unsigned i = 0; i < ARRAY_LEN(a); i++) {
        assert_int_equal(rig_code(&rig, a[i]), SP_BACKEND_UNAVAILABLE);
        assert_string_equal(rig_reply(&rig, a[i])->reason, "no such image");
        assert_true(rig_reply(&rig, a[i])->u.reply.retry_after_ns > 0);
    }
    assert_int_equal(rig.effects[POOL_FX_CREATE], 3 * creates + 1);
    assert_int_equal(rig.facts[POOL_FACT_BREAKER_OPEN], 0);
    assert_int_equal(view().failures, 0);
    assert_true(view().retry_at_ns == 0);
}

static void test_the_reason_at_the_deadline(void **state)
{
    uint64_t a;

    (void) state;
    rig.fail_create = true;
    rig_start(&rig);
    a = rig_acquire_with(&rig, "u", "t1", 20 * NS_PER_MS, &odd);
    rig_advance(&rig, NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    assert_string_equal(rig_reply(&rig, a)->reason, "no such image");
    assert_int_equal(rig.effects[POOL_FX_CREATE], 1);
}

/* A caller that joins it, and takes its place when it leaves, takes over the pause too. */
static void test_heirs_pause(void **state)
{
    uint64_t a;

    (void) state;
    rig.fail_create = true;
    rig_start(&rig);
    a = rig_acquire_with(&rig, "u", "t1", 60 * NS_PER_S, &odd);
    for (unsigned i = 0; i < 5; i++) {
        uint64_t b = rig_acquire_with(&rig, "u", "t1", 60 * NS_PER_S, &odd);

        assert_int_equal(rig_code(&rig, b), -1000);
        rig_abandon(&rig, a);
        a = b;
    }
    assert_int_equal(rig.effects[POOL_FX_CREATE], 1);
    rig.fail_create = false;
    rig_advance(&rig, NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_OK);
}

static void open_breaker(void)
{
    rig.fail_create = true;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[0].warm_max = 1;
    rig_start(&rig);
    for (unsigned i = 0; i < 100 && !view().is_open; i++)
        rig_advance(&rig, 10 * NS_PER_MS);
    assert_true(view().is_open);
}

/* Success with extras is not counted for plain boxes, either. */
static void test_success_does_not_close_it(void **state)
{
    uint64_t a;

    (void) state;
    open_breaker();
    rig.hold.create = true;
    rig.now_ns = view().retry_at_ns;
    assert_false(view().is_trial_due); /* the warm box is */
    a = rig_acquire_with(&rig, "u", "t1", 60 * NS_PER_S, &odd);
    /* the trial is a plain one */
    assert_string_equal(rig_held(&rig, POOL_FX_CREATE)->snapshot.sandbox_id, "");
    assert_true(rig_answer(&rig, POOL_FX_CREATE, false));
    assert_true(view().is_open);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
}

static void test_without_plain_ones_it_is_the_trial(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &rig.config};
    uint64_t a;

    (void) state;
    open_breaker();
    rig.config.profiles[0].warm_min = 0;
    rig.config.profiles[0].warm_max = 0;
    rig_send(&rig, &ev);
    rig.fail_create = false;
    assert_false(view().is_trial_due);
    rig.now_ns = view().retry_at_ns;
    assert_true(view().is_trial_due);
    a = rig_acquire_with(&rig, "u", "t1", 60 * NS_PER_S, &odd);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_true(view().is_open);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "v", "t2", NS_PER_S)), SP_OK);
    assert_false(view().is_open);
}

/* Slow ones do not take all creates. */
static void test_a_create_is_left_for_plain_ones(void **state)
{
    (void) state;
    rig.config.profiles[0].warm_min = 2;
    rig.config.profiles[0].warm_max = 2;
    rig.config.profiles[0].create_max = 3;
    rig.hold.create = true;
    rig_start(&rig);
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    for (unsigned i = 0; i < 6; i++) {
        char who[8];

        snprintf(who, sizeof(who), "t%u", i);
        (void) rig_acquire_with(&rig, "u", who, 60 * NS_PER_S, &odd);
    }
    assert_int_equal(rig_count(&rig, POOL_CREATING), 2);
    assert_true(rig_answer(&rig, POOL_FX_CREATE, true));
    (void) rig_acquire(&rig, "v", "plain", NS_PER_S); /* a blank one is taken: another is wanted */
    assert_true(rig_answer(&rig, POOL_FX_CREATE, true));
    for (size_t i = 0; i < rig.held_count; i++)
        if (rig.held[i].kind == POOL_FX_CREATE && rig.held[i].snapshot.sandbox_id[0] == '\0')
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
    rig.config.profiles[0].breaker_after = 1;
    rig.hold.probe = true;
    rig_start(&rig);
    a = rig_acquire_with(&rig, "u", "t1", 60 * NS_PER_S, &with);
    assert_true(rig_answer(&rig, POOL_FX_PROBE, false));
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(rig_count(&rig, POOL_STARTING), 0);
    a = rig_acquire_with(&rig, "u", "t1", 60 * NS_PER_S, &with);
    rig_died(&rig, rig_held(&rig, POOL_FX_PROBE)->box);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(rig_count(&rig, POOL_STARTING), 0);
}

/* All boxes are in use: one event for all who are refused or wait, and one when it is over. */
static void test_exhausted_is_said_once(void **state)
{
    (void) state;
    rig.config.max_boxes = 2;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    (void) rig_acquire(&rig, "u", "t2", NS_PER_S);
    assert_true(pool_is_exhausted(rig.pool));
    assert_int_equal(rig.facts[POOL_FACT_EXHAUSTED], 0); /* nobody wants one */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t3", 0)), SP_POOL_EXHAUSTED);
        rig_advance(&rig, 20 * NS_PER_S);
    }
    (void) rig_acquire(&rig, "u", "t4", 100 * NS_PER_S);
    assert_int_equal(rig.facts[POOL_FACT_EXHAUSTED], 1);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, true); /* goes to the one who waits */
    rig_advance(&rig, 20 * NS_PER_S);
    assert_int_equal(rig.facts[POOL_FACT_AVAILABLE], 0);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t2", 0, true);
    assert_false(pool_is_exhausted(rig.pool));
    rig_advance(&rig, 4 * NS_PER_S);
    (void) rig_acquire(&rig, "u", "t5", 0); /* it was over for a moment only */
    (void) rig_acquire(&rig, "u", "t5", NS_PER_S);
    rig_advance(&rig, 20 * NS_PER_S);
    assert_int_equal(rig.facts[POOL_FACT_AVAILABLE], 0);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t5", 0, true);
    rig_advance(&rig, 6 * NS_PER_S);
    assert_int_equal(rig.facts[POOL_FACT_AVAILABLE], 1);
    assert_int_equal(rig.facts[POOL_FACT_EXHAUSTED], 1);
    assert_true(pool_next_wake(rig.pool) > rig.now_ns + 60 * NS_PER_S); /* nothing is left to do */
}

/* Boxes that can be evicted, or are being made, are not in use. */
static void test_full_is_not_exhausted(void **state)
{
    (void) state;
    rig.config.max_boxes = 1;
    rig.config.profiles[0].park_ns = 1000 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_true(pool_is_exhausted(rig.pool));
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 1);
    assert_false(pool_is_exhausted(rig.pool));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_breaker_stays_closed, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_reason_at_the_deadline, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_heirs_pause, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_success_does_not_close_it, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_without_plain_ones_it_is_the_trial, setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_last_try_does_not_start, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_exhausted_is_said_once, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_full_is_not_exhausted, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_create_is_left_for_plain_ones, setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
