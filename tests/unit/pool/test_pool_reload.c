/* test_pool_reload.c - profiles are added and removed while their acquires wait: nobody gets a box
 * of another profile because the index of its own was reused. */
#include <stdio.h>

#include "fixture.h"

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.profile_count = 2;
    fixture.config.profiles[1] = fixture.config.profiles[0];
    snprintf(fixture.config.profiles[1].name, sizeof(fixture.config.profiles[1].name), "old");
    fixture.config.profiles[1].want_discover = true;
    return 0;
}

/* "old" is replaced by "new". */
static void reload(void)
{
    static struct pool_config config;
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &config};

    config = fixture.config;
    snprintf(config.profiles[1].name, sizeof(config.profiles[1].name), "new");
    config.profiles[1].want_discover = false;
    fixture_send(&fixture, &ev);
    assert_true(pool_profile_index(fixture.pool, "new") >= 0);
}

static const struct pool_acquire named = {.profile = 1, .is_profile_named = true};
static const struct pool_acquire unnamed = {.profile = 1};

static void test_while_the_backend_is_asked(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture_start(&fixture);
    fixture.hold.discover = true;
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &named);
    b = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &unnamed); /* joins it */
    reload();
    assert_true(fixture_answer(&fixture, POOL_FX_DISCOVER, true));
    assert_int_equal(fixture_code(&fixture, a), SP_NOT_FOUND);
    assert_int_equal(fixture_code(&fixture, b), SP_NOT_FOUND);
    assert_null(fixture_box(&fixture, "t1"));
    a = fixture_acquire_with(
        &fixture, "u", "t2", NS_PER_S,
        &(struct pool_acquire){.profile = (unsigned) pool_profile_index(fixture.pool, "new")});
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

/* It waits for the box of its thread, of whatever profile; that box dies. */
static void test_while_a_box_is_waited_for(void **state)
{
    struct pool_acquire special = {.is_special = true};
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture_start(&fixture);
    fixture.hold.create = true;
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &special);
    b = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &unnamed);
    fixture_abandon(&fixture, a);
    assert_int_equal(fixture_code(&fixture, b), -1000);
    reload();
    fixture_answer_all(&fixture, POOL_FX_CREATE, false);
    assert_int_equal(fixture_code(&fixture, b), SP_NOT_FOUND);
}

/* The index is reused when no acquire refers to the old profile any more. */
static void test_places_are_used_again(void **state)
{
    (void) state;
    fixture_start(&fixture);
    fixture.hold.discover = true;
    for (unsigned i = 0; i < 2 * POOL_PROFILES_MAX; i++) {
        static struct pool_config config;
        struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &config};

        config = fixture.config;
        snprintf(config.profiles[1].name, sizeof(config.profiles[1].name), "p%u", i);
        fixture_send(&fixture, &ev);
        assert_true(pool_profile_index(fixture.pool, config.profiles[1].name) >= 0);
        (void) fixture_acquire_with(
            &fixture, "u", "t", NS_PER_S,
            &(struct pool_acquire){
                .profile = (unsigned) pool_profile_index(fixture.pool, config.profiles[1].name)});
        fixture_answer_all(&fixture, POOL_FX_DISCOVER, true);
        (void) fixture_on(&fixture, POOL_EV_DESTROY, "t", 0, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_while_the_backend_is_asked, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_while_a_box_is_waited_for, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_places_are_used_again, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
