/* test_pool_refill.c - how many boxes, when, and for whom: targets, eviction, backoff, drift, modes. */
#include <stdio.h>
#include <string.h>

#include "pool/internal.h"
#include "rig.h"

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
    rig.config.max_boxes = 3;
    rig_start(&rig);
    for (int i = 0; i < 3; i++) {
        const char *who[] = {"t0", "t1", "t2"};

        (void) rig_acquire(&rig, "u", who[i], NS_PER_S);
    }
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    rig_advance(&rig, NS_PER_S);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t0", 0, false);
    a = rig_acquire(&rig, "u", "t3", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_null(rig_box(&rig, "t1")); /* parked longest */
    assert_non_null(rig_box(&rig, "t0"));
    assert_int_equal(pool_find_past(rig.pool, "s-t1", NULL, NULL), POOL_END_EVICTED);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RENEW, "t1", 0, false)), SP_SANDBOX_LOST);
}

static void test_eviction_counts_the_dying(void **state)
{
    (void) state;
    rig.config.max_boxes = 3;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t0", NS_PER_S);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    (void) rig_acquire(&rig, "u", "t2", NS_PER_S);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t0", 0, false);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    rig.hold.destroy = true;
    (void) rig_acquire(&rig, "u", "t3", NS_PER_S);
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 1);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 1); /* one is enough for one */
    (void) rig_acquire(&rig, "v", "t4", NS_PER_S);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 0);
}

/* Warm targets never evict; waiting acquires take blank boxes of profiles nobody waits for. */
static void test_blank_of_another_profile(void **state)
{
    struct pool_acquire other = {.profile = 1};
    uint64_t a;

    (void) state;
    rig.config.max_boxes = 2;
    rig.config.profile_count = 2;
    rig.config.profiles[0].warm_min = 2;
    rig.config.profiles[1] = rig.config.profiles[0];
    memcpy(rig.config.profiles[1].name, "other", 6);
    rig_start(&rig);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 2);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 0);
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &other);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 1);
}

/* A backend that answers again is tried at once, not when its pause is over. */
static void test_backend_is_back(void **state)
{
    uint64_t a;

    (void) state;
    rig.config.profiles[0].create_max = 1;
    rig.config.profiles[0].backoff_min_ns = 60 * NS_PER_S;
    rig.config.profiles[0].backoff_max_ns = 60 * NS_PER_S;
    rig.config.profiles[0].breaker_after = 1;
    rig.fail_create = true;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.fail_create = false;
    rig_list(&rig, true, NULL, 0); /* says nothing about creates */
    a = rig_acquire(&rig, "u", "t2", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    rig_list(&rig, false, NULL, 0);
    a = rig_acquire(&rig, "u", "t3", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    rig_list(&rig, true, NULL, 0);
    a = rig_acquire(&rig, "u", "t4", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig.facts[POOL_FACT_BREAKER_CLOSED], 1);
}

static void test_breaker(void **state)
{
    struct pool_profile_view v;
    uint64_t a;

    (void) state;
    rig.config.profiles[0].create_max = 1;
    rig.fail_create = true;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", 60 * NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 1); /* not again at once */
    rig_advance(&rig, 30 * NS_PER_S);
    pool_get_profile(rig.pool, rig.now_ns, 0, &v);
    assert_true(v.is_open);
    assert_true(v.is_trial_due);
    assert_string_equal(v.reason, "no such image");
    assert_int_equal(rig.facts[POOL_FACT_BREAKER_OPEN], 1);
    /* Refused when the circuit opened, long before its deadline; nobody waits, so nothing is
     * tried. */
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 3);
    /* The next try is due: the first caller waits for it, and is refused when it fails. */
    a = rig_acquire(&rig, "u", "t2", 60 * NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 4);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    /* Impossible until the next try: refused at once, with the time to come back. */
    a = rig_acquire(&rig, "u", "t3", 60 * NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 4);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    assert_string_equal(rig_reply(&rig, a)->reason, "no such image");
    assert_true(rig_reply(&rig, a)->u.reply.retry_after_ns > 0);
    pool_get_profile(rig.pool, rig.now_ns, 0, &v);
    assert_false(v.is_trial_due);
    rig.fail_create = false;
    rig_advance(&rig, 11 * NS_PER_S);
    a = rig_acquire(&rig, "u", "t4", 60 * NS_PER_S);
    pool_get_profile(rig.pool, rig.now_ns, 0, &v);
    assert_false(v.is_open);
    assert_int_equal(v.failures, 0);
    assert_int_equal(rig.facts[POOL_FACT_BREAKER_CLOSED], 1);
    assert_int_equal(rig_code(&rig, a), SP_OK);
}

static void test_half_open_tries_one(void **state)
{
    (void) state;
    rig.config.profiles[0].warm_min = 4;
    rig.fail_create = true;
    rig_start(&rig);
    rig_advance(&rig, NS_PER_S);
    rig.hold.create = true;
    rig_advance(&rig, 20 * NS_PER_S);
    assert_int_equal(rig_count(&rig, POOL_CREATING), 1);
    rig.fail_create = false;
    assert_true(rig_answer(&rig, POOL_FX_CREATE, true));
    assert_int_equal(rig_count(&rig, POOL_CREATING), 3); /* closed: all that are missing */
}

static void test_creates_are_capped(void **state)
{
    (void) state;
    rig.config.profiles[0].warm_min = 8;
    rig.config.profiles[0].create_max = 3;
    rig.hold.create = true;
    rig_start(&rig);
    assert_int_equal(rig_count(&rig, POOL_CREATING), 3);
    assert_true(rig_answer(&rig, POOL_FX_CREATE, true));
    assert_int_equal(rig_count(&rig, POOL_CREATING), 3);
}

static void test_target_follows_arrivals(void **state)
{
    struct pool_profile_view v;

    (void) state;
    rig.config.max_boxes = 60;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[0].warm_max = 6;
    rig.config.profiles[0].shrink_ns = NS_PER_S;
    rig.hold.create = true;
    rig_start(&rig);
    for (int i = 0; i < 40; i++) {
        char who[16];

        snprintf(who, sizeof(who), "t%d", i);
        (void) rig_acquire(&rig, "u", who, 60 * NS_PER_S);
        rig_advance(&rig, 250 * NS_PER_MS);
        for (size_t n = rig.held_count; i % 4 == 3 && n > 0; n--)
            assert_true(rig_answer(&rig, POOL_FX_CREATE, true));
    }
    pool_get_profile(rig.pool, rig.now_ns, 0, &v);
    assert_true(v.target > 1);
    assert_true(v.arrivals_per_s > 1.5 && v.arrivals_per_s < 4);
    rig.hold.create = false;
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    rig_advance(&rig, 300 * NS_PER_S); /* quiet again: the surplus goes */
    pool_get_profile(rig.pool, rig.now_ns, 0, &v);
    assert_int_equal(v.target, 1);
    assert_int_equal(v.by_state[POOL_BLANK], 1);
}

static void test_drift(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &rig.config};

    (void) state;
    rig.config.profiles[0].warm_min = 3;
    rig_start(&rig);
    rig.config.profiles[0].spec_hash = 2;
    rig.hold.create = true;
    rig_send(&rig, &ev);
    assert_int_equal(rig_count(&rig, POOL_CREATING), 1); /* one at a time */
    assert_int_equal(rig_count(&rig, POOL_BLANK), 3);    /* none goes before */
    assert_true(rig_answer(&rig, POOL_FX_CREATE, true));
    assert_int_equal(rig_count(&rig, POOL_BLANK), 3);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 1);
    rig.hold.create = false;
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 3);
    for (size_t i = 0; i < pool_slot_count(rig.pool); i++)
        if (pool_slot(rig.pool, i) != NULL)
            assert_true(pool_slot(rig.pool, i)->spec_hash == 2);
}

static void test_drain(void **state)
{
    uint64_t waiting;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", 0);
    (void) rig_acquire(&rig, "u", "t2", 0);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t2", 0, false);
    rig.hold.create = true;
    (void) rig_acquire(&rig, "u", "t3", 0);
    (void) rig_acquire(&rig, "u", "t4", NS_PER_S);
    waiting = rig_acquire(&rig, "u", "t5", NS_PER_S);
    rig_mode(&rig, POOL_DRAINING, false);
    assert_int_equal(rig_code(&rig, waiting), SP_DRAINING);
    rig.hold.create = false;
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 0);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 1);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t6", NS_PER_S)), SP_DRAINING);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t2", NS_PER_S)), SP_DRAINING);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t1", 0)), SP_OK); /* kept */
    rig_mode(&rig, POOL_DRAINING, true);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 0);
    assert_true(rig.writes[POOL_WRITE_MODE] == 2);
    rig_mode(&rig, POOL_RUNNING, false);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 1);
}

static void test_pause(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", 0);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    rig_mode(&rig, POOL_PAUSED, false);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t3", 0)), SP_PAUSED);
    a = rig_acquire(&rig, "u", "t1", 60 * NS_PER_S); /* parked box */
    b = rig_acquire(&rig, "u", "t2", 60 * NS_PER_S); /* blank box */
    assert_int_equal(rig_code(&rig, a), -1000);
    assert_int_equal(rig_code(&rig, b), -1000);
    rig_mode(&rig, POOL_RUNNING, false);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_code(&rig, b), SP_OK);
}

static void test_removed_profile(void **state)
{
    struct pool_config smaller;
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &smaller};
    struct pool_acquire other = {.profile = 1};

    (void) state;
    rig.config.profile_count = 2;
    rig.config.profiles[1] = rig.config.profiles[0];
    memcpy(rig.config.profiles[1].name, "other", 6);
    rig.config.profiles[1].warm_min = 2;
    rig_start(&rig);
    (void) rig_acquire_with(&rig, "u", "t1", 0, &other);
    smaller = rig.config;
    smaller.profile_count = 1;
    rig_send(&rig, &ev);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 0);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED); /* leases live on */
    assert_int_equal(rig_code(&rig, rig_acquire_with(&rig, "u", "t2", NS_PER_S, &other)),
                     SP_NOT_FOUND);
    smaller.profiles[1] = smaller.profiles[0];
    memcpy(smaller.profiles[1].name, "third", 6);
    smaller.profile_count = 2;
    rig_send(&rig, &ev);
    assert_int_equal(pool_profile_index(rig.pool, "default"), 0);
    assert_int_equal(pool_profile_index(rig.pool, "third"), 2); /* 1 still has a box */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target),
        cmocka_unit_test(test_plan),
        cmocka_unit_test_setup_teardown(test_eviction, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_eviction_counts_the_dying, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_blank_of_another_profile, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_breaker, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_backend_is_back, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_half_open_tries_one, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_creates_are_capped, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_target_follows_arrivals, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_drift, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_drain, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_pause, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_removed_profile, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
