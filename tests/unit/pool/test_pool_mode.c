/* test_pool_mode.c - one profile is paused or drained, the others go on. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "pool/internal.h"

/* Two profiles, with a box kept warm of each. */
static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.profile_count = 2;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[1] = fixture.config.profiles[0];
    memcpy(fixture.config.profiles[1].name, "other", 6);
    fixture_start(&fixture);
    return 0;
}

static void set_mode(unsigned profile, enum pool_mode mode, bool want_parked_gone)
{
    struct pool_event ev = {.kind = POOL_EV_MODE};

    ev.u.mode.mode = mode;
    ev.u.mode.is_profile = true;
    ev.u.mode.profile = profile;
    ev.u.mode.want_parked_gone = want_parked_gone;
    (void) snprintf(ev.u.mode.text, sizeof(ev.u.mode.text), "new cards today");
    fixture_send(&fixture, &ev);
}

static uint64_t acquire(unsigned profile, const char *thread, uint64_t wait_ns)
{
    struct pool_acquire more = {.profile = profile};

    return fixture_acquire_with(&fixture, "u", thread, wait_ns, &more);
}

static void test_drain(void **state)
{
    uint64_t waiting;
    uint64_t refused;

    (void) state;
    (void) acquire(1, "parked", 0);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "parked", 0, false);
    (void) acquire(1, "kept", 0);
    fixture.hold.create = true;
    (void) acquire(1, "last", 0);
    waiting = acquire(1, "w", NS_PER_S);
    set_mode(1, POOL_DRAINING, true);
    assert_int_equal(fixture_code(&fixture, waiting), SP_DRAINING);
    fixture.hold.create = false;
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 0);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 1); /* of the other profile */
    refused = acquire(1, "new", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, refused), SP_DRAINING);
    assert_string_equal(fixture_reply(&fixture, refused)->reason, "new cards today");
    assert_int_equal(fixture_code(&fixture, acquire(0, "other", 0)), SP_OK);
    assert_int_equal(fixture_code(&fixture, acquire(1, "kept", 0)), SP_OK); /* it has its box */
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "kept", 0, false);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 0);
    set_mode(1, POOL_RUNNING, false);
    assert_int_equal(fixture_code(&fixture, acquire(1, "again", NS_PER_S)), SP_OK);
}

static void test_drain_keeps_parked(void **state)
{
    uint64_t refused;

    (void) state;
    (void) acquire(1, "parked", 0);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "parked", 0, false);
    set_mode(1, POOL_DRAINING, false);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 1);
    refused = acquire(0, "parked", NS_PER_S); /* its box is of the profile that drains */
    assert_int_equal(fixture_code(&fixture, refused), SP_DRAINING);
}

static void test_pause(void **state)
{
    uint64_t waiting;

    (void) state;
    set_mode(1, POOL_PAUSED, false);
    waiting = acquire(1, "w", 5 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, acquire(0, "other", NS_PER_S)), SP_OK);
    assert_int_equal(fixture_code(&fixture, acquire(1, "now", 0)), SP_PAUSED);
    fixture_mode(&fixture, POOL_RUNNING, false); /* of the pool, which has nothing to do with it */
    assert_int_equal(fixture_code(&fixture, waiting), -1000); /* no answer yet */
    set_mode(1, POOL_RUNNING, false);
    assert_int_equal(fixture_code(&fixture, waiting), SP_OK);
}

/* The pool's own mode rules where it allows less. */
static void test_both(void **state)
{
    (void) state;
    set_mode(1, POOL_PAUSED, false);
    fixture_mode(&fixture, POOL_DRAINING, false);
    assert_int_equal(fixture_code(&fixture, acquire(1, "a", NS_PER_S)), SP_DRAINING);
    fixture_mode(&fixture, POOL_PAUSED, false);
    set_mode(1, POOL_RUNNING, false);
    assert_int_equal(fixture_code(&fixture, acquire(1, "b", 0)), SP_PAUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_drain, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_drain_keeps_parked, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_pause, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_both, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
