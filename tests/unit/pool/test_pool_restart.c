/* test_pool_restart.c - one test per row of the table of a restart: what the store has, what the
 * backend reports, what is done. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.restore_max = 32;
    fixture.pool = pool_new(&fixture.config);
    return 0;
}

static void restore(uint64_t id, enum pool_state state, const char *who)
{
    struct pool_box row = fixture_row(id, state, who);

    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
}

static void test_leased_and_running(void **state)
{
    struct pool_seen seen[] = {fixture_seen(1, "t1"), fixture_seen(2, "t2")};
    uint64_t a;

    (void) state;
    restore(1, POOL_LEASED, "t1");
    restore(2, POOL_PARKED, "t2");
    fixture_start(&fixture);
    assert_true(pool_find_box(fixture.pool, (struct box_id){1})->is_unseen);
    fixture_list(&fixture, true, seen, 2);
    assert_int_equal(fixture_state(&fixture, 1), POOL_LEASED);
    assert_int_equal(fixture_state(&fixture, 2), POOL_PARKED);
    assert_false(pool_find_box(fixture.pool, (struct box_id){1})->is_unseen);
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_KEPT);
    assert_true(fixture_reply(&fixture, a)->snapshot.generation == 3);
    a = fixture_acquire(&fixture, "u", "t2", 0);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_PARKED);
    assert_int_equal(fixture.effects[POOL_FX_CHECK], 0);
}

/* By the backend's own name: another box under a known id is not ours; a name that extends it
 * is. */
static void test_another_under_its_id(void **state)
{
    struct pool_seen seen[] = {fixture_seen(1, NULL), fixture_seen(2, NULL), fixture_seen(0, "t3"),
                               fixture_seen(0, "t4")};

    (void) state;
    for (uint64_t i = 1; i <= 4; i++) {
        static const char *const refs[] = {"a@1", "b", "c@1", "sp-4"};
        char who[8];
        struct pool_box row;

        snprintf(who, sizeof(who), "t%u", (unsigned) i);
        row = fixture_row(i, POOL_LEASED, who);
        snprintf(row.ref, sizeof(row.ref), "%s", refs[i - 1]);
        assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
    }
    snprintf(seen[0].ref, sizeof(seen[0].ref), "a@2"); /* made anew by somebody */
    snprintf(seen[1].ref, sizeof(seen[1].ref), "b@1");
    snprintf(seen[2].ref, sizeof(seen[2].ref), "c@1");
    snprintf(seen[3].ref, sizeof(seen[3].ref), "s-t4@1"); /* somebody's, under our thread's id */
    snprintf(seen[3].url, sizeof(seen[3].url), "http://elsewhere");
    fixture_start(&fixture);
    fixture.verdict = POOL_DEAD; /* for those that it does not show */
    fixture_list(&fixture, true, seen, 4);
    assert_int_not_equal(fixture_state(&fixture, 1), POOL_LEASED);
    assert_int_equal(fixture_state(&fixture, 2), POOL_LEASED);
    assert_string_equal(pool_find_box(fixture.pool, (struct box_id){2})->ref, "b@1");
    assert_int_equal(fixture_state(&fixture, 3), POOL_LEASED);
    assert_int_not_equal(fixture_state(&fixture, 4), POOL_LEASED); /* it was not in the list */
}

/* The labels are the second record: a bind that was lost is repeated. */
static void test_labels_that_name_nobody(void **state)
{
    struct pool_seen seen[] = {fixture_seen(1, NULL), fixture_seen(2, "t2"), fixture_seen(3, "t3")};

    (void) state;
    restore(1, POOL_LEASED, "t1");
    restore(2, POOL_PARKED, "t2");
    restore(3, POOL_LEASED, "t3");
    seen[2].generation = 2;
    fixture_start(&fixture);
    fixture_list(&fixture, true, seen, 3);
    assert_int_equal(fixture.effects[POOL_FX_BIND], 2);
    seen[0] = fixture_seen(1, "t1");
    seen[2] = fixture_seen(3, "t3");
    fixture_list(&fixture, true, seen, 3);
    assert_int_equal(fixture.effects[POOL_FX_BIND], 2);
}

/* Before any listing has shown it, a box is checked before a caller gets it. */
static void test_leased_and_not_listed_yet(void **state)
{
    uint64_t a;

    (void) state;
    restore(1, POOL_LEASED, "t1");
    restore(2, POOL_LEASED, "t2");
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture.effects[POOL_FX_CHECK], 1);
    fixture.verdict = POOL_DEAD;
    a = fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_COLD);
    assert_true(fixture_reply(&fixture, a)->snapshot.generation == 4);
}

static void test_blank_and_running(void **state)
{
    struct pool_seen seen = fixture_seen(1, NULL);
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &fixture.config};
    uint64_t a;

    (void) state;
    restore(1, POOL_BLANK, NULL);
    fixture_start(&fixture);
    fixture.config.profiles[0].warm_min = 1;
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 0); /* it counts, though nobody gets it yet */
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_not_equal(fixture_code(&fixture, a), SP_OK);
    fixture.hold.probe = true;
    fixture_list(&fixture, true, &seen, 1);
    assert_int_equal(fixture_state(&fixture, 1), POOL_STARTING);
    assert_true(fixture_answer(&fixture, POOL_FX_PROBE, true));
    assert_int_equal(fixture_state(&fixture, 1), POOL_BLANK);
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_WARM);
    assert_true(fixture_reply(&fixture, a)->box.v == 1);
}

static void test_intent_and_running(void **state)
{
    struct pool_seen seen[] = {fixture_seen(1, NULL), fixture_seen(2, "t2"), fixture_seen(3, "t3")};
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &fixture.config};
    uint64_t a;

    (void) state;
    restore(1, POOL_INTENT, NULL);
    restore(2, POOL_INTENT, "t2");
    restore(3, POOL_INTENT, NULL); /* its labels name an owner the row does not know */
    fixture_start(&fixture);
    fixture.config.profiles[0].warm_min = 1;
    fixture_send(&fixture, &ev);
    a = fixture_acquire(&fixture, "u", "t2", 60 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    fixture_list(&fixture, true, seen, 3);
    assert_int_equal(fixture_state(&fixture, 1), POOL_BLANK);
    assert_int_equal(fixture_code(&fixture, a), SP_OK); /* handed to its thread */
    assert_true(fixture_reply(&fixture, a)->box.v == 2);
    assert_int_equal(fixture_state(&fixture, 3), POOL_PARKED); /* kept for whom the labels name */
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
}

static void test_intent_and_absent(void **state)
{
    (void) state;
    restore(1, POOL_INTENT, NULL);
    fixture_start(&fixture);
    fixture.verdict = POOL_DEAD;
    fixture_list(&fixture, true, NULL, 0);
    assert_int_equal(fixture_state(&fixture, 1), POOL_FREE);
    assert_int_equal(fixture.writes[POOL_WRITE_FORGET], 1);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
}

static void test_deleting_and_running(void **state)
{
    (void) state;
    restore(1, POOL_DOOMED, "t1");
    fixture_start(&fixture);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
    assert_int_equal(fixture_state(&fixture, 1), POOL_FREE);
    assert_int_equal(fixture.writes[POOL_WRITE_FORGET], 1);
}

static void test_deleting_and_absent(void **state)
{
    (void) state;
    fixture.hold.destroy = true;
    restore(1, POOL_DOOMED, NULL);
    fixture_start(&fixture);
    assert_true(
        fixture_answer(&fixture, POOL_FX_DESTROY, false)); /* it cannot destroy what is not there */
    fixture.verdict = POOL_DEAD;
    fixture_list(&fixture, true, NULL, 0);
    assert_int_equal(fixture_state(&fixture, 1), POOL_FREE);
}

static void test_any_and_absent(void **state)
{
    (void) state;
    restore(1, POOL_LEASED, "t1");
    restore(2, POOL_PARKED, "t2");
    restore(3, POOL_BLANK, NULL);
    fixture_start(&fixture);
    fixture.verdict = POOL_DEAD;
    fixture_list(&fixture, true, NULL, 0);
    assert_int_equal(fixture.facts[POOL_FACT_LOST], 3);
    assert_int_equal(fixture_state(&fixture, 1), POOL_FREE);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RENEW, "t1", 3, false)),
                     SP_SANDBOX_LOST);
    assert_int_equal(fixture_reply(&fixture, fixture.req)->u.reply.lost, POOL_END_DIED);
}

static void test_listing_failed(void **state)
{
    (void) state;
    restore(1, POOL_LEASED, "t1");
    restore(2, POOL_BLANK, NULL);
    restore(3, POOL_INTENT, NULL);
    fixture_start(&fixture);
    fixture_list(&fixture, false, NULL, 0);
    assert_int_equal(fixture_state(&fixture, 1), POOL_LEASED);
    assert_int_equal(fixture_state(&fixture, 2), POOL_BLANK);
    assert_int_equal(fixture_state(&fixture, 3), POOL_INTENT);
}

/* A listing that began before the box was made proves nothing about it. */
static void test_listing_is_older(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_LISTED};

    (void) state;
    fixture_start(&fixture);
    ev.u.listed.is_clean = true;
    ev.u.listed.started_ns = fixture.now_ns;
    fixture_advance(&fixture, NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture_send(&fixture, &ev);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
}

static void test_orphan_is_adopted(void **state)
{
    struct pool_seen seen[] = {fixture_seen(1, NULL), fixture_seen(2, "t2")};
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &fixture.config};
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    fixture_list(&fixture, true, seen, 2);
    assert_int_equal(fixture.facts[POOL_FACT_ADOPTED], 1);
    assert_int_equal(fixture_state(&fixture, 2), POOL_PARKED);
    assert_int_equal(fixture_state(&fixture, 1), POOL_FREE);
    fixture_list(&fixture, true, seen, 2); /* nothing proves that nobody had it: never blank */
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 0);
    fixture.config.profiles[0].warm_min = 1;
    fixture_send(&fixture, &ev);
    a = fixture_acquire(&fixture, "u", "t2", 0);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_PARKED);
    assert_true(fixture_reply(&fixture, a)->box.v == 2);
    assert_true(fixture_reply(&fixture, a)->snapshot.generation == 3);
}

static struct pool_seen claim_of(uint64_t id, const char *who, uint64_t principal)
{
    struct pool_seen seen = fixture_seen(id, who);

    seen.principal = principal;
    return seen;
}

/* An older copy of the database: the row is blank, the labels name an owner. */
static void test_labels_win(void **state)
{
    struct pool_seen seen[] = {claim_of(1, "t1", 1001), claim_of(2, "t2", 1001),
                               claim_of(3, "t3", 1001), claim_of(4, "t4", 1001),
                               claim_of(5, "t5", 1001)};
    struct pool_acquire owner = {.principal = 1001};
    struct pool_acquire other = {.principal = 1002};
    uint64_t a;

    (void) state;
    restore(1, POOL_BLANK, NULL);
    restore(2, POOL_BLANK, NULL);
    restore(3, POOL_BLANK, NULL);
    restore(4, POOL_LEASED, "t9");
    restore(5, POOL_INTENT, NULL);
    restore(9, POOL_LEASED, "t2");                               /* its id is taken */
    pool_restore_past(fixture.pool, "s-t3", 3, POOL_END_TTL, 0); /* that binding has ended */
    fixture_start(&fixture);
    for (int i = 0; i < 2; i++) {
        fixture_advance(&fixture, NS_PER_S);
        fixture_list(&fixture, true,
                     (struct pool_seen[]){seen[0], seen[1], seen[2], seen[3], seen[4],
                                          fixture_seen(9, "t2")},
                     6);
        assert_int_equal(fixture_count(&fixture, POOL_BLANK), i == 0 ? 2 : 0); /* not yet decided */
    }
    assert_int_equal(fixture_state(&fixture, 1), POOL_PARKED);
    assert_int_equal(fixture_state(&fixture, 5), POOL_PARKED);
    assert_int_equal(fixture_state(&fixture, 9), POOL_LEASED);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 3);
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &other);
    assert_int_equal(fixture_code(&fixture, a), SP_FORBIDDEN);
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &owner);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(fixture_reply(&fixture, a)->box.v == 1);
    a = fixture_acquire_with(&fixture, "u", "t7", NS_PER_S, &other);
    assert_true(fixture_reply(&fixture, a)->box.v > 9);
}

/* Rows that may be old, and labels without an owner: nobody gets such a box. */
static void test_stale_rows(void **state)
{
    struct pool_seen seen[] = {fixture_seen(1, NULL), fixture_seen(2, NULL), fixture_seen(3, "t3"),
                               fixture_seen(4, "t4")};
    struct pool_box row;

    (void) state;
    for (uint64_t i = 1; i <= 4; i++) {
        static const enum pool_state states[] = {POOL_BLANK, POOL_INTENT, POOL_BLANK, POOL_PARKED};

        row = fixture_row(i, states[i - 1], i == 4 ? "t4" : NULL);
        row.is_stale = true;
        assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
    }
    fixture.hold.destroy = true;
    fixture_start(&fixture);
    for (int i = 0; i < 2; i++) { /* also while they are being destroyed */
        fixture_advance(&fixture, NS_PER_S);
        fixture_list(&fixture, true, seen, 4);
    }
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 2);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 0);
    assert_int_equal(fixture_state(&fixture, 3), POOL_PARKED);
    assert_int_equal(fixture_state(&fixture, 4), POOL_PARKED);
}

static void test_orphan_is_seen_twice(void **state)
{
    struct pool_seen seen[] = {fixture_seen(1, "t1"), fixture_seen(2, NULL), fixture_seen(3, "t3")};

    (void) state;
    restore(9, POOL_LEASED, "t1"); /* its id is taken */
    memcpy(seen[1].profile, "gone", 5);
    pool_restore_past(fixture.pool, "s-t3", 3, POOL_END_TTL, 0); /* that binding has ended */
    fixture_start(&fixture);
    fixture_list(&fixture, false, NULL, 0);
    fixture_list(&fixture, true,
                 (struct pool_seen[]){seen[0], seen[1], seen[2], fixture_seen(9, "t1")}, 4);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
    fixture_list(&fixture, true,
                 (struct pool_seen[]){seen[0], seen[1], seen[2], fixture_seen(9, "t1")}, 4);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 3);
    assert_int_equal(fixture_state(&fixture, 9), POOL_LEASED);
    assert_int_equal(pool_find_past(fixture.pool, "s-t3", NULL, NULL), POOL_END_TTL);
}

static void test_past_its_idle_time(void **state)
{
    struct pool_seen seen[] = {fixture_seen(1, "t1"), fixture_seen(2, "t2")};
    struct pool_box idle = fixture_row(1, POOL_LEASED, "t1");
    struct pool_box parked = fixture_row(2, POOL_PARKED, "t2");

    (void) state;
    idle.idle_ns = 10 * NS_PER_S;
    idle.active_ns = 900 * NS_PER_S;
    parked.parked_ns = 800 * NS_PER_S;
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &idle));
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &parked));
    fixture_start(&fixture);
    fixture_list(&fixture, true, seen, 2);
    assert_int_equal(fixture_state(&fixture, 1), POOL_FREE);
    assert_int_equal(fixture_state(&fixture, 2), POOL_FREE);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 2);
}

/* A crash happened between the end of an old box and its row. */
static void test_two_rows_with_one_id(void **state)
{
    struct pool_box old = fixture_row(1, POOL_LEASED, "t1");

    (void) state;
    old.generation = 2;
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &old));
    restore(2, POOL_LEASED, "t1");
    restore(3, POOL_LEASED, "t3");
    pool_restore_past(fixture.pool, "s-t3", 8, POOL_END_TTL, 0);
    restore(4, POOL_INTENT, "t4"); /* came to nothing, and its end could not be stored */
    restore(5, POOL_LEASED, "t4");
    restore(6, POOL_PARKED, "t6");
    restore(7, POOL_STARTING, "t6");
    fixture_start(&fixture);
    assert_int_equal(fixture_state(&fixture, 4), POOL_FREE);
    assert_int_equal(fixture_state(&fixture, 5), POOL_LEASED);
    assert_int_equal(fixture_state(&fixture, 6), POOL_PARKED);
    assert_int_equal(fixture_state(&fixture, 7), POOL_FREE);
    assert_int_equal(fixture_state(&fixture, 1), POOL_FREE);
    assert_int_equal(fixture_state(&fixture, 2), POOL_LEASED);
    assert_int_equal(fixture_state(&fixture, 3), POOL_FREE);
    assert_true(fixture_box(&fixture, "t1")->id.v == 2);
}

static void test_more_rows_than_the_cap(void **state)
{
    uint64_t a;

    (void) state;
    for (uint64_t i = 1; i <= 12; i++) {
        char who[8];

        snprintf(who, sizeof(who), "t%u", (unsigned) i);
        restore(i, i <= 10 ? POOL_LEASED : POOL_PARKED, who);
    }
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "new", 60 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 0);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 0); /* evicted, and still over the cap */
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 10);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, true);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t2", 0, true);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t3", 0, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_leased_and_running, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_another_under_its_id, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_labels_that_name_nobody, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_leased_and_not_listed_yet, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_blank_and_running, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_intent_and_running, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_intent_and_absent, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_deleting_and_running, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_deleting_and_absent, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_any_and_absent, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_listing_failed, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_listing_is_older, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_orphan_is_adopted, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_labels_win, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_stale_rows, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_orphan_is_seen_twice, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_past_its_idle_time, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_two_rows_with_one_id, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_more_rows_than_the_cap, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
