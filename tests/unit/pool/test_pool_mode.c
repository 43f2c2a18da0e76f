/* test_pool_mode.c - one profile is paused or drained, the others go on. */
#include <stdio.h>
#include <string.h>

#include "pool/internal.h"
#include "rig.h"

/* Two profiles, with a box kept warm of each. */
static int setup(void **state)
{
    (void) state;
    rig_init(&rig);
    rig.config.profile_count = 2;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[1] = rig.config.profiles[0];
    memcpy(rig.config.profiles[1].name, "other", 6);
    rig_start(&rig);
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
    rig_send(&rig, &ev);
}

static uint64_t acquire(unsigned profile, const char *thread, uint64_t wait_ns)
{
    struct pool_acquire more = {.profile = profile};

    return rig_acquire_with(&rig, "u", thread, wait_ns, &more);
}

static void test_drain(void **state)
{
    uint64_t waiting;
    uint64_t refused;

    (void) state;
    (void) acquire(1, "parked", 0);
    (void) rig_on(&rig, POOL_EV_RELEASE, "parked", 0, false);
    (void) acquire(1, "kept", 0);
    rig.hold.create = true;
    (void) acquire(1, "last", 0);
    waiting = acquire(1, "w", NS_PER_S);
    set_mode(1, POOL_DRAINING, true);
    assert_int_equal(rig_code(&rig, waiting), SP_DRAINING);
    rig.hold.create = false;
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 0);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 1); /* of the other profile */
    refused = acquire(1, "new", NS_PER_S);
    assert_int_equal(rig_code(&rig, refused), SP_DRAINING);
    assert_string_equal(rig_reply(&rig, refused)->reason, "new cards today");
    assert_int_equal(rig_code(&rig, acquire(0, "other", 0)), SP_OK);
    assert_int_equal(rig_code(&rig, acquire(1, "kept", 0)), SP_OK); /* it has its box */
    (void) rig_on(&rig, POOL_EV_RELEASE, "kept", 0, false);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 0);
    set_mode(1, POOL_RUNNING, false);
    assert_int_equal(rig_code(&rig, acquire(1, "again", NS_PER_S)), SP_OK);
}

static void test_drain_keeps_parked(void **state)
{
    uint64_t refused;

    (void) state;
    (void) acquire(1, "parked", 0);
    (void) rig_on(&rig, POOL_EV_RELEASE, "parked", 0, false);
    set_mode(1, POOL_DRAINING, false);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 1);
    refused = acquire(0, "parked", NS_PER_S); /* its box is of the profile that drains */
    assert_int_equal(rig_code(&rig, refused), SP_DRAINING);
}

static void test_pause(void **state)
{
    uint64_t waiting;

    (void) state;
    set_mode(1, POOL_PAUSED, false);
    waiting = acquire(1, "w", 5 * NS_PER_S);
    assert_int_equal(rig_code(&rig, acquire(0, "other", NS_PER_S)), SP_OK);
    assert_int_equal(rig_code(&rig, acquire(1, "now", 0)), SP_PAUSED);
    rig_mode(&rig, POOL_RUNNING, false); /* of the pool, which has nothing to do with it */
    assert_int_equal(rig_code(&rig, waiting), -1000); /* no answer yet */
    set_mode(1, POOL_RUNNING, false);
    assert_int_equal(rig_code(&rig, waiting), SP_OK);
}

/* The pool's own mode rules where it allows less. */
static void test_both(void **state)
{
    (void) state;
    set_mode(1, POOL_PAUSED, false);
    rig_mode(&rig, POOL_DRAINING, false);
    assert_int_equal(rig_code(&rig, acquire(1, "a", NS_PER_S)), SP_DRAINING);
    rig_mode(&rig, POOL_PAUSED, false);
    set_mode(1, POOL_RUNNING, false);
    assert_int_equal(rig_code(&rig, acquire(1, "b", 0)), SP_PAUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_drain, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_drain_keeps_parked, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_pause, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_both, setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
