/* test_pool_stale.c - rows of what may be an older copy of the database. */
#include <stdio.h>

#include "rig.h"

static struct rig rig;

static int setup(void **state)
{
    (void) state;
    rig_init(&rig);
    rig.pool = pool_new(&rig.config);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    rig_stop(&rig);
    return 0;
}

static struct pool_box row_of(uint64_t id, enum pool_state state, const char *who)
{
    struct pool_box row = {.id = {id}, .state = state, .spec_hash = 1};

    row.expires_ns = POOL_NEVER;
    row.idle_ns = POOL_NEVER;
    row.created_ns = 900 * NS_PER_S;
    row.parked_ns = 990 * NS_PER_S;
    row.active_ns = 990 * NS_PER_S;
    if (who != NULL) {
        snprintf(row.sandbox_id, sizeof(row.sandbox_id), "s-%s", who);
        snprintf(row.thread, sizeof(row.thread), "%s", who);
        snprintf(row.user, sizeof(row.user), "u");
        row.generation = 3;
    }
    return row;
}

static struct pool_seen seen_of(uint64_t id, const char *who)
{
    struct pool_seen seen = {.id = {id}, .profile = "default", .spec_hash = 1};

    snprintf(seen.ref, sizeof(seen.ref), "ref-%llu", (unsigned long long) id);
    if (who != NULL) {
        snprintf(seen.sandbox_id, sizeof(seen.sandbox_id), "s-%s", who);
        snprintf(seen.thread, sizeof(seen.thread), "%s", who);
        snprintf(seen.user, sizeof(seen.user), "u");
        seen.generation = 3;
    }
    return seen;
}

static enum pool_state state_of(uint64_t id)
{
    const struct pool_box *b = pool_find_box(rig.pool, (struct box_id){id});

    return b != NULL ? b->state : POOL_FREE;
}

/* The old row has an owner whose lease was undone, the labels have another one. */
static void test_stale_lease(void **state)
{
    struct pool_seen seen[] = {seen_of(1, "t1"), seen_of(2, "t9")};
    struct pool_box row;
    uint64_t a;

    (void) state;
    for (uint64_t i = 1; i <= 2; i++) {
        row = row_of(i, POOL_LEASED, i == 1 ? "t1" : "t2");
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
    assert_int_equal(state_of(2), POOL_FREE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stale_lease, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
