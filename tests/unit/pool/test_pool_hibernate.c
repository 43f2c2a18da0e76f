/* test_pool_hibernate.c - boxes that become snapshots: when, whose, how often it is tried, and that an owner who comes back in
 * time gets its box. */
#include <string.h>

#include "fixture.h"

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.profiles[0].idle_ns = 40 * NS_PER_S;
    fixture.config.profiles[0].park_ns = 100 * NS_PER_S;
    fixture.config.profiles[0].want_hibernate = true;
    fixture.hold.hibernate = true;
    fixture.use = POOL_USE_NONE;
    return 0;
}

static void lease(const char *who)
{
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", who, NS_PER_S)), SP_OK);
}

static void park(const char *who)
{
    lease(who);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, who, 0, false)),
                     SP_OK);
}

static enum pool_end end_of(const char *sandbox_id)
{
    return pool_find_past(fixture.pool, sandbox_id, NULL, NULL);
}

static void test_the_snapshot_comes_first(void **state)
{
    (void) state;
    fixture_start(&fixture);
    park("t1");
    fixture_advance(&fixture, 99 * NS_PER_S);
    assert_null(fixture_held(&fixture, POOL_FX_HIBERNATE));
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_non_null(fixture_held(&fixture, POOL_FX_HIBERNATE));
    fixture_advance(&fixture, 300 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 1);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, true));
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
}

static void test_the_owner_is_faster(void **state)
{
    struct box_id box;

    (void) state;
    fixture_start(&fixture);
    park("t1");
    box = fixture_box(&fixture, "t1")->id;
    fixture_advance(&fixture, 101 * NS_PER_S);
    assert_non_null(fixture_held(&fixture, POOL_FX_HIBERNATE));
    lease("t1");
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, true)); /* too late */
    assert_int_equal(fixture_box(&fixture, "t1")->id.v, box.v);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
}

static void test_failures(void **state)
{
    (void) state;
    fixture_start(&fixture);
    park("t1");
    fixture_advance(&fixture, 101 * NS_PER_S);
    for (int i = 0; i < 2; i++) {
        assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, false));
        assert_null(fixture_held(&fixture, POOL_FX_HIBERNATE));
        fixture_advance(&fixture, 11 * NS_PER_S);
    }
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, false));
    assert_int_equal(end_of("s-t1"), POOL_END_IDLE); /* as without snapshots */
    assert_int_equal(fixture.facts[POOL_FACT_HIBERNATE_FAILED], 3);
}

static void test_leases_that_end(void **state)
{
    (void) state;
    fixture.config.profiles[0].ttl_ns = 30 * NS_PER_S;
    fixture_start(&fixture);
    lease("ttl");
    fixture_advance(&fixture, 31 * NS_PER_S);
    assert_int_equal(fixture_box(&fixture, "ttl")->state, POOL_PARKED);
    assert_int_equal(fixture_held(&fixture, POOL_FX_HIBERNATE)->box.v,
                     fixture_box(&fixture, "ttl")->id.v);
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, true));
    assert_int_equal(end_of("s-ttl"), POOL_END_HIBERNATED);
}

static void test_idle_leases(void **state)
{
    (void) state;
    fixture_start(&fixture);
    lease("idle");
    fixture_advance(&fixture, 41 * NS_PER_S);
    assert_int_equal(fixture_box(&fixture, "idle")->state, POOL_PARKED);
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, true));
    assert_int_equal(end_of("s-idle"), POOL_END_HIBERNATED);
}

/* A caller that needs the place waits for it; no second box is given up meanwhile. */
static void test_eviction(void **state)
{
    uint64_t req;

    (void) state;
    fixture.config.max_boxes = 2;
    fixture_start(&fixture);
    park("t1");
    park("t2");
    req = fixture_acquire(&fixture, "u", "t3", 10 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, req), -1000);
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 1);
    fixture_advance(&fixture, NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 1);
    assert_false(pool_is_exhausted(fixture.pool));
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, true));
    assert_int_equal(fixture_code(&fixture, req), SP_OK);
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
    assert_int_equal(fixture_box(&fixture, "t2")->state, POOL_PARKED);
}

static void test_a_few_at_a_time(void **state)
{
    char who[8] = "t0";

    (void) state;
    fixture_start(&fixture);
    for (int i = 0; i < 7; i++, who[1]++)
        park(who);
    fixture_advance(&fixture, 101 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 4);
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, true));
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 5);
    fixture_died(&fixture,
                 fixture_held(&fixture, POOL_FX_HIBERNATE)->box); /* its answer comes too late */
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 6);
}

static void test_a_drain(void **state)
{
    (void) state;
    fixture_start(&fixture);
    park("t1");
    fixture_mode(&fixture, POOL_DRAINING, true);
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, true));
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
}

/* The image of its profile is another one. */
static void change(enum pool_drift drift)
{
    struct pool_event ev = {.kind = POOL_EV_RECONFIG};

    fixture.config.profiles[0].spec_hash++;
    fixture.config.profiles[0].drift = drift;
    ev.u.reconfig = &fixture.config;
    fixture_send(&fixture, &ev);
}

static void test_drift_keep_and_destroy(void **state)
{
    struct box_id box;

    (void) state;
    fixture.config.profiles[0].want_hibernate = false;
    fixture_start(&fixture);
    park("t1");
    box = fixture_box(&fixture, "t1")->id;
    change(POOL_DRIFT_KEEP);
    park("t1");
    assert_int_equal(fixture_box(&fixture, "t1")->id.v, box.v);
    change(POOL_DRIFT_DESTROY);
    lease("t1");
    assert_int_not_equal(fixture_box(&fixture, "t1")->id.v, box.v);
    assert_int_equal(fixture_box(&fixture, "t1")->generation, 2);
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 0);
}

/* Those who wait are asked to come again, and then the engine knows the snapshot. */
static void test_drift_rebase(void **state)
{
    uint64_t first;
    uint64_t second;

    (void) state;
    fixture.config.profiles[0].want_hibernate = false;
    fixture_start(&fixture);
    park("t1");
    change(POOL_DRIFT_REBASE);
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 0); /* nobody wants it */
    first = fixture_acquire(&fixture, "u", "t1", 10 * NS_PER_S);
    second = fixture_acquire(&fixture, "u", "t1", 10 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 1);
    assert_int_equal(fixture_code(&fixture, first), -1000);
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, true));
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
    assert_int_equal(fixture_code(&fixture, first), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(fixture_code(&fixture, second), SP_BACKEND_UNAVAILABLE);
}

/* Then it is given as it is, and its next parking is another try. */
static void test_drift_rebase_fails(void **state)
{
    struct box_id box;
    uint64_t req;

    (void) state;
    fixture.config.profiles[0].want_hibernate = false;
    fixture_start(&fixture);
    park("t1");
    box = fixture_box(&fixture, "t1")->id;
    change(POOL_DRIFT_REBASE);
    req = fixture_acquire(&fixture, "u", "t1", 10 * NS_PER_S);
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, false));
    assert_int_equal(fixture_code(&fixture, req), SP_OK);
    assert_int_equal(fixture_box(&fixture, "t1")->id.v, box.v);
    assert_int_equal(fixture.facts[POOL_FACT_HIBERNATE_FAILED], 1);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false)),
                     SP_OK);
    fixture_abandon(&fixture, fixture_acquire(&fixture, "u", "t1", 10 * NS_PER_S));
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 2);
    assert_true(
        fixture_answer(&fixture, POOL_FX_HIBERNATE, true)); /* though nobody waits any more */
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
}

/* What the time alone had begun is what is waited for. */
static void test_drift_rebase_of_one_that_hibernates(void **state)
{
    uint64_t req;

    (void) state;
    fixture_start(&fixture);
    park("t1");
    change(POOL_DRIFT_REBASE);
    fixture_advance(&fixture, 101 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 1);
    req = fixture_acquire(&fixture, "u", "t1", 10 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, req), -1000);
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, true));
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 1);
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
    assert_int_equal(fixture_code(&fixture, req), SP_BACKEND_UNAVAILABLE);
}

static void test_destroyed_meanwhile(void **state)
{
    (void) state;
    fixture_start(&fixture);
    park("t1");
    fixture_advance(&fixture, 101 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_DESTROY, "t1", 0, true)),
                     SP_OK);
    assert_true(fixture_answer(&fixture, POOL_FX_HIBERNATE, true));
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
    fixture_start(&fixture);
    req = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &more);
    assert_int_equal(fixture_code(&fixture, req), SP_OK);
    assert_int_equal(fixture_reply(&fixture, req)->u.reply.source, POOL_SRC_RESTORED);
    assert_int_equal(fixture_box(&fixture, "t1")->generation, 6);
    ev.box = fixture_box(&fixture, "t1")->id;
    ev.epoch = fixture_box(&fixture, "t1")->epoch;
    ev.u.undelivered.is_spoiled = true;
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture_box(&fixture, "t1")->state,
                     POOL_PARKED); /* another fresh box would be destroyed */
}

static void test_nobody_waits_for_a_restored_one(void **state)
{
    const struct pool_acquire more = {
        .is_special = true, .made_with = 7, .is_restored = true, .generation = 5};

    (void) state;
    fixture.hold.probe = true;
    fixture_start(&fixture);
    fixture_abandon(&fixture, fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &more));
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED); /* not as if its owner had given it up */
}

static void end_kept(const char *who)
{
    struct pool_event ev = {.kind = POOL_EV_KEPT, .box = fixture_box(&fixture, who)->id};

    fixture_send(&fixture, &ev);
    fixture_send(&fixture, &ev); /* once is enough */
}

/* The backend has made a snapshot of it when it had ended: it is not lost. */
static void test_kept(void **state)
{
    struct pool_stats stats;

    (void) state;
    fixture_start(&fixture);
    park("t1");
    end_kept("t1");
    lease("t2");
    end_kept("t2");
    assert_null(fixture_box(&fixture, "t1"));
    assert_null(fixture_box(&fixture, "t2"));
    assert_int_equal(end_of("s-t1"), POOL_END_HIBERNATED);
    assert_int_equal(end_of("s-t2"), POOL_END_HIBERNATED);
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 0);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 2);
    pool_get_stats(fixture.pool, &stats);
    assert_int_equal(stats.lost, 0);
}

/* It came before there was a snapshot, so a box that it gets by itself would be without the files. */
static void test_who_waits_for_a_kept_one(void **state)
{
    uint64_t req;

    (void) state;
    fixture_start(&fixture);
    park("t1");
    fixture.hold.store = true;
    req = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASING);
    end_kept("t1");
    assert_int_equal(fixture_code(&fixture, req), SP_BACKEND_UNAVAILABLE);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
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
            fixture_stop(&fixture);
        (void) setup(NULL);
        fixture_start(&fixture);
        assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", who, NS_PER_S)),
                         SP_OK);
        id = fixture_box(&fixture, who)->id;
        fixture.hold.check = true;
        fixture_list(&fixture, true, NULL, 0); /* it is in doubt */
        a = fixture_acquire_with(&fixture, "u", who, NS_PER_S, i == 2 ? &restored : NULL);
        assert_int_equal(fixture_code(&fixture, a), -1000);
        fixture_died(&fixture, id);
        assert_int_equal(fixture.effects[POOL_FX_AGAIN], i == 1 ? 1 : 0);
        assert_int_equal(fixture_code(&fixture, a), SP_OK);
        assert_true(fixture_box(&fixture, who)->id.v != id.v);
    }
}

/* It has no more time for its commits than before. */
static void test_asked_again_while_the_disk_hangs(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].want_hibernate = false;
    fixture.config.profiles[0].ttl_ns = NS_PER_S / 2;
    fixture.config.profiles[0].warm_min = 2;
    fixture.config.profiles[0].warm_max = 2;
    fixture_start(&fixture);
    lease("t1");
    fixture.hold.store = true;
    a = fixture_acquire(&fixture, "u", "t1", 0);
    fixture_advance(&fixture, 6 * NS_PER_S / 10);
    assert_int_equal(fixture.effects[POOL_FX_AGAIN], 1);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    fixture_advance(&fixture, 6 * NS_PER_S / 10);
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
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
            fixture_stop(&fixture);
        (void) setup(NULL);
        fixture_start(&fixture);
        assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
        fixture_advance(&fixture, NS_PER_MS);
        fixture_list(&fixture, true, &seen, 1);
        assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
        a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, i == 1 ? &restored : NULL);
        assert_int_equal(fixture_code(&fixture, a), SP_OK);
        assert_true((fixture_box(&fixture, "t1")->id.v == row.id.v) == (i == 0));
        assert_true(fixture_box(&fixture, "t1")->made_with == (i == 0 ? 0 : restored.made_with));
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
    fixture_start(&fixture);
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
    fixture_advance(&fixture, NS_PER_MS);
    fixture_list(&fixture, true, &seen, 1);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    fixture_advance(&fixture, 200 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture.effects[POOL_FX_HIBERNATE], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_snapshot_comes_first, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_owner_is_faster, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_leases_that_end, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_idle_leases, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_eviction, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_few_at_a_time, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_drain, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_drift_keep_and_destroy, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_drift_rebase, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_drift_rebase_fails, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_drift_rebase_of_one_that_hibernates, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_destroyed_meanwhile, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_restored, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_nobody_waits_for_a_restored_one, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_kept, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_who_waits_for_a_kept_one, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_asked_again, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_box_without_the_files, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_box_without_the_files_is_not_copied, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_asked_again_while_the_disk_hangs, setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
