/* test_pool_hibernate.c - boxes that become snapshots: when, whose, how often it is tried, and that an owner who comes back in
 * time gets its box. */
#include <string.h>

#include "rig.h"

static int setup(void **state)
{
    (void) state;
    rig_init(&rig);
    rig.config.profiles[0].idle_ns = 40 * NS_PER_S;
    rig.config.profiles[0].park_ns = 100 * NS_PER_S;
    rig.config.profiles[0].want_hibernate = true;
    rig.hold.hibernate = true;
    rig.use = POOL_USE_NONE;
    return 0;
}

static void lease(const char *who)
{
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", who, NS_PER_S)), SP_OK);
}

static void park(const char *who)
{
    lease(who);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, who, 0, false)), SP_OK);
}

static enum pool_end end_of(const char *sandbox_id)
{
    return pool_find_past(rig.pool, sandbox_id, NULL, NULL);
}

static void test_the_snapshot_comes_first(void **state)
{
    (void) state;
    rig_start(&rig);
    park("t1");
    rig_advance(&rig, 99 * NS_PER_S);
    assert_null(rig_held(&rig, POOL_FX_HIBERNATE));
    rig_advance(&rig, 2 * NS_PER_S);
    assert_non_null(rig_held(&rig, POOL_FX_HIBERNATE));
    rig_advance(&rig, 300 * NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 1);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 0);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true));
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 1);
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
}

static void test_the_owner_is_faster(void **state)
{
    struct box_id box;

    (void) state;
    rig_start(&rig);
    park("t1");
    box = rig_box(&rig, "t1")->id;
    rig_advance(&rig, 101 * NS_PER_S);
    assert_non_null(rig_held(&rig, POOL_FX_HIBERNATE));
    lease("t1");
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true)); /* too late */
    assert_int_equal(rig_box(&rig, "t1")->id.v, box.v);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 0);
}

static void test_failures(void **state)
{
    (void) state;
    rig_start(&rig);
    park("t1");
    rig_advance(&rig, 101 * NS_PER_S);
    for (int i = 0; i < 2; i++) {
        assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, false));
        assert_null(rig_held(&rig, POOL_FX_HIBERNATE));
        rig_advance(&rig, 11 * NS_PER_S);
    }
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, false));
    assert_int_equal(end_of("s-t1"), POOL_END_IDLE); /* as without snapshots */
    assert_int_equal(rig.facts[POOL_FACT_HIBERNATE_FAILED], 3);
}

static void test_leases_that_end(void **state)
{
    (void) state;
    rig.config.profiles[0].ttl_ns = 30 * NS_PER_S;
    rig_start(&rig);
    lease("ttl");
    rig_advance(&rig, 31 * NS_PER_S);
    assert_int_equal(rig_box(&rig, "ttl")->state, POOL_PARKED);
    assert_int_equal(rig_held(&rig, POOL_FX_HIBERNATE)->box.v, rig_box(&rig, "ttl")->id.v);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true));
    assert_int_equal(end_of("s-ttl"), POOL_END_HIBERNATED);
}

static void test_idle_leases(void **state)
{
    (void) state;
    rig_start(&rig);
    lease("idle");
    rig_advance(&rig, 41 * NS_PER_S);
    assert_int_equal(rig_box(&rig, "idle")->state, POOL_PARKED);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true));
    assert_int_equal(end_of("s-idle"), POOL_END_HIBERNATED);
}

/* A caller that needs the place waits for it; no second box is given up meanwhile. */
static void test_eviction(void **state)
{
    uint64_t req;

    (void) state;
    rig.config.max_boxes = 2;
    rig_start(&rig);
    park("t1");
    park("t2");
    req = rig_acquire(&rig, "u", "t3", 10 * NS_PER_S);
    assert_int_equal(rig_code(&rig, req), -1000);
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 1);
    rig_advance(&rig, NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 1);
    assert_false(pool_is_exhausted(rig.pool));
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true));
    assert_int_equal(rig_code(&rig, req), SP_OK);
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
    assert_int_equal(rig_box(&rig, "t2")->state, POOL_PARKED);
}

static void test_a_few_at_a_time(void **state)
{
    char who[8] = "t0";

    (void) state;
    rig_start(&rig);
    for (int i = 0; i < 7; i++, who[1]++)
        park(who);
    rig_advance(&rig, 101 * NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 4);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true));
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 5);
    rig_died(&rig, rig_held(&rig, POOL_FX_HIBERNATE)->box); /* its answer comes too late */
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 6);
}

static void test_a_drain(void **state)
{
    (void) state;
    rig_start(&rig);
    park("t1");
    rig_mode(&rig, POOL_DRAINING, true);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true));
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
}

/* The image of its profile is another one. */
static void change(enum pool_drift drift)
{
    struct pool_event ev = {.kind = POOL_EV_RECONFIG};

    rig.config.profiles[0].spec_hash++;
    rig.config.profiles[0].drift = drift;
    ev.u.reconfig = &rig.config;
    rig_send(&rig, &ev);
}

static void test_drift_keep_and_destroy(void **state)
{
    struct box_id box;

    (void) state;
    rig.config.profiles[0].want_hibernate = false;
    rig_start(&rig);
    park("t1");
    box = rig_box(&rig, "t1")->id;
    change(POOL_DRIFT_KEEP);
    park("t1");
    assert_int_equal(rig_box(&rig, "t1")->id.v, box.v);
    change(POOL_DRIFT_DESTROY);
    lease("t1");
    assert_int_not_equal(rig_box(&rig, "t1")->id.v, box.v);
    assert_int_equal(rig_box(&rig, "t1")->generation, 2);
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 0);
}

/* Those who wait are asked to come again, and then the engine knows the snapshot. */
static void test_drift_rebase(void **state)
{
    uint64_t first;
    uint64_t second;

    (void) state;
    rig.config.profiles[0].want_hibernate = false;
    rig_start(&rig);
    park("t1");
    change(POOL_DRIFT_REBASE);
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 0); /* nobody wants it */
    first = rig_acquire(&rig, "u", "t1", 10 * NS_PER_S);
    second = rig_acquire(&rig, "u", "t1", 10 * NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 1);
    assert_int_equal(rig_code(&rig, first), -1000);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true));
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
    assert_int_equal(rig_code(&rig, first), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(rig_code(&rig, second), SP_BACKEND_UNAVAILABLE);
}

/* Then it is given as it is, and its next parking is another try. */
static void test_drift_rebase_fails(void **state)
{
    struct box_id box;
    uint64_t req;

    (void) state;
    rig.config.profiles[0].want_hibernate = false;
    rig_start(&rig);
    park("t1");
    box = rig_box(&rig, "t1")->id;
    change(POOL_DRIFT_REBASE);
    req = rig_acquire(&rig, "u", "t1", 10 * NS_PER_S);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, false));
    assert_int_equal(rig_code(&rig, req), SP_OK);
    assert_int_equal(rig_box(&rig, "t1")->id.v, box.v);
    assert_int_equal(rig.facts[POOL_FACT_HIBERNATE_FAILED], 1);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false)), SP_OK);
    rig_abandon(&rig, rig_acquire(&rig, "u", "t1", 10 * NS_PER_S));
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 2);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true)); /* though nobody waits any more */
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
}

/* What the time alone had begun is what is waited for. */
static void test_drift_rebase_of_one_that_hibernates(void **state)
{
    uint64_t req;

    (void) state;
    rig_start(&rig);
    park("t1");
    change(POOL_DRIFT_REBASE);
    rig_advance(&rig, 101 * NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 1);
    req = rig_acquire(&rig, "u", "t1", 10 * NS_PER_S);
    assert_int_equal(rig_code(&rig, req), -1000);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true));
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 1);
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
    assert_int_equal(rig_code(&rig, req), SP_BACKEND_UNAVAILABLE);
}

static void test_destroyed_meanwhile(void **state)
{
    (void) state;
    rig_start(&rig);
    park("t1");
    rig_advance(&rig, 101 * NS_PER_S);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_DESTROY, "t1", 0, true)), SP_OK);
    assert_true(rig_answer(&rig, POOL_FX_HIBERNATE, true));
    assert_int_equal(end_of("s-t1"), POOL_END_DESTROYED);
}

/* One that was made from a snapshot has files from the first moment on. */
static void test_restored(void **state)
{
    const struct pool_acquire more = {
        .is_special = true, .made_with = 7, .is_restored = true, .generation = 5};
    struct pool_event ev = {.kind = POOL_EV_UNDELIVERED};
    uint64_t req;

    (void) state;
    rig_start(&rig);
    req = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &more);
    assert_int_equal(rig_code(&rig, req), SP_OK);
    assert_int_equal(rig_reply(&rig, req)->u.reply.source, POOL_SRC_RESTORED);
    assert_int_equal(rig_box(&rig, "t1")->generation, 6);
    ev.box = rig_box(&rig, "t1")->id;
    ev.epoch = rig_box(&rig, "t1")->epoch;
    ev.u.undelivered.is_spoiled = true;
    rig_send(&rig, &ev);
    assert_int_equal(rig_box(&rig, "t1")->state,
                     POOL_PARKED); /* another fresh box would be destroyed */
}

static void test_nobody_waits_for_a_restored_one(void **state)
{
    const struct pool_acquire more = {
        .is_special = true, .made_with = 7, .is_restored = true, .generation = 5};

    (void) state;
    rig.hold.probe = true;
    rig_start(&rig);
    rig_abandon(&rig, rig_acquire_with(&rig, "u", "t1", NS_PER_S, &more));
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED); /* not as if its owner had given it up */
}

static void end_kept(const char *who)
{
    struct pool_event ev = {.kind = POOL_EV_KEPT, .box = rig_box(&rig, who)->id};

    rig_send(&rig, &ev);
    rig_send(&rig, &ev); /* once is enough */
}

/* The backend has made a snapshot of it when it had ended: it is not lost. */
static void test_kept(void **state)
{
    struct pool_stats stats;

    (void) state;
    rig_start(&rig);
    park("t1");
    end_kept("t1");
    lease("t2");
    end_kept("t2");
    assert_null(rig_box(&rig, "t1"));
    assert_null(rig_box(&rig, "t2"));
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
    assert_int_equal(end_of("s-t2"), POOL_END_HIBERNATED);
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 0);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 2);
    pool_get_stats(rig.pool, &stats);
    assert_int_equal(stats.lost, 0);
}

/* It came before there was a snapshot, so a box that it gets by itself would be without the files. */
static void test_who_waits_for_a_kept_one(void **state)
{
    uint64_t req;

    (void) state;
    rig_start(&rig);
    park("t1");
    rig.hold.store = true;
    req = rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASING);
    end_kept("t1");
    assert_int_equal(rig_code(&rig, req), SP_BACKEND_UNAVAILABLE);
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
}

/* It came before there was a snapshot: when its box has ended, it must be asked again whether there is one by now. */
static void test_asked_again(void **state)
{
    struct pool_acquire restored = {.is_special = true, .is_restored = true, .made_with = 7};

    (void) state;
    for (unsigned i = 0; i < 3; i++) { /* anonymous, unmarked, marked */
        const char *who = i == 0 ? "-a" : "t1";
        struct box_id id;
        uint64_t a;

        if (i > 0)
            rig_stop(&rig);
        (void) setup(NULL);
        rig_start(&rig);
        assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", who, NS_PER_S)), SP_OK);
        id = rig_box(&rig, who)->id;
        rig.hold.check = true;
        rig_list(&rig, true, NULL, 0); /* it is in doubt */
        a = rig_acquire_with(&rig, "u", who, NS_PER_S, i == 2 ? &restored : NULL);
        assert_int_equal(rig_code(&rig, a), -1000);
        rig_died(&rig, id);
        assert_int_equal(rig.effects[POOL_FX_AGAIN], i == 1 ? 1 : 0);
        assert_int_equal(rig_code(&rig, a), SP_OK);
        assert_true(rig_box(&rig, who)->id.v != id.v);
    }
}

/* It has no more time for its commits than before. */
static void test_asked_again_while_the_disk_hangs(void **state)
{
    uint64_t a;

    (void) state;
    rig.config.profiles[0].want_hibernate = false;
    rig.config.profiles[0].ttl_ns = NS_PER_S / 2;
    rig.config.profiles[0].warm_min = 2;
    rig.config.profiles[0].warm_max = 2;
    rig_start(&rig);
    lease("t1");
    rig.hold.store = true;
    a = rig_acquire(&rig, "u", "t1", 0);
    rig_advance(&rig, 6 * NS_PER_S / 10);
    assert_int_equal(rig.effects[POOL_FX_AGAIN], 1);
    assert_int_equal(rig_code(&rig, a), -1000);
    rig_advance(&rig, 6 * NS_PER_S / 10);
    assert_int_equal(rig_code(&rig, a), SP_STORE_UNAVAILABLE);
}

/* A box that was being made for the thread when the daemon ended, by an acquire that did not know of the snapshot: it is
 * kept for the thread, but neither in place of its files nor copied over them. */
static void test_a_box_without_the_files(void **state)
{
    struct pool_acquire restored = {
        .is_special = true, .is_restored = true, .made_with = 7, .generation = 1};

    (void) state;
    for (unsigned i = 0; i < 2; i++) {
        struct pool_box row = {.id = {5}, .state = POOL_STARTING, .generation = 2};
        struct pool_seen seen = {.id = {5}, .ref = "ref", .generation = 2};
        uint64_t a;

        memcpy(row.sandbox_id, "s-t1", sizeof("s-t1"));
        memcpy(row.thread, "t1", sizeof("t1"));
        memcpy(row.user, "u", sizeof("u"));
        memcpy(seen.sandbox_id, row.sandbox_id, sizeof(seen.sandbox_id));
        memcpy(seen.thread, row.thread, sizeof(seen.thread));
        memcpy(seen.user, row.user, sizeof(seen.user));
        if (i > 0)
            rig_stop(&rig);
        (void) setup(NULL);
        rig_start(&rig);
        assert_true(pool_restore_box(rig.pool, rig.now_ns, &row));
        rig_advance(&rig, NS_PER_MS);
        rig_list(&rig, true, &seen, 1);
        assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
        a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, i == 1 ? &restored : NULL);
        assert_int_equal(rig_code(&rig, a), SP_OK);
        assert_true((rig_box(&rig, "t1")->id.v == row.id.v) == (i == 0));
        assert_true(rig_box(&rig, "t1")->made_with == (i == 0 ? 0 : restored.made_with));
    }
}

static void test_a_box_without_the_files_is_not_copied(void **state)
{
    struct pool_box row = {.id = {5}, .state = POOL_STARTING, .generation = 2};
    struct pool_seen seen = {.id = {5}, .ref = "ref", .generation = 2};

    (void) state;
    memcpy(row.sandbox_id, "s-t1", sizeof("s-t1"));
    memcpy(row.thread, "t1", sizeof("t1"));
    memcpy(seen.sandbox_id, row.sandbox_id, sizeof(seen.sandbox_id));
    memcpy(seen.thread, row.thread, sizeof(seen.thread));
    rig_start(&rig);
    assert_true(pool_restore_box(rig.pool, rig.now_ns, &row));
    rig_advance(&rig, NS_PER_MS);
    rig_list(&rig, true, &seen, 1);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    rig_advance(&rig, 200 * NS_PER_S);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(rig.effects[POOL_FX_HIBERNATE], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_snapshot_comes_first, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_owner_is_faster, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_leases_that_end, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_idle_leases, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_eviction, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_few_at_a_time, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_drain, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_drift_keep_and_destroy, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_drift_rebase, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_drift_rebase_fails, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_drift_rebase_of_one_that_hibernates, setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_destroyed_meanwhile, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_restored, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_nobody_waits_for_a_restored_one, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_kept, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_who_waits_for_a_kept_one, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_asked_again, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_box_without_the_files, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_box_without_the_files_is_not_copied, setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_asked_again_while_the_disk_hangs, setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
