/* test_pool_refill.c - how many boxes, when, and for whom: targets, eviction, backoff, drift, modes. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "pool/internal.h"

static void test_target(void **state)
{
    (void) state;
    assert_int_equal(refill_target(0, NS_PER_S, 2, 9), 2);
    assert_int_equal(refill_target(2.0, NS_PER_S, 0, 9), 3);
    assert_int_equal(refill_target(2.1, NS_PER_S, 0, 9), 4); /* rounded up */
    assert_int_equal(refill_target(100, NS_PER_S, 0, 9), 9);
    assert_int_equal(refill_target(100, NS_PER_S, 5, 3), 5); /* min rules */
    assert_true(refill_decay(8, 10 * NS_PER_S) > 3.999 && refill_decay(8, 10 * NS_PER_S) < 4.001);
    assert_true(refill_decay(8, 5 * NS_PER_S) > 5.64 && refill_decay(8, 5 * NS_PER_S) < 5.67);
    assert_true(refill_rate(refill_decay(1000, 600 * NS_PER_S)) == 0);
}

static void test_plan(void **state)
{
    static const struct {
        struct refill_view view;
        struct refill_plan plan;
    } cases[] = {
        /* waiting special fresh drifted making in_flight dying target create_max room */
        {{0, 0, 0, 0, 0, 0, 0, 0, 3, 2, 9, true, false, false}, {0, 0, 0, 2, 0, 0}},
        {{0, 0, 0, 0, 0, 0, 0, 0, 3, 8, 2, true, false, false}, {0, 0, 0, 2, 0, 0}},
        {{0, 0, 2, 0, 1, 1, 0, 0, 3, 8, 9, true, false, false}, {0, 0, 0, 0, 0, 0}},
        {{4, 0, 0, 0, 1, 1, 0, 0, 2, 8, 9, true, false, false}, {3, 0, 3, 2, 0, 0}},
        {{4, 0, 0, 0, 0, 0, 0, 0, 2, 8, 0, true, false, false}, {4, 0, 4, 0, 0, 0}},
        {{4, 0, 0, 0, 0, 0, 0, 0, 2, 8, 9, false, false, false}, {0, 0, 0, 0, 0, 0}},
        {{4, 0, 0, 0, 0, 0, 0, 0, 2, 8, 9, true, true, false}, {1, 0, 1, 0, 0, 0}},
        {{4, 0, 0, 0, 0, 1, 0, 0, 2, 8, 9, true, true, false}, {0, 0, 0, 0, 0, 0}},
        /* surplus: only when due, and not while another one dies */
        {{0, 0, 5, 0, 0, 0, 0, 0, 3, 8, 9, true, false, false}, {0, 0, 0, 0, 0, 0}},
        {{0, 0, 5, 0, 0, 0, 0, 0, 3, 8, 9, true, false, true}, {0, 0, 0, 0, 0, 1}},
        {{0, 0, 5, 0, 0, 0, 0, 1, 3, 8, 9, true, false, true}, {0, 0, 0, 0, 0, 0}},
        /* drift: one extra, then one goes; without room one goes first */
        {{0, 0, 0, 3, 0, 0, 0, 0, 3, 8, 9, true, false, false}, {0, 0, 0, 1, 0, 0}},
        {{0, 0, 0, 3, 1, 1, 0, 0, 3, 8, 9, true, false, false}, {0, 0, 0, 0, 0, 0}},
        {{0, 0, 1, 3, 0, 0, 0, 0, 3, 8, 9, true, false, false}, {0, 0, 0, 0, 1, 0}},
        {{0, 0, 0, 3, 0, 0, 0, 0, 3, 8, 0, true, false, false}, {0, 0, 0, 0, 1, 0}},
        {{0, 0, 0, 3, 0, 0, 0, 1, 3, 8, 0, true, false, false}, {0, 0, 0, 0, 0, 0}},
        {{0, 0, 0, 3, 0, 0, 0, 0, 3, 8, 9, false, false, false}, {0, 0, 0, 0, 0, 0}},
        /* special ones: never by what is blank or being made, and before the target */
        {{0, 2, 3, 0, 1, 1, 0, 0, 3, 8, 9, true, false, false}, {0, 2, 2, 0, 0, 0}},
        {{2, 2, 0, 0, 0, 0, 0, 0, 2, 3, 9, true, false, false}, {2, 2, 3, 0, 0, 0}},
        {{0, 2, 0, 0, 0, 0, 0, 0, 3, 4, 9, true, false, false}, {0, 2, 2, 2, 0, 0}},
        {{1, 1, 0, 0, 0, 0, 0, 0, 2, 8, 0, true, true, false}, {1, 0, 1, 0, 0, 0}},
        {{0, 1, 2, 0, 0, 0, 0, 0, 2, 8, 9, true, true, false}, {0, 1, 1, 0, 0, 0}},
        {{1, 4, 0, 0, 0, 1, 1, 0, 2, 2, 9, true, false, false}, {1, 0, 1, 0, 0, 0}},
        {{0, 2, 0, 0, 0, 0, 0, 0, 2, 8, 9, false, false, false}, {0, 0, 0, 0, 0, 0}},
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct refill_plan plan = refill_want(&cases[i].view);

        if (memcmp(&plan, &cases[i].plan, sizeof(plan)) != 0)
            fail_msg("case %zu: %u %u %u %u %u %u", i, plan.for_waiters, plan.for_special,
                     plan.for_both, plan.for_target, plan.doom_drifted, plan.doom_surplus);
    }
}

static void test_eviction(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.max_boxes = 3;
    fixture_start(&fixture);
    for (int i = 0; i < 3; i++) {
        const char *who[] = {"t0", "t1", "t2"};

        (void) fixture_acquire(&fixture, "u", who[i], NS_PER_S);
    }
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    fixture_advance(&fixture, NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t0", 0, false);
    a = fixture_acquire(&fixture, "u", "t3", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_null(fixture_box(&fixture, "t1")); /* parked longest */
    assert_non_null(fixture_box(&fixture, "t0"));
    assert_int_equal(pool_find_past(fixture.pool, "s-t1", NULL, NULL), POOL_END_EVICTED);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RENEW, "t1", 0, false)),
                     SP_SANDBOX_LOST);
}

static void test_eviction_counts_the_dying(void **state)
{
    (void) state;
    fixture.config.max_boxes = 3;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t0", NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t0", 0, false);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    fixture.hold.destroy = true;
    (void) fixture_acquire(&fixture, "u", "t3", NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 1); /* one is enough for one */
    (void) fixture_acquire(&fixture, "v", "t4", NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 0);
}

/* Warm targets never evict; waiting acquires take blank boxes of profiles nobody waits for. */
static void test_blank_of_another_profile(void **state)
{
    struct pool_acquire other = {.profile = 1};
    uint64_t a;

    (void) state;
    fixture.config.max_boxes = 2;
    fixture.config.profile_count = 2;
    fixture.config.profiles[0].warm_min = 2;
    fixture.config.profiles[1] = fixture.config.profiles[0];
    memcpy(fixture.config.profiles[1].name, "other", 6);
    fixture_start(&fixture);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 2);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &other);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
}

/* A backend that answers again is tried at once, not when its pause is over. */
static void test_backend_is_back(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].create_max = 1;
    fixture.config.profiles[0].backoff_min_ns = 60 * NS_PER_S;
    fixture.config.profiles[0].backoff_max_ns = 60 * NS_PER_S;
    fixture.config.profiles[0].breaker_after = 1;
    fixture.fail_create = true;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.fail_create = false;
    fixture_list(&fixture, true, NULL, 0); /* says nothing about creates */
    a = fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    fixture_list(&fixture, false, NULL, 0);
    a = fixture_acquire(&fixture, "u", "t3", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    fixture_list(&fixture, true, NULL, 0);
    a = fixture_acquire(&fixture, "u", "t4", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture.facts[POOL_FACT_BREAKER_CLOSED], 1);
}

static void test_breaker(void **state)
{
    struct pool_profile_view v;
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].create_max = 1;
    fixture.fail_create = true;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1); /* not again at once */
    fixture_advance(&fixture, 30 * NS_PER_S);
    pool_get_profile(fixture.pool, fixture.now_ns, 0, &v);
    assert_true(v.is_open);
    assert_true(v.is_trial_due);
    assert_string_equal(v.reason, "no such image");
    assert_int_equal(fixture.facts[POOL_FACT_BREAKER_OPEN], 1);
    /* Refused when the circuit opened, long before its deadline; nobody waits, so nothing is
     * tried. */
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 3);
    /* The next try is due: the first caller waits for it, and is refused when it fails. */
    a = fixture_acquire(&fixture, "u", "t2", 60 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 4);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    /* Impossible until the next try: refused at once, with the time to come back. */
    a = fixture_acquire(&fixture, "u", "t3", 60 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 4);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    assert_string_equal(fixture_reply(&fixture, a)->reason, "no such image");
    assert_true(fixture_reply(&fixture, a)->u.reply.retry_after_ns > 0);
    pool_get_profile(fixture.pool, fixture.now_ns, 0, &v);
    assert_false(v.is_trial_due);
    fixture.fail_create = false;
    fixture_advance(&fixture, 11 * NS_PER_S);
    a = fixture_acquire(&fixture, "u", "t4", 60 * NS_PER_S);
    pool_get_profile(fixture.pool, fixture.now_ns, 0, &v);
    assert_false(v.is_open);
    assert_int_equal(v.failures, 0);
    assert_int_equal(fixture.facts[POOL_FACT_BREAKER_CLOSED], 1);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

static void test_half_open_tries_one(void **state)
{
    (void) state;
    fixture.config.profiles[0].warm_min = 4;
    fixture.fail_create = true;
    fixture_start(&fixture);
    fixture_advance(&fixture, NS_PER_S);
    fixture.hold.create = true;
    fixture_advance(&fixture, 20 * NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_CREATING), 1);
    fixture.fail_create = false;
    assert_true(fixture_answer(&fixture, POOL_FX_CREATE, true));
    assert_int_equal(fixture_count(&fixture, POOL_CREATING), 3); /* closed: all that are missing */
}

static void test_creates_are_capped(void **state)
{
    (void) state;
    fixture.config.profiles[0].warm_min = 8;
    fixture.config.profiles[0].create_max = 3;
    fixture.hold.create = true;
    fixture_start(&fixture);
    assert_int_equal(fixture_count(&fixture, POOL_CREATING), 3);
    assert_true(fixture_answer(&fixture, POOL_FX_CREATE, true));
    assert_int_equal(fixture_count(&fixture, POOL_CREATING), 3);
}

static void test_target_follows_arrivals(void **state)
{
    struct pool_profile_view v;

    (void) state;
    fixture.config.max_boxes = 60;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[0].warm_max = 6;
    fixture.config.profiles[0].shrink_ns = NS_PER_S;
    fixture.hold.create = true;
    fixture_start(&fixture);
    for (int i = 0; i < 40; i++) {
        char who[16];

        snprintf(who, sizeof(who), "t%d", i);
        (void) fixture_acquire(&fixture, "u", who, 60 * NS_PER_S);
        fixture_advance(&fixture, 250 * NS_PER_MS);
        for (size_t n = fixture.held_count; i % 4 == 3 && n > 0; n--)
            assert_true(fixture_answer(&fixture, POOL_FX_CREATE, true));
    }
    pool_get_profile(fixture.pool, fixture.now_ns, 0, &v);
    assert_true(v.target > 1);
    assert_true(v.arrivals_per_s > 1.5 && v.arrivals_per_s < 4);
    fixture.hold.create = false;
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    fixture_advance(&fixture, 300 * NS_PER_S); /* quiet again: the surplus goes */
    pool_get_profile(fixture.pool, fixture.now_ns, 0, &v);
    assert_int_equal(v.target, 1);
    assert_int_equal(v.by_state[POOL_BLANK], 1);
}

static void test_drift(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &fixture.config};

    (void) state;
    fixture.config.profiles[0].warm_min = 3;
    fixture_start(&fixture);
    fixture.config.profiles[0].spec_hash = 2;
    fixture.hold.create = true;
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture_count(&fixture, POOL_CREATING), 1); /* one at a time */
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 3);    /* none goes before */
    assert_true(fixture_answer(&fixture, POOL_FX_CREATE, true));
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 3);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
    fixture.hold.create = false;
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 3);
    for (size_t i = 0; i < pool_slot_count(fixture.pool); i++)
        if (pool_slot(fixture.pool, i) != NULL)
            assert_true(pool_slot(fixture.pool, i)->spec_hash == 2);
}

static void test_drain(void **state)
{
    uint64_t waiting;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", 0);
    (void) fixture_acquire(&fixture, "u", "t2", 0);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t2", 0, false);
    fixture.hold.create = true;
    (void) fixture_acquire(&fixture, "u", "t3", 0);
    (void) fixture_acquire(&fixture, "u", "t4", NS_PER_S);
    waiting = fixture_acquire(&fixture, "u", "t5", NS_PER_S);
    fixture_mode(&fixture, POOL_DRAINING, false);
    assert_int_equal(fixture_code(&fixture, waiting), SP_DRAINING);
    fixture.hold.create = false;
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 0);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 1);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t6", NS_PER_S)),
                     SP_DRAINING);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t2", NS_PER_S)),
                     SP_DRAINING);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", 0)),
                     SP_OK); /* kept */
    fixture_mode(&fixture, POOL_DRAINING, true);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 0);
    assert_true(fixture.writes[POOL_WRITE_MODE] == 2);
    fixture_mode(&fixture, POOL_RUNNING, false);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 1);
}

static void test_pause(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", 0);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    fixture_mode(&fixture, POOL_PAUSED, false);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t3", 0)), SP_PAUSED);
    a = fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S); /* parked box */
    b = fixture_acquire(&fixture, "u", "t2", 60 * NS_PER_S); /* blank box */
    assert_int_equal(fixture_code(&fixture, a), -1000);
    assert_int_equal(fixture_code(&fixture, b), -1000);
    fixture_mode(&fixture, POOL_RUNNING, false);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_code(&fixture, b), SP_OK);
}

static void test_removed_profile(void **state)
{
    struct pool_config smaller;
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &smaller};
    struct pool_acquire other = {.profile = 1};

    (void) state;
    fixture.config.profile_count = 2;
    fixture.config.profiles[1] = fixture.config.profiles[0];
    memcpy(fixture.config.profiles[1].name, "other", 6);
    fixture.config.profiles[1].warm_min = 2;
    fixture_start(&fixture);
    (void) fixture_acquire_with(&fixture, "u", "t1", 0, &other);
    smaller = fixture.config;
    smaller.profile_count = 1;
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 0);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED); /* leases live on */
    assert_int_equal(
        fixture_code(&fixture, fixture_acquire_with(&fixture, "u", "t2", NS_PER_S, &other)),
        SP_NOT_FOUND);
    smaller.profiles[1] = smaller.profiles[0];
    memcpy(smaller.profiles[1].name, "third", 6);
    smaller.profile_count = 2;
    fixture_send(&fixture, &ev);
    assert_int_equal(pool_profile_index(fixture.pool, "default"), 0);
    assert_int_equal(pool_profile_index(fixture.pool, "third"), 2); /* 1 still has a box */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target),
        cmocka_unit_test(test_plan),
        cmocka_unit_test_setup_teardown(test_eviction, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_eviction_counts_the_dying, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_blank_of_another_profile, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_breaker, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_backend_is_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_half_open_tries_one, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_creates_are_capped, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_target_follows_arrivals, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_drift, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_drain, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_pause, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_removed_profile, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
