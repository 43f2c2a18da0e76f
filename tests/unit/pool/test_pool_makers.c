/* test_pool_makers.c - how many boxes are made at once with what one caller asked for. */
#include <stdio.h>

#include "fixture.h"

/* A caller chooses what its own boxes are made from, and so how long that takes: it never has all places. */
static void test_one_principal_leaves_a_place(void **state)
{
    struct pool_acquire mine = {.is_special = true, .made_with = 7, .principal = 1};
    struct pool_acquire plain = {.principal = 2};
    struct pool_acquire theirs = {.is_special = true, .made_with = 8, .principal = 3};
    uint64_t reqs[6];
    char who[8];
    uint64_t a;

    (void) state;
    fixture.config.max_boxes = 20;
    fixture.config.profiles[0].create_max = 4;
    fixture.hold.create = true;
    fixture_start(&fixture);
    for (unsigned i = 0; i < 6; i++) {
        (void) snprintf(who, sizeof(who), "m%u", i);
        reqs[i] = fixture_acquire_with(&fixture, "u", who, 60 * NS_PER_S, &mine);
    }
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 3); /* also while nobody else waits */
    a = fixture_acquire_with(&fixture, "u", "plain", 60 * NS_PER_S, &plain);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 4);
    fixture_abandon(&fixture, a);
    for (unsigned i = 0; i < 3; i++) /* whoever hangs up leaves the creates that have begun */
        fixture_abandon(&fixture, reqs[i]);
    (void) fixture_acquire_with(&fixture, "u", "again", 60 * NS_PER_S, &mine);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 4);
    a = fixture_acquire_with(&fixture, "u", "theirs", 60 * NS_PER_S,
                             &theirs); /* behind those of 1 */
    fixture.hold.destroy = true;
    for (unsigned i = 0; i < 3; i++)
        assert_true(fixture_answer(&fixture, POOL_FX_CREATE, true));
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 7); /* that of 3, and two of 1 */
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    for (unsigned i = 3; i < 6; i++)
        assert_int_equal(fixture_code(&fixture, reqs[i]), SP_OK);
}

/* The one at its limit is passed over, not waited for; what it left free is no reason to end a box. */
static void test_the_next_principal_is_served(void **state)
{
    struct pool_acquire mine = {.is_special = true, .made_with = 7, .principal = 1};
    struct pool_acquire theirs = {.is_special = true, .made_with = 8, .principal = 2};
    uint64_t a;

    (void) state;
    fixture.config.max_boxes = 3;
    fixture.config.profiles[0].create_max = 2;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "parked", NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "parked", 0, false);
    fixture.hold.create = true;
    (void) fixture_acquire_with(&fixture, "u", "m1", 60 * NS_PER_S, &mine);
    (void) fixture_acquire_with(&fixture, "u", "m2", 60 * NS_PER_S, &mine);
    (void) fixture_acquire_with(&fixture, "u", "m3", 60 * NS_PER_S, &mine);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 2);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 1);
    a = fixture_acquire_with(&fixture, "u", "t1", 60 * NS_PER_S, &theirs);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 3);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_CREATING);
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

/* Boxes that only have to become ready hold a place, too: their files decide how long that takes. */
static void test_starting_boxes_count(void **state)
{
    struct pool_acquire mine = {.is_special = true, .made_with = 7, .principal = 1};

    (void) state;
    fixture.config.profiles[0].create_max = 3;
    fixture.hold.probe = true;
    fixture_start(&fixture);
    (void) fixture_acquire_with(&fixture, "u", "m1", 60 * NS_PER_S, &mine);
    (void) fixture_acquire_with(&fixture, "u", "m2", 60 * NS_PER_S, &mine);
    (void) fixture_acquire_with(&fixture, "u", "m3", 60 * NS_PER_S, &mine);
    assert_int_equal(fixture_count(&fixture, POOL_STARTING), 2);
    fixture_answer_all(&fixture, POOL_FX_PROBE, true);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_principal_leaves_a_place, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_next_principal_is_served, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_starting_boxes_count, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
