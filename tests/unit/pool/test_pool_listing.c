/* test_pool_listing.c - a clean listing that does not show a running box proves nothing: the
 * backend is asked for each missing box before it counts as dead. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

#define BOXES 40U

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.max_boxes = BOXES;
    fixture.config.restore_max = BOXES;
    fixture.pool = pool_new(&fixture.config);
    return 0;
}

static void restore(uint64_t id, enum pool_state state)
{
    struct pool_box row = {.id = {id}, .state = state, .spec_hash = 1};

    row.expires_ns = POOL_NEVER;
    row.idle_ns = POOL_NEVER;
    row.created_ns = 900 * NS_PER_S;
    row.parked_ns = 990 * NS_PER_S;
    row.active_ns = 990 * NS_PER_S;
    if (state != POOL_BLANK) {
        snprintf(row.sandbox_id, sizeof(row.sandbox_id), "s-t%u", (unsigned) id);
        snprintf(row.thread, sizeof(row.thread), "t%u", (unsigned) id);
        snprintf(row.user, sizeof(row.user), "u");
        row.generation = 3;
    }
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
}

static struct pool_seen seen_of(uint64_t id)
{
    struct pool_seen seen = {.id = {id}, .profile = "default", .spec_hash = 1, .generation = 3};

    snprintf(seen.sandbox_id, sizeof(seen.sandbox_id), "s-t%u", (unsigned) id);
    snprintf(seen.thread, sizeof(seen.thread), "t%u", (unsigned) id);
    snprintf(seen.user, sizeof(seen.user), "u");
    return seen;
}

static unsigned held_checks(void)
{
    unsigned count = 0;

    for (size_t i = 0; i < fixture.held_count; i++)
        count += fixture.held[i].kind == POOL_FX_CHECK ? 1 : 0;
    return count;
}

/* Leased boxes that a first listing has shown. */
static void start_leased(unsigned count)
{
    static struct pool_seen seen[BOXES];

    for (unsigned i = 0; i < count; i++) {
        restore(i + 1, POOL_LEASED);
        seen[i] = seen_of(i + 1);
    }
    fixture_start(&fixture);
    fixture_list(&fixture, true, seen, count);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), count);
    assert_int_equal(fixture.effects[POOL_FX_CHECK], 0);
}

static void test_empty_but_all_run(void **state)
{
    (void) state;
    start_leased(BOXES);
    fixture.hold.check = true;
    fixture_list(&fixture, true, NULL, 0);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), BOXES);
    assert_int_equal(fixture.facts[POOL_FACT_MISSING], 1);
    assert_in_range(held_checks(), 1, 16); /* not all at once */
    for (unsigned i = 0; i < BOXES; i++) {
        assert_true(fixture_answer(&fixture, POOL_FX_CHECK, true));
        assert_in_range(held_checks(), 0, 16);
    }
    assert_int_equal(held_checks(), 0);
    assert_int_equal(fixture.effects[POOL_FX_CHECK], BOXES);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), BOXES);
    assert_int_equal(fixture.facts[POOL_FACT_LOST], 0);
}

/* The machine was restarted: all of them are really gone, and it does not take long. */
static void test_empty_and_all_dead(void **state)
{
    (void) state;
    start_leased(BOXES);
    fixture.verdict = POOL_DEAD;
    fixture_list(&fixture, true, NULL, 0);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 0);
    assert_int_equal(fixture.facts[POOL_FACT_LOST], BOXES);
}

static void test_part_of_them(void **state)
{
    struct pool_seen seen[2];

    (void) state;
    start_leased(6);
    fixture.hold.check = true;
    seen[0] = seen_of(2);
    seen[1] = seen_of(5);
    fixture_list(&fixture, true, seen, 2);
    assert_int_equal(held_checks(), 4);
    fixture.verdict = POOL_DEAD;
    assert_true(fixture_answer(&fixture, POOL_FX_CHECK, true));
    fixture.verdict = POOL_ALIVE;
    fixture_answer_all(&fixture, POOL_FX_CHECK, true);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 5);
}

/* Only the last part shows that there are no more; what changes between the parts is left alone. */
static void test_in_parts(void **state)
{
    struct pool_seen seen[3] = {seen_of(1), seen_of(2), seen_of(3)};
    struct pool_event ev = {.kind = POOL_EV_LISTED};

    (void) state;
    start_leased(6);
    fixture.hold.check = true;
    fixture.now_ns += NS_PER_MS;
    ev.u.listed.is_clean = true;
    ev.u.listed.started_ns = fixture.now_ns;
    ev.u.listed.is_partial = true;
    ev.u.listed.seen = seen;
    ev.u.listed.count = 2;
    fixture_send(&fixture, &ev);
    assert_int_equal(held_checks(), 0);
    fixture.now_ns += NS_PER_MS;
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t5", 0, false);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 1);
    ev.u.listed.is_later = true;
    ev.u.listed.seen = &seen[2];
    ev.u.listed.count = 1;
    fixture_send(&fixture, &ev);
    assert_int_equal(held_checks(), 0);
    ev.u.listed.count = 0;
    ev.u.listed.look = BOXES / 2;
    fixture_send(&fixture, &ev);
    ev.u.listed.is_partial = false;
    fixture_send(&fixture, &ev);
    assert_int_equal(held_checks(), 2); /* 4 and 6 */
    assert_int_equal(fixture.facts[POOL_FACT_MISSING], 1);
    assert_false(pool_is_all_listed(fixture.pool, 0));
    fixture_answer_all(&fixture, POOL_FX_CHECK, true);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 5);
    assert_true(pool_is_settled(fixture.pool, 0));
}

static void list_later(const struct pool_seen *seen, size_t count)
{
    fixture.now_ns += 60 * NS_PER_S;
    fixture_list(&fixture, true, seen, count);
}

/* A failed check proves nothing, however often; but a box that three listings in a row do not show
 * and that never answers is given up. */
static void test_unknown_keeps(void **state)
{
    struct pool_seen seen = seen_of(1);

    (void) state;
    start_leased(1);
    fixture.verdict = POOL_UNKNOWN;
    list_later(NULL, 0);
    list_later(NULL, 0);
    assert_int_equal(fixture.effects[POOL_FX_CHECK], 2);
    list_later(&seen, 1); /* there it is: all forgotten */
    list_later(NULL, 0);
    fixture_list(&fixture, false, NULL, 0);
    list_later(NULL, 0);
    for (unsigned i = 0; i < 10; i++) /* several wrong listings shortly after each other count as
                                       * one */
        fixture_list(&fixture, true, NULL, 0);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 1);
    list_later(NULL, 0);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 0);
}

/* Until then another listing is wanted. */
static void test_what_a_listing_leaves_open(void **state)
{
    struct pool_box intent = {.id = {3}, .state = POOL_INTENT, .spec_hash = 1};
    struct pool_seen seen[2] = {seen_of(1), {.id = {9}, .profile = "default", .spec_hash = 1}};

    (void) state;
    restore(1, POOL_LEASED);
    fixture_start(&fixture);
    assert_false(pool_is_settled(fixture.pool, 0)); /* not listed yet */
    assert_true(pool_is_settled(fixture.pool, 1));
    fixture_list(&fixture, true, seen, 1);
    assert_true(pool_is_settled(fixture.pool, 0));
    fixture_list(&fixture, true, seen, 2); /* a box that no row knows */
    assert_false(pool_is_settled(fixture.pool, 0));
    fixture_list(&fixture, true, seen, 2);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
    fixture_list(&fixture, true, seen, 1);
    assert_true(pool_is_settled(fixture.pool, 0));
    fixture.verdict = POOL_UNKNOWN;
    fixture_list(&fixture, true, NULL, 0);
    assert_false(pool_is_settled(fixture.pool, 0));
    fixture_list(&fixture, true, seen, 1);
    assert_true(pool_is_settled(fixture.pool, 0));
    fixture_stop(&fixture);
    fixture_init(&fixture);
    fixture.pool = pool_new(&fixture.config);
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &intent));
    fixture_start(&fixture);
    fixture_list(&fixture, true, NULL, 0); /* its maker is slow to undo it */
    assert_false(pool_is_settled(fixture.pool, 0));
    fixture.verdict = POOL_DEAD;
    fixture_list(&fixture, true, NULL, 0);
    assert_true(pool_is_settled(fixture.pool, 0));
}

/* Its owner gets no answer about it before the backend has answered. */
static void test_owner_waits_for_the_answer(void **state)
{
    uint64_t a;

    (void) state;
    start_leased(4);
    fixture.hold.check = true;
    fixture_list(&fixture, true, NULL, 0);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    assert_int_equal(fixture.effects[POOL_FX_CHECK], 4); /* one question for both */
    fixture_answer_all(&fixture, POOL_FX_CHECK, true);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_KEPT);
}

static void test_blank_is_not_given_meanwhile(void **state)
{
    uint64_t a;

    (void) state;
    fixture.pool = pool_free(fixture.pool);
    fixture.config.profiles[0].warm_min = 5;
    fixture.config.profiles[0].warm_max = 5;
    fixture.config.max_boxes = 5;
    fixture_start(&fixture);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 5);
    fixture.hold.check = true;
    fixture_list(&fixture, true, NULL, 0);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 5); /* they may be there all the same */
    assert_true(fixture_answer(&fixture, POOL_FX_CHECK, true));
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    fixture.verdict = POOL_DEAD;
    fixture_answer_all(&fixture, POOL_FX_CHECK, true);
    assert_int_equal(fixture.facts[POOL_FACT_LOST], 4);
}

/* The first listing after a start: no box has been seen yet. */
static void test_after_a_restart(void **state)
{
    struct pool_seen seen[4];
    uint64_t a;

    (void) state;
    for (unsigned i = 1; i <= 20; i++)
        restore(i, i % 2 == 0 ? POOL_LEASED : POOL_PARKED);
    for (unsigned i = 21; i <= 24; i++)
        restore(i, POOL_BLANK);
    fixture_start(&fixture);
    fixture.hold.check = true;
    fixture_list(&fixture, true, NULL, 0);
    assert_int_equal(fixture.facts[POOL_FACT_LOST], 0);
    a = fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    fixture.hold.check = false;
    fixture_answer_all(&fixture, POOL_FX_CHECK, true);
    assert_int_equal(fixture.facts[POOL_FACT_LOST], 0);
    assert_int_equal(fixture.facts[POOL_FACT_ADOPTED], 20);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED) + fixture_count(&fixture, POOL_PARKED),
                     20);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    /* Blank ones wait for a listing, which shows their labels, and then for their probe. */
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 4);
    assert_int_equal(fixture.effects[POOL_FX_PROBE], 0);
    for (unsigned i = 0; i < 4; i++) {
        seen[i] = seen_of(21 + i);
        seen[i].sandbox_id[0] = '\0';
        seen[i].thread[0] = '\0';
        seen[i].user[0] = '\0';
    }
    fixture_list(&fixture, true, seen, 4);
    assert_int_equal(fixture.effects[POOL_FX_PROBE], 4);
}

/* What was being made when the daemon stopped, and what cannot be destroyed. */
static void test_intent_and_stuck_destroy(void **state)
{
    struct pool_box intent = {.id = {1}, .state = POOL_INTENT, .spec_hash = 1};
    struct pool_box deleting = {.id = {2}, .state = POOL_DOOMED, .spec_hash = 1};

    (void) state;
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &intent));
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &deleting));
    fixture.hold.destroy = true;
    fixture_start(&fixture);
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, false));
    fixture_list(&fixture, true, NULL, 0); /* alive, says the backend */
    assert_int_equal(fixture_count(&fixture, POOL_INTENT), 1);
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
    fixture.verdict = POOL_DEAD;
    fixture_list(&fixture, true, NULL, 0);
    assert_null(pool_find_box(fixture.pool, intent.id));
    assert_null(pool_find_box(fixture.pool, deleting.id));
}

/* They were started again, and answer so: nobody gets them, but they run, and are destroyed before they are forgotten. */
static void test_intent_and_stuck_destroy_started_again(void **state)
{
    struct pool_box intent = {.id = {1}, .state = POOL_INTENT, .spec_hash = 1};
    struct pool_box deleting = {.id = {2}, .state = POOL_DOOMED, .spec_hash = 1};

    (void) state;
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &intent));
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &deleting));
    fixture.hold.destroy = true;
    fixture_start(&fixture);
    assert_true(fixture_answer(&fixture, POOL_FX_DESTROY, false));
    fixture.life = "first";
    fixture_list(&fixture, true, NULL, 0);
    fixture.life = "second";
    fixture.verdict = POOL_DEAD;
    fixture_list(&fixture, true, NULL, 0);
    assert_int_equal(fixture_state(&fixture, 1), POOL_DESTROYING);
    assert_int_equal(fixture_state(&fixture, 2), POOL_DESTROYING);
    fixture_advance(&fixture, NS_PER_S); /* tried again */
    fixture_answer_all(&fixture, POOL_FX_DESTROY, true);
    assert_null(pool_find_box(fixture.pool, intent.id));
    assert_null(pool_find_box(fixture.pool, deleting.id));
}

/* Missing while its release is being written: asked when that is done. */
static void test_missing_while_it_is_parked(void **state)
{
    (void) state;
    start_leased(5);
    fixture.hold.store = true;
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    fixture.now_ns += NS_PER_MS;
    fixture.verdict = POOL_DEAD;
    fixture_list(&fixture, true, NULL, 0);
    assert_int_equal(fixture.effects[POOL_FX_CHECK], 4);
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture.effects[POOL_FX_CHECK], 5);
    assert_null(fixture_box(&fixture, "t1"));
}

/* It died while it started, and nobody reported it: its probe would wait for a minute. */
static void test_missing_while_it_starts(void **state)
{
    (void) state;
    fixture_start(&fixture);
    fixture.hold.probe = true;
    (void) fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_STARTING), 1);
    fixture.now_ns += NS_PER_MS;
    fixture.hold.create = true; /* the next one */
    fixture.verdict = POOL_DEAD;
    fixture_list(&fixture, true, NULL, 0);
    assert_int_equal(fixture.effects[POOL_FX_CHECK], 1);
    assert_int_equal(fixture_count(&fixture, POOL_STARTING), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_empty_but_all_run, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_empty_and_all_dead, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_part_of_them, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_in_parts, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_unknown_keeps, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_what_a_listing_leaves_open, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_owner_waits_for_the_answer, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_blank_is_not_given_meanwhile, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_after_a_restart, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_intent_and_stuck_destroy, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_intent_and_stuck_destroy_started_again, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_missing_while_it_is_parked, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_missing_while_it_starts, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
