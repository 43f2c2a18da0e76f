/* test_pool_idle.c - a leased box is not destroyed for being idle before its agent was asked. */
#include <stdio.h>

#include "fixture.h"

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.profiles[0].idle_ns = 40 * NS_PER_S;
    fixture.config.max_boxes = 100;
    return 0;
}

static void start_with_lease(void)
{
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
}

static enum pool_end end_of_t1(void)
{
    return pool_find_past(fixture.pool, "s-t1", NULL, NULL);
}

static void test_a_job_is_never_killed(void **state)
{
    (void) state;
    fixture.use = POOL_USE_BUSY;
    start_with_lease();
    fixture_advance(&fixture, 1000 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture.effects[POOL_FX_ASK_USE], 25); /* once in each idle time, no more */
    fixture.use = POOL_USE_NONE; /* it ended at once, and the agent knows when */
    fixture.used_ns = fixture.now_ns + NS_PER_S;
    fixture_advance(&fixture, 39 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    fixture_advance(&fixture, 3 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(end_of_t1(), POOL_END_IDLE);
}

/* What the agent served at the box's own address counts as what went through the daemon. */
static void test_use_that_the_daemon_did_not_see(void **state)
{
    (void) state;
    start_with_lease();
    fixture.used_ns = fixture.now_ns + 30 * NS_PER_S;
    fixture_advance(&fixture, 69 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    assert_true(fixture_box(&fixture, "t1")->active_ns == fixture.used_ns);
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
}

/* Used while its release waits for the disk, which then fails: the lease stays, and so does that use. */
static void test_use_during_a_release_that_fails(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY};
    uint64_t idle_ns;

    (void) state;
    fixture.config.profiles[0].park_ns = 1000 * NS_PER_S;
    start_with_lease();
    idle_ns = fixture_box(&fixture, "t1")->idle_ns;
    ev.box = fixture_box(&fixture, "t1")->id;
    fixture.hold.store = true;
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKING);
    fixture.now_ns += idle_ns / 2;
    for (int i = 1; i >= -1; i -= 2) { /* begins and ends */
        ev.u.activity.delta = i;
        fixture_send(&fixture, &ev);
    }
    assert_true(fixture_box(&fixture, "t1")->active_ns == fixture.now_ns);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, false);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    fixture_advance(&fixture, idle_ns - NS_PER_S);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
}

/* A time in the future is not accepted. */
static void test_an_agent_that_lies(void **state)
{
    (void) state;
    start_with_lease();
    fixture.used_ns = POOL_NEVER - 1;
    fixture_advance(&fixture, 41 * NS_PER_S);
    assert_true(fixture_box(&fixture, "t1")->active_ns <= fixture.now_ns);
}

static void test_a_ttl_ends_a_job(void **state)
{
    (void) state;
    fixture.use = POOL_USE_BUSY;
    fixture.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    start_with_lease();
    fixture_advance(&fixture, 99 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(end_of_t1(), POOL_END_TTL);
}

/* While the agent is asked, too; its answer comes too late then. */
static void test_a_ttl_ends_a_box_that_is_asked(void **state)
{
    (void) state;
    fixture.hold.use = true;
    fixture.use = POOL_USE_BUSY;
    fixture.config.profiles[0].ttl_ns = 42 * NS_PER_S;
    start_with_lease();
    fixture_advance(&fixture, 41 * NS_PER_S);
    assert_non_null(fixture_held(&fixture, POOL_FX_ASK_USE));
    assert_non_null(fixture_box(&fixture, "t1"));
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_int_equal(end_of_t1(), POOL_END_TTL);
    assert_true(fixture_answer(&fixture, POOL_FX_ASK_USE, true));
    assert_null(fixture_box(&fixture, "t1"));
}

/* Not reached is not idle: it is asked four times, and an event says what happened then. */
static void test_an_agent_that_does_not_answer(void **state)
{
    (void) state;
    fixture.hold.use = true;
    start_with_lease();
    fixture_advance(&fixture, 41 * NS_PER_S);
    for (int i = 1; i < 4; i++) {
        assert_true(fixture_answer(&fixture, POOL_FX_ASK_USE, false));
        assert_non_null(fixture_box(&fixture, "t1"));
        assert_null(fixture_held(&fixture, POOL_FX_ASK_USE)); /* after a pause only */
        fixture_advance(&fixture, 11 * NS_PER_S);
        assert_non_null(fixture_held(&fixture, POOL_FX_ASK_USE));
    }
    assert_int_equal(fixture.facts[POOL_FACT_IDLE_UNKNOWN], 0);
    assert_true(fixture_answer(&fixture, POOL_FX_ASK_USE, false));
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture.facts[POOL_FACT_IDLE_UNKNOWN], 1);
    assert_int_equal(end_of_t1(), POOL_END_IDLE);
}

/* An answer in between resets the count. */
static void test_an_agent_that_answers_late(void **state)
{
    (void) state;
    fixture.hold.use = true;
    fixture.use = POOL_USE_BUSY;
    start_with_lease();
    fixture_advance(&fixture, 41 * NS_PER_S);
    for (int i = 0; i < 20; i++) {
        assert_true(fixture_answer(&fixture, POOL_FX_ASK_USE, i % 4 == 3));
        fixture_advance(&fixture, 41 * NS_PER_S);
        assert_non_null(fixture_box(&fixture, "t1"));
    }
}

static void test_a_box_without_an_agent(void **state)
{
    (void) state;
    fixture.use = POOL_USE_CANNOT;
    start_with_lease();
    fixture_advance(&fixture, 39 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_int_equal(end_of_t1(), POOL_END_IDLE);
    assert_int_equal(fixture.effects[POOL_FX_ASK_USE], 1);
}

/* Its owner comes back while the agent is asked. */
static void test_use_while_it_is_asked(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY, .u.activity.delta = 1};

    (void) state;
    fixture.hold.use = true;
    start_with_lease();
    fixture_advance(&fixture, 41 * NS_PER_S);
    ev.box = fixture_box(&fixture, "t1")->id;
    fixture_send(&fixture, &ev);
    assert_true(fixture_answer(&fixture, POOL_FX_ASK_USE, true)); /* nothing, long ago */
    fixture_advance(&fixture, 100 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
}

/* The answer to a question of an earlier lease does not apply to this one. */
static void test_an_answer_from_before(void **state)
{
    (void) state;
    fixture.hold.use = true;
    fixture.config.profiles[0].park_ns = 1000 * NS_PER_S;
    start_with_lease();
    fixture_advance(&fixture, 41 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false)),
                     SP_OK);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", 0)), SP_OK);
    fixture_advance(&fixture, 41 * NS_PER_S);
    assert_true(fixture_answer(&fixture, POOL_FX_ASK_USE, true)); /* of the first: dropped */
    assert_non_null(fixture_box(&fixture, "t1"));
    assert_true(fixture_answer(&fixture, POOL_FX_ASK_USE, true));
    assert_null(fixture_box(&fixture, "t1"));
}

/* Many are asked in turn, even if the first do not answer for a while. */
static void test_many_at_once(void **state)
{
    (void) state;
    fixture.hold.use = true;
    fixture_start(&fixture);
    for (int i = 0; i < 90; i++) {
        char who[16];

        snprintf(who, sizeof(who), "m%d", i);
        assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", who, NS_PER_S)),
                         SP_OK);
    }
    fixture_advance(&fixture, 41 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_ASK_USE], 64);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 90);
    assert_true(fixture_answer(&fixture, POOL_FX_ASK_USE, true));
    assert_int_equal(fixture.effects[POOL_FX_ASK_USE], 65);
    while (fixture_answer(&fixture, POOL_FX_ASK_USE, true)) {
    }
    assert_int_equal(fixture.effects[POOL_FX_ASK_USE], 90);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 0);
}

static struct pool_box leased_row(uint64_t active_ns, uint64_t idle_ns)
{
    struct pool_box row = {.id = {7}, .state = POOL_LEASED, .generation = 1};

    snprintf(row.sandbox_id, sizeof(row.sandbox_id), "s-t1");
    snprintf(row.user, sizeof(row.user), "u");
    snprintf(row.thread, sizeof(row.thread), "t1");
    row.spec_hash = fixture.config.profiles[0].spec_hash;
    row.expires_ns = POOL_NEVER;
    row.idle_ns = idle_ns;
    row.active_ns = active_ns;
    return row;
}

static void restart_with(const struct pool_box *row)
{
    fixture_stop(&fixture);
    fixture.held_count = 0;
    fixture.pool = pool_new(&fixture.config);
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, row));
    fixture_start(&fixture);
}

/* After a restart the agent is asked as before, with a row that says nothing of its work. */
static void test_a_restart(void **state)
{
    struct pool_box row = leased_row(900 * NS_PER_S, 10 * NS_PER_S);

    (void) state;
    fixture.use = POOL_USE_BUSY;
    restart_with(&row);
    fixture_advance(&fixture, 100 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    assert_true(fixture.writes[POOL_WRITE_LEASE] + fixture.writes[POOL_WRITE_BOX] >=
                10); /* kept stored */
}

/* The row may be behind by a quarter of the limit, but nobody uses a box in the future. */
static void test_when_a_restored_box_ends(void **state)
{
    static const unsigned used_before_s[] = {0, 1, 10, 24, 25, 26, 60, 99};
    const uint64_t limit_ns = 100 * NS_PER_S;
    const char *by;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(used_before_s); i++) {
        uint64_t used_ns = fixture.now_ns - used_before_s[i] * NS_PER_S;
        struct pool_box row = leased_row(used_ns, limit_ns);
        uint64_t ends_ns;

        restart_with(&row);
        ends_ns = pool_ends(fixture.pool, fixture_box(&fixture, "t1"), &by);
        assert_string_equal(by, "idle");
        assert_true(ends_ns <= fixture.now_ns + limit_ns);
        assert_true(ends_ns <= used_ns + limit_ns + limit_ns / 4);
        assert_true(ends_ns >= used_ns + limit_ns);
        assert_true(ends_ns == MIN_OF(fixture.now_ns, used_ns + limit_ns / 4) + limit_ns);
    }
}

/* The machine's clock was set back: the row is of the future. */
static void test_a_row_of_the_future(void **state)
{
    struct pool_box row = leased_row(fixture.now_ns + 500 * NS_PER_S, 100 * NS_PER_S);
    const char *by;

    (void) state;
    restart_with(&row);
    assert_true(pool_ends(fixture.pool, fixture_box(&fixture, "t1"), &by) ==
                fixture.now_ns + 100 * NS_PER_S);
    fixture_advance(&fixture, 99 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
}

/* However often the daemon starts, and whatever has the row written: a box that nobody uses ends. */
static void test_many_restarts(void **state)
{
    const uint64_t used_ns = fixture.now_ns;
    struct pool_box row = leased_row(used_ns, 100 * NS_PER_S);
    struct pool_seen seen = {.id = row.id, .spec_hash = 1, .generation = 1};
    const char *by;

    (void) state;
    snprintf(seen.profile, sizeof(seen.profile), "default");
    snprintf(seen.sandbox_id, sizeof(seen.sandbox_id), "s-t1");
    snprintf(seen.user, sizeof(seen.user), "u");
    snprintf(seen.thread, sizeof(seen.thread), "t1");
    fixture.hold.store = true;
    for (unsigned i = 0; i < 12; i++) {
        restart_with(&row);
        assert_true(pool_ends(fixture.pool, fixture_box(&fixture, "t1"), &by) <=
                    used_ns + 125 * NS_PER_S);
        snprintf(seen.url, sizeof(seen.url), "http://127.0.0.1:%u", 8000 + i);
        fixture_list(&fixture, true, &seen, 1);
        assert_non_null(fixture_held(&fixture, POOL_FX_STORE));
        row = fixture_held(&fixture, POOL_FX_STORE)->snapshot;
        assert_int_equal(row.state, POOL_LEASED);
        fixture_advance(&fixture, 10 * NS_PER_S);
    }
    fixture.hold.store = false;
    restart_with(&row);
    fixture_advance(&fixture, 10 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
}

/* What a restart forgives has not happened: the store must hear of a use as if it had not been forgiven. */
static void test_use_after_a_restart_reaches_the_store(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY};
    struct pool_box row = leased_row(fixture.now_ns - 25 * NS_PER_S, 100 * NS_PER_S);

    (void) state;
    fixture.hold.store = true;
    restart_with(&row);
    fixture_advance(&fixture, 20 * NS_PER_S);
    assert_null(fixture_held(&fixture, POOL_FX_STORE));
    ev.box = row.id;
    fixture_send(&fixture, &ev);
    assert_non_null(fixture_held(&fixture, POOL_FX_STORE));
    assert_true(fixture_held(&fixture, POOL_FX_STORE)->snapshot.active_ns == fixture.now_ns);
}

static void test_when_it_ends(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY, .u.activity.delta = 1};
    const char *by;
    uint64_t from_ns;

    (void) state;
    fixture.config.profiles[0].ttl_ns = 60 * NS_PER_S;
    fixture.config.profiles[0].park_ns = 30 * NS_PER_S;
    start_with_lease();
    from_ns = fixture.now_ns;
    assert_true(pool_ends(fixture.pool, fixture_box(&fixture, "t1"), &by) ==
                from_ns + 40 * NS_PER_S);
    assert_string_equal(by, "idle");
    ev.box = fixture_box(&fixture, "t1")->id;
    fixture_send(&fixture, &ev);
    assert_true(pool_ends(fixture.pool, fixture_box(&fixture, "t1"), &by) ==
                from_ns + 60 * NS_PER_S);
    assert_string_equal(by, "ttl");
    fixture_advance(&fixture, 5 * NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    assert_true(pool_ends(fixture.pool, fixture_box(&fixture, "t1"), &by) ==
                fixture.now_ns + 30 * NS_PER_S);
    assert_string_equal(by, "parked");
    fixture_advance(&fixture, 31 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_job_is_never_killed, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_use_that_the_daemon_did_not_see, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_an_agent_that_lies, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_ttl_ends_a_job, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_ttl_ends_a_box_that_is_asked, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_an_agent_that_does_not_answer, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_an_agent_that_answers_late, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_box_without_an_agent, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_use_while_it_is_asked, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_an_answer_from_before, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_many_at_once, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_restart, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_when_a_restored_box_ends, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_row_of_the_future, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_many_restarts, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_use_after_a_restart_reaches_the_store, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_when_it_ends, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_use_during_a_release_that_fails, setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests_name("pool_idle", tests, NULL, NULL);
}
