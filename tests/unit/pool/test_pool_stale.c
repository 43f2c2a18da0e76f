/* test_pool_stale.c - rows of what may be an older copy of the database. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stale_lease, setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
