/* test_pool_stale.c - rows that are no longer true: of an older copy of the database, or not removed in time. */
#include <stdio.h>

#include "fixture.h"

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.pool = pool_new(&fixture.config);
    return 0;
}

/* The old row has an owner whose lease was undone, the labels have another one. */
static void test_stale_lease(void **state)
{
    struct pool_seen seen[] = {fixture_seen(1, "t1"), fixture_seen(2, "t9")};
    struct pool_box row;
    uint64_t a;

    (void) state;
    for (uint64_t i = 1; i <= 2; i++) {
        row = fixture_row(i, POOL_LEASED, i == 1 ? "t1" : "t2");
        row.is_stale = true;
        assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
        assert_false(pool_is_shown(pool_find_box(fixture.pool, (struct box_id){i})));
    }
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t2", 0, false);
    assert_false(pool_is_shown(pool_find_box(fixture.pool, (struct box_id){2})));
    fixture_advance(&fixture, NS_PER_S);
    fixture_list(&fixture, true, seen, 2);
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_KEPT);
    assert_int_equal(fixture_state(&fixture, 2), POOL_FREE);
}

/* The row of a box that was never made may outlive this process, if its removal cannot be written: the next lease of the
 * id must be newer than it, or the next restart takes the row for the successor of the lease. */
static void test_newer_than_an_intent(void **state)
{
    struct pool_box intent = fixture_row(1, POOL_INTENT, "t1");
    struct pool_box lease;
    uint64_t a;

    (void) state;
    pool_restore_past(fixture.pool, "s-t1", 2, POOL_END_DIED, 0);
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &intent));
    fixture_start(&fixture);
    fixture_advance(&fixture, NS_PER_MS);
    fixture.verdict = POOL_ABSENT;
    fixture_list(&fixture, true, NULL, 0);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(pool_find_past(fixture.pool, "s-t1", NULL, NULL), POOL_END_DIED);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    lease = fixture_reply(&fixture, a)->snapshot;
    assert_true(lease.generation > intent.generation);
    fixture_stop(&fixture);
    (void) setup(NULL);
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &lease));
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &intent));
    assert_true(fixture_box(&fixture, "t1")->id.v == lease.id.v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stale_lease, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_newer_than_an_intent, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
