/* test_pool_disk.c - a disk without space, and one that cannot be written: existing boxes can be
 * destroyed, new ones have to wait, and callers get the reason. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

static void set_space(bool is_low)
{
    struct pool_event ev = {.kind = POOL_EV_SPACE, .u.space.is_low = is_low};

    snprintf(ev.u.space.reason, sizeof(ev.u.space.reason), "free space is 1 MB");
    fixture_send(&fixture, &ev);
}

static void test_no_new_box_below_the_floor(void **state)
{
    struct pool_profile_view view;
    uint64_t waiting;
    uint64_t next;

    (void) state;
    fixture.hold.create = true;
    fixture_start(&fixture);
    waiting = fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S);
    set_space(true);
    assert_int_equal(fixture_code(&fixture, waiting),
                     SP_BACKEND_UNAVAILABLE); /* not at its deadline */
    assert_string_equal(fixture_reply(&fixture, waiting)->reason, "free space is 1 MB");
    next = fixture_acquire(&fixture, "u", "t2", 60 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, next), SP_BACKEND_UNAVAILABLE);
    assert_true(fixture_reply(&fixture, next)->u.reply.retry_after_ns > 0);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1);
    assert_int_equal(fixture.facts[POOL_FACT_DISK_LOW], 1);
    pool_get_profile(fixture.pool, fixture.now_ns, 0, &view);
    assert_string_equal(view.reason, "free space is 1 MB");
    assert_int_equal(view.failures, 0); /* the backend has nothing to do with it */
    set_space(false);
    assert_int_equal(fixture.facts[POOL_FACT_DISK_OK], 1);
    fixture.hold.create = false;
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t3", 60 * NS_PER_S)),
                     SP_OK);
}

static void test_boxes_that_exist_go_on(void **state)
{
    (void) state;
    fixture.config.profiles[0].warm_min = 2;
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", 0)), SP_OK);
    set_space(true);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t2", 0)),
                     SP_OK); /* was warm */
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", 0)),
                     SP_OK); /* has one */
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false)),
                     SP_OK);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", 0)),
                     SP_OK); /* its parked one */
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_DESTROY, "t2", 0, false)),
                     SP_OK);
    set_space(false);
}

/* An intent that was being written when space ran out makes no box. */
static void test_intents_are_given_up(void **state)
{
    uint64_t a;

    (void) state;
    fixture.hold.store = true;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S);
    set_space(true);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 0);
    assert_int_equal(fixture_count(&fixture, POOL_INTENT), 0);
}

/* A caller can destroy its box even if nothing can be recorded. */
static void test_destroy_without_a_store(void **state)
{
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
    fixture_store(&fixture, false);
    fixture.hold.destroy = true;
    a = fixture_on(&fixture, POOL_EV_DESTROY, "t1", 0, false);
    assert_int_equal(fixture_code(&fixture, a), -1000); /* not before it is gone */
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, true));
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_count(&fixture, POOL_FORGETTING), 1); /* its row is still there */
    fixture_store(&fixture, true);
    assert_int_equal(fixture_count(&fixture, POOL_FORGETTING), 0);
    assert_int_equal(fixture.writes[POOL_WRITE_FORGET], 1);
}

/* The same for a release that would not park, and for a commit that fails under way. */
static void test_release_to_destroy_without_a_store(void **state)
{
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t2", NS_PER_S)), SP_OK);
    fixture.hold.store = true;
    a = fixture_on(&fixture, POOL_EV_DESTROY, "t1", 0, false);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    fixture_store(&fixture, false);
    a = fixture_on(&fixture, POOL_EV_RELEASE, "t2", 0, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    fixture_store(&fixture, true);
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_FORGETTING), 0);
}

/* The box still exists when the store is back: its row is corrected before its id can be used
 * again. */
static void test_the_row_follows(void **state)
{
    (void) state;
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
    fixture_store(&fixture, false);
    fixture.hold.destroy = true;
    (void) fixture_on(&fixture, POOL_EV_DESTROY, "t1", 0, false);
    assert_int_equal(fixture.writes[POOL_WRITE_DELETING], 0);
    fixture_store(&fixture, true);
    assert_int_equal(fixture.writes[POOL_WRITE_DELETING], 1);
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
    fixture_answer_all(&fixture, POOL_FX_DESTROY, true);
    assert_int_equal(fixture.writes[POOL_WRITE_FORGET], 1);
}

/* An end that nobody requested waits: an expired box stays until its end is recorded. */
static void test_other_ends_wait_for_the_store(void **state)
{
    (void) state;
    fixture.config.profiles[0].ttl_ns = NS_PER_S;
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
    fixture_store(&fixture, false);
    fixture_advance(&fixture, 5 * NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_DOOMED), 1);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
    fixture_store(&fixture, true);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
}

/* A disk that hangs: no caller waits longer than it requested. */
static void test_a_commit_that_hangs(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture.config.profiles[0].warm_min = 2;
    fixture_start(&fixture);
    fixture.hold.store = true;
    a = fixture_acquire(&fixture, "u", "t1", 3 * NS_PER_S);
    b = fixture_acquire(&fixture, "u", "t2", 0); /* does not wait for a box, only for the disk */
    fixture_advance(&fixture, 999 * NS_PER_MS);
    assert_int_equal(fixture_code(&fixture, b), -1000);
    fixture_advance(&fixture, 2 * NS_PER_MS);
    assert_int_equal(fixture_code(&fixture, b), SP_STORE_UNAVAILABLE);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
    /* The commits succeed in the end, but nobody waits for them: as if the callers had
     * disconnected. */
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 2); /* others were made in their place */
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t3", 0)), SP_OK);
}

/* Kept leases stay unchanged, with the deadline that is known to be stored. */
static void test_a_kept_lease_while_the_disk_hangs(void **state)
{
    uint64_t a;
    uint64_t was_ns;

    (void) state;
    fixture.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
    was_ns = fixture_box(&fixture, "t1")->expires_ns;
    fixture.hold.store = true;
    fixture_advance(&fixture, 10 * NS_PER_S);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture_advance(&fixture, 1100 * NS_PER_MS);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(fixture_reply(&fixture, a)->snapshot.expires_ns == was_ns);
    fixture_answer_all(&fixture, POOL_FX_STORE, true); /* it was stored after all */
    assert_true(fixture_box(&fixture, "t1")->expires_ns > was_ns);
}

/* The store reports that the disk hangs: all callers are answered then, also those without a
 * deadline. */
static void test_nobody_waits_for_a_store_that_hangs(void **state)
{
    struct pool_event down = {.kind = POOL_EV_STORE_STATE, .u.is_store_up = false};
    uint64_t released;
    uint64_t renewed;
    uint64_t destroyed;
    uint64_t acquired;

    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t3", NS_PER_S);
    fixture.hold.store = true;
    released = fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    renewed = fixture_on(&fixture, POOL_EV_RENEW, "t2", 0, false);
    destroyed = fixture_on(&fixture, POOL_EV_DESTROY, "t3", 0, false);
    acquired = fixture_acquire(&fixture, "u", "t4", 600 * NS_PER_S);
    fixture_send(&fixture, &down);
    assert_int_equal(fixture_code(&fixture, released), SP_STORE_UNAVAILABLE);
    assert_int_equal(fixture_code(&fixture, renewed), SP_STORE_UNAVAILABLE);
    assert_int_equal(fixture_code(&fixture, destroyed), SP_OK); /* it is gone */
    assert_int_equal(fixture_code(&fixture, acquired), SP_STORE_UNAVAILABLE);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    fixture_store(&fixture, true);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    assert_int_equal(fixture_box(&fixture, "t2")->state, POOL_LEASED);
    assert_null(fixture_box(&fixture, "t3"));
    assert_int_equal(fixture_count(&fixture, POOL_FORGETTING), 0);
}

/* The box is released before the renewal is stored, and a parked box does not end by the lease's
 * deadline. */
static void test_a_renewal_that_a_release_follows(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_RENEW};
    uint64_t renewed;
    uint64_t released;

    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = true;
    fixture.req++;
    renewed = fixture.req;
    ev.req.v = renewed;
    ev.u.on.ttl_ns = NS_PER_S;
    snprintf(ev.u.on.sandbox_id, sizeof(ev.u.on.sandbox_id), "s-t1");
    fixture_send(&fixture, &ev);
    released = fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    fixture_advance(&fixture, 2 * NS_PER_S);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    assert_int_equal(fixture_code(&fixture, released), SP_OK);
    assert_int_equal(fixture_code(&fixture, renewed), SP_OK);
}

/* Its reply was not delivered, so it is parked; but a crash restores the lease while it is in the
 * row. */
static void test_a_release_of_a_box_that_is_parked_already(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_UNDELIVERED};
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    ev.box = fixture_reply(&fixture, a)->box;
    ev.epoch = fixture_reply(&fixture, a)->snapshot.epoch;
    fixture.hold.store = true;
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    a = fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    fixture_answer_all(&fixture, POOL_FX_STORE, false);
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    a = fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    a = fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0,
                   false); /* there is nothing to wait for any more */
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_no_new_box_below_the_floor),
        TEST(test_boxes_that_exist_go_on),
        TEST(test_intents_are_given_up),
        TEST(test_destroy_without_a_store),
        TEST(test_release_to_destroy_without_a_store),
        TEST(test_the_row_follows),
        TEST(test_other_ends_wait_for_the_store),
        TEST(test_a_commit_that_hangs),
        TEST(test_a_kept_lease_while_the_disk_hangs),
        TEST(test_nobody_waits_for_a_store_that_hangs),
        TEST(test_a_renewal_that_a_release_follows),
        TEST(test_a_release_of_a_box_that_is_parked_already),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
