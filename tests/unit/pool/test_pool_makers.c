/* test_pool_makers.c - how many boxes are made at once with what one caller asked for. */
#include <stdio.h>

#include "rig.h"

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
    rig.config.max_boxes = 20;
    rig.config.profiles[0].create_max = 4;
    rig.hold.create = true;
    rig_start(&rig);
    for (unsigned i = 0; i < 6; i++) {
        (void) snprintf(who, sizeof(who), "m%u", i);
        reqs[i] = rig_acquire_with(&rig, "u", who, 60 * NS_PER_S, &mine);
    }
    assert_int_equal(rig.effects[POOL_FX_CREATE], 3); /* also while nobody else waits */
    a = rig_acquire_with(&rig, "u", "plain", 60 * NS_PER_S, &plain);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 4);
    rig_abandon(&rig, a);
    for (unsigned i = 0; i < 3; i++) /* whoever hangs up leaves the creates that have begun */
        rig_abandon(&rig, reqs[i]);
    (void) rig_acquire_with(&rig, "u", "again", 60 * NS_PER_S, &mine);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 4);
    a = rig_acquire_with(&rig, "u", "theirs", 60 * NS_PER_S, &theirs); /* behind those of 1 */
    rig.hold.destroy = true;
    for (unsigned i = 0; i < 3; i++)
        assert_true(rig_answer(&rig, POOL_FX_CREATE, true));
    assert_int_equal(rig.effects[POOL_FX_CREATE], 7); /* that of 3, and two of 1 */
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    for (unsigned i = 3; i < 6; i++)
        assert_int_equal(rig_code(&rig, reqs[i]), SP_OK);
}

/* The one at its limit is passed over, not waited for; what it left free is no reason to end a box. */
static void test_the_next_principal_is_served(void **state)
{
    struct pool_acquire mine = {.is_special = true, .made_with = 7, .principal = 1};
    struct pool_acquire theirs = {.is_special = true, .made_with = 8, .principal = 2};
    uint64_t a;

    (void) state;
    rig.config.max_boxes = 3;
    rig.config.profiles[0].create_max = 2;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "parked", NS_PER_S);
    (void) rig_on(&rig, POOL_EV_RELEASE, "parked", 0, false);
    rig.hold.create = true;
    (void) rig_acquire_with(&rig, "u", "m1", 60 * NS_PER_S, &mine);
    (void) rig_acquire_with(&rig, "u", "m2", 60 * NS_PER_S, &mine);
    (void) rig_acquire_with(&rig, "u", "m3", 60 * NS_PER_S, &mine);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 2);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 1);
    a = rig_acquire_with(&rig, "u", "t1", 60 * NS_PER_S, &theirs);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 3);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_CREATING);
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig_code(&rig, a), SP_OK);
}

/* Boxes that only have to become ready hold a place, too: their files decide how long that takes. */
static void test_starting_boxes_count(void **state)
{
    struct pool_acquire mine = {.is_special = true, .made_with = 7, .principal = 1};

    (void) state;
    rig.config.profiles[0].create_max = 3;
    rig.hold.probe = true;
    rig_start(&rig);
    (void) rig_acquire_with(&rig, "u", "m1", 60 * NS_PER_S, &mine);
    (void) rig_acquire_with(&rig, "u", "m2", 60 * NS_PER_S, &mine);
    (void) rig_acquire_with(&rig, "u", "m3", 60 * NS_PER_S, &mine);
    assert_int_equal(rig_count(&rig, POOL_STARTING), 2);
    rig_answer_all(&rig, POOL_FX_PROBE, true);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_principal_leaves_a_place, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_next_principal_is_served, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_starting_boxes_count, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
