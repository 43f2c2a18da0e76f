/* test_pool_stale.c - rows that are no longer true: of an older copy of the database, or not removed in time. */
#include <stdio.h>

#include "rig.h"

static int setup(void **state)
{
    (void) state;
    rig_init(&rig);
    rig.pool = pool_new(&rig.config);
    return 0;
}

/* The old row has an owner whose lease was undone, the labels have another one. */
static void test_stale_lease(void **state)
{
    struct pool_seen seen[] = {rig_seen(1, "t1"), rig_seen(2, "t9")};
    struct pool_box row;
    uint64_t a;

    (void) state;
    for (uint64_t i = 1; i <= 2; i++) {
        row = rig_row(i, POOL_LEASED, i == 1 ? "t1" : "t2");
        row.is_stale = true;
        assert_true(pool_restore_box(rig.pool, rig.now_ns, &row));
        assert_false(pool_is_shown(pool_find_box(rig.pool, (struct box_id){i})));
    }
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t2", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t2", 0, false);
    assert_false(pool_is_shown(pool_find_box(rig.pool, (struct box_id){2})));
    rig_advance(&rig, NS_PER_S);
    rig_list(&rig, true, seen, 2);
    a = rig_acquire(&rig, "u", "t1", 0);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_KEPT);
    assert_int_equal(rig_state(&rig, 2), POOL_FREE);
}

/* The row of a box that was never made may outlive this process, if its removal cannot be written: the next lease of the
 * id must be newer than it, or the next restart takes the row for the successor of the lease. */
static void test_newer_than_an_intent(void **state)
{
    struct pool_box intent = rig_row(1, POOL_INTENT, "t1");
    struct pool_box lease;
    uint64_t a;

    (void) state;
    pool_restore_past(rig.pool, "s-t1", 2, POOL_END_DIED, 0);
    assert_true(pool_restore_box(rig.pool, rig.now_ns, &intent));
    rig_start(&rig);
    rig_advance(&rig, NS_PER_MS);
    rig.verdict = POOL_ABSENT;
    rig_list(&rig, true, NULL, 0);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(pool_find_past(rig.pool, "s-t1", NULL, NULL), POOL_END_DIED);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    lease = rig_reply(&rig, a)->snapshot;
    assert_true(lease.generation > intent.generation);
    rig_stop(&rig);
    (void) setup(NULL);
    assert_true(pool_restore_box(rig.pool, rig.now_ns, &lease));
    assert_true(pool_restore_box(rig.pool, rig.now_ns, &intent));
    assert_true(rig_box(&rig, "t1")->id.v == lease.id.v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stale_lease, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_newer_than_an_intent, setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
