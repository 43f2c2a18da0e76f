/* test_pool_special.c - boxes made for one caller: bound to its id from the intent on, for nobody
 * else, and never blank. */
#include <stdio.h>
#include <string.h>

#include "rig.h"

static const struct pool_acquire special = {.is_special = true, .principal = 0};

static uint64_t ask(const char *who, uint64_t wait_ns)
{
    return rig_acquire_with(&rig, "u", who, wait_ns, &special);
}

static unsigned total(void)
{
    struct pool_stats stats;

    pool_get_stats(rig.pool, &stats);
    return stats.total;
}

/* The profile keeps two warm: they are not for it. */
static void test_never_a_blank_box(void **state)
{
    const struct pool_fx *fx;
    struct pool_acquire with = {.is_special = true, .made_with = 77, .principal = 5};
    uint64_t a;

    (void) state;
    rig.config.profiles[0].warm_min = 2;
    rig.config.profiles[0].warm_max = 2;
    rig_start(&rig);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 2);
    rig.hold.store = true;
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &with);
    fx = rig_held(&rig, POOL_FX_STORE);
    assert_int_equal(fx->u.store.what, POOL_WRITE_BOX);
    assert_int_equal(fx->snapshot.state, POOL_INTENT);
    assert_string_equal(fx->snapshot.sandbox_id, "s-t1");
    assert_string_equal(fx->snapshot.user, "u");
    assert_string_equal(fx->snapshot.thread, "t1");
    assert_true(fx->snapshot.principal == 5 && fx->snapshot.generation == 1);
    assert_true(fx->snapshot.made_with == 77);
    rig.hold.create = true;
    assert_int_equal(rig.effects[POOL_FX_CREATE], 2);
    assert_true(rig_answer(&rig, POOL_FX_STORE, true));
    fx = rig_held(&rig, POOL_FX_CREATE);
    assert_string_equal(fx->snapshot.sandbox_id, "s-t1");
    rig.hold.store = false;
    assert_true(rig_answer(&rig, POOL_FX_CREATE, true));
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_COLD);
    assert_true(rig_reply(&rig, a)->snapshot.made_with == 77);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 2);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 3); /* and no other was made for the target */
    assert_int_equal(rig.effects[POOL_FX_BIND], 0);
    a = rig_acquire_with(&rig, "u", "t1", 0, &with);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_KEPT);
}

static void test_parked_is_served(void **state)
{
    uint64_t a;

    (void) state;
    rig_start(&rig);
    (void) ask("t1", NS_PER_S);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 1);
    a = ask("t1", NS_PER_S);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_PARKED);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 1);
}

static void test_acquires_of_a_thread_share_it(void **state)
{
    uint64_t reqs[4];

    (void) state;
    rig.config.max_boxes = 1;
    rig.hold.create = true;
    rig_start(&rig);
    for (int i = 0; i < 3; i++)
        reqs[i] = ask("t1", NS_PER_S);
    reqs[3] = rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 1);
    rig_abandon(&rig, reqs[0]);
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig_code(&rig, reqs[0]), -1000);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(rig_code(&rig, reqs[i]), SP_OK);
        assert_true(rig_reply(&rig, reqs[i])->box.v == rig_box(&rig, "t1")->id.v);
    }
    assert_int_equal(total(), 1);
}

/* What it may share while it waits in line: a box with the same extras. */
static void test_who_joins_whom(void **state)
{
    struct pool_acquire other = {.is_special = true, .made_with = 9};
    uint64_t a;
    uint64_t b;

    (void) state;
    rig.config.max_boxes = 1;
    rig_start(&rig);
    (void) ask("holds", NS_PER_S);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_int_equal(rig_code(&rig, ask("t1", NS_PER_S)), SP_SPEC_CONFLICT);
    b = ask("t2", NS_PER_S);
    assert_int_equal(rig_code(&rig, rig_acquire_with(&rig, "u", "t2", NS_PER_S, &other)),
                     SP_SPEC_CONFLICT);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t2", NS_PER_S)), -1000);
    assert_int_equal(rig_code(&rig, a), -1000);
    assert_int_equal(rig_code(&rig, b), -1000);
}

/* The heir of a special one is special if there is one; else it takes any box. */
static void test_heirs(void **state)
{
    struct pool_acquire plain = {.profile = 0};
    uint64_t a;
    uint64_t b;
    uint64_t c;

    (void) state;
    rig.config.max_boxes = 1;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[0].warm_max = 1;
    rig_start(&rig);
    rig.hold.destroy = true; /* the blank box goes, but its place is not free yet */
    a = ask("t1", NS_PER_S);
    b = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &plain);
    c = ask("t1", NS_PER_S);
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 1);
    rig_abandon(&rig, a);
    rig.hold.create = true;
    rig_answer_all(&rig, POOL_FX_DESTROY, true);
    assert_string_equal(rig_held(&rig, POOL_FX_CREATE)->snapshot.sandbox_id, "s-t1");
    rig_abandon(&rig, c);
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig_code(&rig, b), SP_OK); /* it waited for that box already */
    assert_int_equal(total(), 1);
}

static void test_plain_heir_takes_a_blank_box(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[0].warm_max = 1;
    rig.config.profiles[0].create_max = 1;
    rig_start(&rig);
    rig.hold.create = true;
    (void) ask("t0", NS_PER_S); /* all that may be made at once */
    a = ask("t1", NS_PER_S);
    b = rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_int_equal(rig_code(&rig, b), -1000);
    rig_abandon(&rig, a);
    assert_int_equal(rig_code(&rig, b), SP_OK);
    assert_int_equal(rig_reply(&rig, b)->u.reply.source, POOL_SRC_WARM);
}

static void test_gone_before_the_create(void **state)
{
    uint64_t a;

    (void) state;
    rig_start(&rig);
    rig.hold.store = true;
    a = ask("t1", NS_PER_S);
    rig_abandon(&rig, a);
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 0);
    assert_int_equal(total(), 0);
}

static void test_gone_while_it_is_made(void **state)
{
    uint64_t a;

    (void) state;
    rig.hold.create = true;
    rig_start(&rig);
    a = ask("t1", NS_PER_S);
    rig_abandon(&rig, a);
    assert_int_equal(rig_count(&rig, POOL_CREATING), 1); /* the backend is not asked two things */
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 1);
    assert_int_equal(rig.effects[POOL_FX_PROBE], 0);
    assert_int_equal(total(), 0);
    a = ask("t2", NS_PER_S); /* back in time */
    rig_abandon(&rig, a);
    a = ask("t2", NS_PER_S);
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 2);
}

static void test_deadline_while_it_starts(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    rig.hold.probe = true;
    rig_start(&rig);
    a = ask("t1", NS_PER_S);
    b = ask("t1", 3 * NS_PER_S);
    rig_advance(&rig, 2 * NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_ACQUIRE_TIMEOUT);
    assert_int_equal(rig_count(&rig, POOL_STARTING), 1);
    rig_advance(&rig, 2 * NS_PER_S);
    assert_int_equal(rig_code(&rig, b), SP_ACQUIRE_TIMEOUT);
    assert_int_equal(total(), 0);
    rig_answer_all(&rig, POOL_FX_PROBE, true); /* too late */
    assert_int_equal(total(), 0);
}

/* It was to be dispatched again, and its time was over. */
static void test_deadline_met_on_the_way(void **state)
{
    uint64_t a;

    (void) state;
    rig.hold.probe = true;
    rig_start(&rig);
    a = ask("t1", NS_PER_S);
    assert_int_equal(rig_count(&rig, POOL_STARTING), 1);
    rig.now_ns += 2 * NS_PER_S;
    rig_mode(&rig, POOL_PAUSED, false);
    assert_int_equal(rig_code(&rig, a), SP_PAUSED);
    assert_int_equal(total(), 0);
}

static void test_undone_leases(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_UNDELIVERED};
    uint64_t a;

    (void) state;
    rig_start(&rig);
    a = ask("t1", NS_PER_S);
    ev.box = rig_reply(&rig, a)->box;
    ev.epoch = rig_reply(&rig, a)->snapshot.epoch;
    rig_send(&rig, &ev);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED); /* its caller may know it */
    (void) rig_on(&rig, POOL_EV_DESTROY, "t1", 0, true);
    assert_int_equal(total(), 0);
    rig.hold.probe = true;
    a = ask("t2", NS_PER_S);
    rig.fail_store = true; /* the lease, not the intent */
    rig_answer_all(&rig, POOL_FX_PROBE, true);
    assert_int_equal(rig_code(&rig, a), SP_STORE_UNAVAILABLE);
    rig.fail_store = false;
    rig_advance(&rig, 5 * NS_PER_S);
    assert_int_equal(total(), 0);
    rig.hold.store = true;
    rig.hold.probe = false;
    a = ask("t3", NS_PER_S);
    while (rig_held(&rig, POOL_FX_STORE)->u.store.what != POOL_WRITE_LEASE)
        assert_true(rig_answer(&rig, POOL_FX_STORE, true));
    rig_abandon(&rig, a);
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(total(), 0);
}

static void test_cap_and_eviction(void **state)
{
    uint64_t a;

    (void) state;
    rig.config.max_boxes = 2;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[0].warm_max = 1;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t0", NS_PER_S);
    assert_int_equal(total(), 2);
    a = ask("t1", NS_PER_S); /* the blank box makes room */
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(total(), 2);
    assert_int_equal(rig_code(&rig, ask("t2", 0)), SP_POOL_EXHAUSTED);
    a = ask("t2", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), -1000);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t0", 0, false);
    assert_int_equal(rig_code(&rig, a), SP_OK);
}

/* One place, three acquires: the one that has waited longest gets it, whatever its kind. */
static void test_lines_and_turns(void **state)
{
    uint64_t reqs[4];

    (void) state;
    rig.config.max_boxes = 1;
    rig.config.profiles[0].park_ns = 0;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t0", NS_PER_S);
    for (unsigned i = 0; i < 4; i++) {
        static const char *const who[] = {"a", "b", "c", "d"};

        rig_advance(&rig, NS_PER_MS);
        reqs[i] = rig_acquire_with(&rig, i == 3 ? "v" : "u", who[i], 60 * NS_PER_S,
                                   i == 1 ? NULL : &special);
    }
    (void) rig_on(&rig, POOL_EV_RELEASE, "t0", 0, true);
    assert_int_equal(rig_code(&rig, reqs[0]), SP_OK);
    assert_int_equal(rig_code(&rig, reqs[1]), -1000);
    (void) rig_on(&rig, POOL_EV_RELEASE, "a", 0, true);
    assert_int_equal(rig_code(&rig, reqs[1]), SP_OK);
    assert_int_equal(rig_code(&rig, reqs[3]), -1000);
    (void) rig_on(&rig, POOL_EV_RELEASE, "b", 0, true);
    assert_int_equal(rig_code(&rig, reqs[3]), SP_OK); /* user v has its turn before u's second */
    assert_int_equal(rig_code(&rig, reqs[2]), -1000);
    (void) rig_on(&rig, POOL_EV_RELEASE, "d", 0, true);
    assert_int_equal(rig_code(&rig, reqs[2]), SP_OK);
}

static void test_failures_open_the_circuit(void **state)
{
    uint64_t a;

    (void) state;
    rig.fail_create = true;
    rig_start(&rig);
    a = ask("t1", 60 * NS_PER_S);
    assert_int_equal(rig_code(&rig, a), -1000);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 1);
    rig_advance(&rig, 10 * NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 3); /* as many as the breaker allows */
    assert_int_equal(total(), 0);
    rig.fail_create = false;
    rig_advance(&rig, 60 * NS_PER_S);
    assert_int_equal(rig_code(&rig, ask("t1", NS_PER_S)), SP_OK);
    assert_int_equal(rig.facts[POOL_FACT_BREAKER_CLOSED], 1);
}

/* A request that cannot be fulfilled is answered at once, and does not count against the
 * profile. */
static void test_a_request_that_cannot_be_fulfilled(void **state)
{
    struct pool_acquire with = {.is_special = true, .made_with = 7};
    struct pool_event ev = {.kind = POOL_EV_CREATE_FAILED};
    struct pool_profile_view view;
    uint64_t a;
    uint64_t b;
    uint64_t c;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[0].warm_max = 1;
    rig_start(&rig);
    rig.hold.create = true;
    a = rig_acquire_with(&rig, "u", "t1", 60 * NS_PER_S, &with);
    b = rig_acquire_with(&rig, "u", "t1", 60 * NS_PER_S, &with);
    c = rig_acquire(&rig, "u", "t1", 60 * NS_PER_S);
    ev.box = rig_held(&rig, POOL_FX_CREATE)->box;
    ev.epoch = rig_held(&rig, POOL_FX_CREATE)->epoch;
    ev.u.failed.code = SP_FORBIDDEN;
    snprintf(ev.u.failed.reason, sizeof(ev.u.failed.reason), "not that directory");
    rig_send(&rig, &ev);
    assert_int_equal(rig_code(&rig, a), SP_FORBIDDEN);
    assert_string_equal(rig_reply(&rig, a)->reason, "not that directory");
    assert_int_equal(rig_code(&rig, b), SP_FORBIDDEN);
    assert_int_equal(rig_code(&rig, c), SP_OK); /* it did not ask for it */
    assert_int_equal(rig_reply(&rig, c)->u.reply.source, POOL_SRC_WARM);
    pool_get_profile(rig.pool, rig.now_ns, 0, &view);
    assert_int_equal(view.failures, 0);
}

static void test_modes(void **state)
{
    uint64_t a;

    (void) state;
    rig.hold.create = true;
    rig_start(&rig);
    a = ask("t1", 60 * NS_PER_S);
    rig_mode(&rig, POOL_PAUSED, false);
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig_code(&rig, a), -1000);
    rig_mode(&rig, POOL_RUNNING, false);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 1);
    a = ask("t2", 60 * NS_PER_S);
    rig_mode(&rig, POOL_DRAINING, true);
    assert_int_equal(rig_code(&rig, a), SP_DRAINING);
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(total(), 1);
}

static struct pool_box intent_of(uint64_t id, const char *who, bool is_anonymous)
{
    struct pool_box row = {.id = {id}, .state = POOL_INTENT, .spec_hash = 1, .generation = 2};

    row.expires_ns = POOL_NEVER;
    row.idle_ns = POOL_NEVER;
    row.made_with = 77;
    snprintf(row.sandbox_id, sizeof(row.sandbox_id), "s-%s", who);
    snprintf(row.user, sizeof(row.user), "u");
    if (!is_anonymous)
        snprintf(row.thread, sizeof(row.thread), "%s", who);
    return row;
}

/* Its thread gets it, the box of an unknown caller is destroyed, one that was never made is
 * forgotten. */
static void test_intents_after_a_crash(void **state)
{
    struct pool_box rows[] = {intent_of(1, "t1", false), intent_of(2, "-x", true),
                              intent_of(3, "t3", false)};
    struct pool_seen seen[2] = {{.id = {1}, .profile = "default", .generation = 2},
                                {.id = {2}, .profile = "default", .generation = 2}};
    uint64_t a;

    (void) state;
    memcpy(seen[0].sandbox_id, rows[0].sandbox_id, sizeof(seen[0].sandbox_id));
    memcpy(seen[1].sandbox_id, rows[1].sandbox_id, sizeof(seen[1].sandbox_id));
    rig.config.restore_max = 8;
    rig.pool = pool_new(&rig.config);
    for (size_t i = 0; i < 3; i++)
        assert_true(pool_restore_box(rig.pool, rig.now_ns, &rows[i]));
    rig.hold.probe = true;
    rig_start(&rig);
    a = ask("t1", 60 * NS_PER_S);
    rig.verdict = POOL_DEAD;
    rig_list(&rig, true, seen, 2);
    assert_int_equal(rig_code(&rig, a), -1000); /* it must prove itself first */
    rig_answer_all(&rig, POOL_FX_PROBE, true);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_true(rig_reply(&rig, a)->box.v == 1);
    assert_true(rig_reply(&rig, a)->snapshot.generation == 2);
    assert_true(rig_reply(&rig, a)->snapshot.made_with == 77);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 1);
    assert_int_equal(total(), 1);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_never_a_blank_box, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_parked_is_served, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_acquires_of_a_thread_share_it, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_who_joins_whom, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_heirs, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_plain_heir_takes_a_blank_box, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_gone_before_the_create, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_gone_while_it_is_made, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_deadline_while_it_starts, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_deadline_met_on_the_way, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_undone_leases, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_cap_and_eviction, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_lines_and_turns, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_failures_open_the_circuit, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_request_that_cannot_be_fulfilled, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_modes, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_intents_after_a_crash, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
