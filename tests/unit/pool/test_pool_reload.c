/* test_pool_reload.c - profiles are added and removed while their acquires wait: nobody gets a box
 * of another profile because the index of its own was reused. */
#include <stdio.h>

#include "rig.h"

static int setup(void **state)
{
    (void) state;
    rig_init(&rig);
    rig.config.profile_count = 2;
    rig.config.profiles[1] = rig.config.profiles[0];
    snprintf(rig.config.profiles[1].name, sizeof(rig.config.profiles[1].name), "old");
    rig.config.profiles[1].want_discover = true;
    return 0;
}

/* "old" is replaced by "new". */
static void reload(void)
{
    static struct pool_config config;
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &config};

    config = rig.config;
    snprintf(config.profiles[1].name, sizeof(config.profiles[1].name), "new");
    config.profiles[1].want_discover = false;
    rig_send(&rig, &ev);
    assert_true(pool_profile_index(rig.pool, "new") >= 0);
}

static const struct pool_acquire named = {.profile = 1, .is_profile_named = true};
static const struct pool_acquire unnamed = {.profile = 1};

static void test_while_the_backend_is_asked(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    rig_start(&rig);
    rig.hold.discover = true;
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &named);
    b = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &unnamed); /* joins it */
    reload();
    assert_true(rig_answer(&rig, POOL_FX_DISCOVER, true));
    assert_int_equal(rig_code(&rig, a), SP_NOT_FOUND);
    assert_int_equal(rig_code(&rig, b), SP_NOT_FOUND);
    assert_null(rig_box(&rig, "t1"));
    a = rig_acquire_with(
        &rig, "u", "t2", NS_PER_S,
        &(struct pool_acquire){.profile = (unsigned) pool_profile_index(rig.pool, "new")});
    assert_int_equal(rig_code(&rig, a), SP_OK);
}

/* It waits for the box of its thread, of whatever profile; that box dies. */
static void test_while_a_box_is_waited_for(void **state)
{
    struct pool_acquire special = {.is_special = true};
    uint64_t a;
    uint64_t b;

    (void) state;
    rig_start(&rig);
    rig.hold.create = true;
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &special);
    b = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &unnamed);
    rig_abandon(&rig, a);
    assert_int_equal(rig_code(&rig, b), -1000);
    reload();
    rig_answer_all(&rig, POOL_FX_CREATE, false);
    assert_int_equal(rig_code(&rig, b), SP_NOT_FOUND);
}

/* The index is reused when no acquire refers to the old profile any more. */
static void test_places_are_used_again(void **state)
{
    (void) state;
    rig_start(&rig);
    rig.hold.discover = true;
    for (unsigned i = 0; i < 2 * POOL_PROFILES_MAX; i++) {
        static struct pool_config config;
        struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &config};

        config = rig.config;
        snprintf(config.profiles[1].name, sizeof(config.profiles[1].name), "p%u", i);
        rig_send(&rig, &ev);
        assert_true(pool_profile_index(rig.pool, config.profiles[1].name) >= 0);
        (void) rig_acquire_with(&rig, "u", "t", NS_PER_S,
                                &(struct pool_acquire){.profile = (unsigned) pool_profile_index(
                                                           rig.pool, config.profiles[1].name)});
        rig_answer_all(&rig, POOL_FX_DISCOVER, true);
        (void) rig_on(&rig, POOL_EV_DESTROY, "t", 0, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_while_the_backend_is_asked, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_while_a_box_is_waited_for, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_places_are_used_again, setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
