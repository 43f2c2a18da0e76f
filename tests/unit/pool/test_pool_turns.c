/* test_pool_turns.c - who is served next: principals in turn, then their users, then as they came;
 * and how much of the queue one principal may have. */
#include <stdio.h>
#include <string.h>

#include "base/rand.h"
#include "fixture.h"

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.max_boxes = 1;
    fixture.config.max_waiters = 200;
    fixture.config.profile_count = 2;
    fixture.config.profiles[1] = fixture.config.profiles[0];
    snprintf(fixture.config.profiles[1].name, sizeof(fixture.config.profiles[1].name), "other");
    return 0;
}

struct ask {
    uint64_t req;
    uint64_t principal;
    unsigned user;
    unsigned profile;
    bool is_special;
    bool has_left;
    char who[24];
    unsigned passed[8]; /* how often each principal was served from its line meanwhile */
};

static struct ask asks[FIXTURE_FX_MAX];
static unsigned ask_count;

static struct ask *ask(uint64_t principal, unsigned user, unsigned profile, bool is_special)
{
    struct ask *a = &asks[ask_count];
    struct pool_acquire more = {
        .principal = principal, .profile = profile, .is_special = is_special};
    char name[16];

    *a = (struct ask){
        .principal = principal, .user = user, .profile = profile, .is_special = is_special};
    snprintf(name, sizeof(name), "u%u", user);
    snprintf(a->who, sizeof(a->who), "t%u", ask_count);
    ask_count++;
    a->req = fixture_acquire_with(&fixture, name, a->who, 100 * NS_PER_S, &more);
    return a;
}

static bool is_waiting(const struct ask *a)
{
    return !a->has_left && fixture_code(&fixture, a->req) == -1000;
}

static void end(const struct ask *a)
{
    struct pool_event ev = {.kind = POOL_EV_DESTROY};

    fixture.req++;
    ev.req.v = fixture.req;
    ev.u.on.is_operator = true;
    snprintf(ev.u.on.sandbox_id, sizeof(ev.u.on.sandbox_id), "s-%s", a->who);
    fixture_send(&fixture, &ev);
}

/* The only box ends, and another caller is served; which? */
static struct ask *next(struct ask *holder)
{
    struct ask *served = NULL;
    bool waited[FIXTURE_FX_MAX];

    for (unsigned i = 0; i < ask_count; i++)
        waited[i] = is_waiting(&asks[i]);
    end(holder);
    for (unsigned i = 0; i < ask_count; i++)
        if (waited[i] && !is_waiting(&asks[i])) {
            assert_null(served);
            assert_int_equal(fixture_code(&fixture, asks[i].req), SP_OK);
            served = &asks[i];
        }
    return served;
}

static struct ask *begin(void)
{
    ask_count = 0;
    fixture_start(&fixture);
    return ask(1, 0, 0, false);
}

/* Invented names do not give a caller more turns. */
static void test_many_users_of_one_principal(void **state)
{
    struct ask *holder = begin();
    struct ask *victim;

    (void) state;
    for (unsigned i = 0; i < 100; i++)
        (void) ask(1, i, 0, false);
    victim = ask(2, 0, 0, false);
    holder = next(holder);
    assert_int_equal(holder->principal, 1);
    assert_ptr_equal(next(holder), victim);
}

/* Waiting for boxes of another kind does not either, if there is no room. */
static void test_many_in_another_profile(void **state)
{
    struct ask *holder = begin();
    struct ask *victim;

    (void) state;
    for (unsigned i = 0; i < 50; i++) {
        (void) ask(1, i, 0, false);
        (void) ask(1, i, 0, true);
    }
    victim = ask(2, 0, 1, false);
    holder = next(holder);
    assert_int_equal(holder->principal, 1);
    assert_ptr_equal(next(holder), victim);
}

static void test_users_of_a_principal_take_turns(void **state)
{
    struct ask *holder = begin();
    unsigned order[6];

    (void) state;
    for (unsigned i = 0; i < 4; i++)
        (void) ask(1, 7, 0, false);
    (void) ask(1, 8, 0, false);
    (void) ask(1, 9, 0, false);
    for (unsigned i = 0; i < 6; i++) {
        holder = next(holder);
        order[i] = holder->user;
    }
    assert_int_equal(order[0], 7);
    assert_int_equal(order[1], 8);
    assert_int_equal(order[2], 9);
    assert_int_equal(order[3], 7);
}

/* A waiter is passed over at most once by each other principal of its line. */
static void note_pass(struct ask *served)
{
    for (unsigned i = 0; i < ask_count; i++) {
        struct ask *a = &asks[i];
        bool is_same_line = a->profile == served->profile && a->is_special == served->is_special;

        if (a->principal == served->principal) {
            memset(a->passed, 0, sizeof(a->passed)); /* its principal had its turn */
            continue;
        }
        if (!is_waiting(a) || !is_same_line)
            continue;
        a->passed[served->principal]++;
        if (a->passed[served->principal] > 1)
            fail_msg("%s of %u was passed over twice by %u", a->who, (unsigned) a->principal,
                     (unsigned) served->principal);
    }
}

static void test_nobody_is_passed_over_twice(void **state)
{
    (void) state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rand rand;
        struct ask *holder;

        fixture_stop(&fixture);
        (void) setup(NULL);
        rand_seed(&rand, seed);
        holder = begin();
        for (unsigned i = 0; i < 120; i++) {
            struct ask *served;

            /* the first principal asks most */
            for (uint64_t n = rand_below(&rand, 3); n > 0; n--)
                (void) ask(rand_below(&rand, 2) == 0 ? 1 : rand_between(&rand, 2, 6),
                           (unsigned) rand_below(&rand, 5), (unsigned) rand_below(&rand, 2),
                           rand_below(&rand, 3) == 0);
            if (rand_below(&rand, 10) == 0) {
                struct ask *left = &asks[rand_below(&rand, ask_count)];

                if (is_waiting(left))
                    fixture_abandon(&fixture, left->req);
                left->has_left = true;
            }
            served = next(holder);
            if (served == NULL)
                served = ask(1, 0, 0, false);
            note_pass(served);
            holder = served;
        }
    }
}

static void test_shares_of_the_queue(void **state)
{
    unsigned first = 0;
    unsigned second = 0;
    struct ask *late;

    (void) state;
    fixture.config.max_waiters = 50;
    fixture.config.share_percent = 80;
    (void) begin();
    while (is_waiting(ask(1, 0, 0, false)))
        first++;
    assert_int_equal(first, 40);
    late = &asks[ask_count - 1];
    assert_int_equal(fixture_code(&fixture, late->req), SP_QUEUE_FULL);
    assert_non_null(strstr(fixture_reply(&fixture, late->req)->reason, "share"));
    while (is_waiting(ask(2, 0, 0, false)))
        second++;
    assert_true(second >= 5);
    assert_true(is_waiting(ask(3, 0, 0, false))); /* there is always room for one more */
    for (unsigned i = 1; i <= 20; i++)            /* what becomes free is for those who have less */
        fixture_abandon(&fixture, asks[i].req);
    assert_true(is_waiting(ask(2, 0, 0, false)));
}

static void test_one_alone_may_fill_a_small_queue(void **state)
{
    (void) state;
    fixture.config.max_waiters = 3;
    fixture.config.share_percent = 90;
    (void) begin();
    for (unsigned i = 0; i < 3; i++)
        assert_true(is_waiting(ask(1, 0, 0, false)));
    assert_int_equal(fixture_code(&fixture, ask(1, 0, 0, false)->req), SP_QUEUE_FULL);
}

/* The extras that a box is made with depend on what its profile's backend can apply later: a hash
 * computed for one profile is not used for another one when a waiter takes over the turn of one
 * that has left. */
static void test_heir_keeps_its_profile(void **state)
{
    struct pool_acquire with = {.is_special = true, .made_with = 7};
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "holds", NS_PER_S);
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &with);
    with.profile = 1;
    (void) fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &with);
    fixture_abandon(&fixture, a);
    fixture.hold.create = true;
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "holds", 0, true);
    assert_string_equal(fixture_held(&fixture, POOL_FX_CREATE)->snapshot.sandbox_id, "s-t1");
    assert_int_equal(fixture_held(&fixture, POOL_FX_CREATE)->snapshot.profile, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_many_users_of_one_principal, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_many_in_another_profile, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_users_of_a_principal_take_turns, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_nobody_is_passed_over_twice, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_shares_of_the_queue, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_one_alone_may_fill_a_small_queue, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_heir_keeps_its_profile, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
