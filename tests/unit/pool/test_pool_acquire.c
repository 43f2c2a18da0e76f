/* test_pool_acquire.c - the order of an acquire, the queue and its refusals. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "fixture.h"

static void test_cold_then_kept(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    b = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_COLD);
    assert_int_equal(fixture_code(&fixture, b), SP_OK);
    assert_int_equal(fixture_reply(&fixture, b)->u.reply.source, POOL_SRC_KEPT);
    assert_true(fixture_reply(&fixture, a)->box.v == fixture_reply(&fixture, b)->box.v);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1);
}

static void test_warm_is_last_in_first_out(void **state)
{
    uint64_t a;
    struct box_id youngest = {0};
    uint64_t order = 0;

    (void) state;
    fixture.config.profiles[0].warm_min = 3;
    fixture.config.profiles[0].warm_max = 3;
    fixture_start(&fixture);
    for (size_t i = 0; i < pool_slot_count(fixture.pool); i++) {
        const struct pool_box *b = pool_slot(fixture.pool, i);

        if (b != NULL && b->order > order) {
            order = b->order;
            youngest = b->id;
        }
    }
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_WARM);
    assert_true(fixture_reply(&fixture, a)->box.v == youngest.v);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 3); /* the next one was made at once */
}

static void test_concurrent_acquires_of_a_thread(void **state)
{
    uint64_t reqs[4];

    (void) state;
    fixture.hold.create = true;
    fixture_start(&fixture);
    for (int i = 0; i < 4; i++)
        reqs[i] = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1);
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(fixture_code(&fixture, reqs[i]), SP_OK);
        assert_true(fixture_reply(&fixture, reqs[i])->box.v == fixture_box(&fixture, "t1")->id.v);
        assert_true(fixture_reply(&fixture, reqs[i])->snapshot.generation == 1);
    }
}

static void test_reply_follows_the_commit(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture_start(&fixture);
    fixture.hold.store = true;
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASING);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

static void test_wrong_callers(void **state)
{
    struct pool_acquire other = {.principal = 5};
    struct pool_acquire root = {.principal = 5, .is_operator = true};
    struct pool_acquire named = {.profile = 1, .is_profile_named = true};

    (void) state;
    fixture.config.profile_count = 2;
    fixture.config.profiles[1] = fixture.config.profiles[0];
    memcpy(fixture.config.profiles[1].name, "other", 6);
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
    assert_int_equal(fixture_code(&fixture, fixture_acquire_with(&fixture, "u", "t1", 0, &other)),
                     SP_FORBIDDEN);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "v", "t1", 0)),
                     SP_OWNER_CONFLICT);
    assert_int_equal(fixture_code(&fixture, fixture_acquire_with(&fixture, "u", "t1", 0, &named)),
                     SP_SPEC_CONFLICT);
    assert_int_equal(fixture_code(&fixture, fixture_acquire_with(&fixture, "u", "t1", 0, &root)),
                     SP_OK);
    named.is_profile_named = false;
    assert_int_equal(fixture_code(&fixture, fixture_acquire_with(&fixture, "u", "t1", 0, &named)),
                     SP_OK);
}

/* Nothing is made or leased for who has no money left; what it has it keeps, until its time is over. */
static void test_budget_used_up(void **state)
{
    struct pool_acquire spent = {.is_spent = true, .ttl_ns = 500 * NS_PER_S};
    struct pool_event renew = {.kind = POOL_EV_RENEW, .u.on = {.is_spent = true}};
    uint64_t expires_ns;
    uint64_t again;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    fixture_start(&fixture);
    assert_int_equal(
        fixture_code(&fixture, fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &spent)),
        SP_BUDGET_EXCEEDED);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 1);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
    expires_ns = fixture_box(&fixture, "t1")->expires_ns;
    fixture_advance(&fixture, NS_PER_S);
    again = fixture_acquire_with(&fixture, "u", "t1", 0, &spent);
    assert_int_equal(fixture_code(&fixture, again), SP_OK);
    assert_int_equal(fixture_reply(&fixture, again)->u.reply.source, POOL_SRC_KEPT);
    assert_int_equal(fixture_box(&fixture, "t1")->expires_ns, expires_ns);
    memcpy(renew.u.on.sandbox_id, fixture_box(&fixture, "t1")->sandbox_id,
           sizeof(renew.u.on.sandbox_id));
    renew.u.on.principal = fixture_box(&fixture, "t1")->principal;
    renew.req.v = ++fixture.req;
    fixture_send(&fixture, &renew);
    assert_int_equal(fixture_code(&fixture, renew.req.v), SP_BUDGET_EXCEEDED);
    assert_int_equal(fixture_box(&fixture, "t1")->expires_ns, expires_ns);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false)),
                     SP_OK);
    assert_int_equal(
        fixture_code(&fixture, fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &spent)),
        SP_BUDGET_EXCEEDED);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_DESTROY, "t1", 0, false)),
                     SP_OK);
}

/* The thread's box is of another profile than it asked for, which it cannot pay. */
static void test_budget_of_the_box_it_has(void **state)
{
    struct pool_acquire free_of_charge = {.profile = 0, .spent_at = 1U << 1};
    struct pool_acquire priced = {.profile = 1};
    uint64_t a;

    (void) state;
    fixture.config.profiles[1] = fixture.config.profiles[0];
    snprintf(fixture.config.profiles[1].name, sizeof(fixture.config.profiles[1].name), "priced");
    fixture.config.profile_count = 2;
    fixture_start(&fixture);
    assert_int_equal(
        fixture_code(&fixture, fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &priced)),
        SP_OK);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false)),
                     SP_OK);
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &free_of_charge);
    assert_int_equal(fixture_code(&fixture, a), SP_BUDGET_EXCEEDED);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    a = fixture_acquire_with(&fixture, "u", "t2", NS_PER_S, &free_of_charge);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

static void test_users_take_turns(void **state)
{
    uint64_t greedy[3];
    uint64_t modest;

    (void) state;
    fixture.config.max_boxes = 1;
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "x", "first", NS_PER_S)),
                     SP_OK);
    greedy[0] = fixture_acquire(&fixture, "a", "a0", 60 * NS_PER_S);
    greedy[1] = fixture_acquire(&fixture, "a", "a1", 60 * NS_PER_S);
    greedy[2] = fixture_acquire(&fixture, "a", "a2", 60 * NS_PER_S);
    modest = fixture_acquire(&fixture, "b", "b0", 60 * NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "first", 0, true);
    assert_int_equal(fixture_code(&fixture, greedy[0]), SP_OK);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "a0", 0, true);
    assert_int_equal(fixture_code(&fixture, modest), SP_OK); /* not a1, who asked earlier */
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "b0", 0, true);
    assert_int_equal(fixture_code(&fixture, greedy[1]), SP_OK);
    assert_int_equal(fixture_code(&fixture, greedy[2]), -1000);
}

static void test_refusals(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.max_boxes = 1;
    fixture.config.max_waiters = 1;
    fixture_start(&fixture);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", NS_PER_S)), SP_OK);
    a = fixture_acquire(&fixture, "u", "t2", 0);
    assert_int_equal(fixture_code(&fixture, a), SP_POOL_EXHAUSTED);
    assert_true(fixture_reply(&fixture, a)->u.reply.retry_after_ns > 0);
    a = fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t3", NS_PER_S)),
                     SP_QUEUE_FULL);
    /* The full queue does not keep the owner from its box. */
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", 0)), SP_OK);
    fixture_advance(&fixture, NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_POOL_EXHAUSTED);
    assert_true(fixture_reply(&fixture, a)->u.reply.queued_ns == NS_PER_S);
}

static void test_timeout_while_made(void **state)
{
    uint64_t a;

    (void) state;
    fixture.hold.create = true;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_ACQUIRE_TIMEOUT);
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK),
                     1); /* what was made for it is blank now */
    assert_null(fixture_box(&fixture, "t1"));
}

static void test_heir_takes_the_place(void **state)
{
    uint64_t first;
    uint64_t second;
    uint64_t other;

    (void) state;
    fixture.config.max_boxes = 1;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "x", "holder", NS_PER_S);
    first = fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S);
    second = fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S);
    other = fixture_acquire(&fixture, "u", "t2", 60 * NS_PER_S);
    fixture_abandon(&fixture, first);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "holder", 0, true);
    assert_int_equal(fixture_code(&fixture, first), -1000);
    assert_int_equal(fixture_code(&fixture, second), SP_OK);
    assert_int_equal(fixture_code(&fixture, other), -1000);
}

static void test_check_before_kept(void **state)
{
    uint64_t a;
    uint64_t old;

    (void) state;
    fixture.config.profiles[0].is_watched = false;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture.effects[POOL_FX_CHECK], 0); /* seen a moment ago */
    fixture_advance(&fixture, 20 * NS_PER_S);
    fixture.verdict = POOL_UNKNOWN;
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_code(&fixture, a), SP_OK); /* a failed check proves nothing */
    assert_int_equal(fixture.effects[POOL_FX_CHECK], 1);
    old = fixture_box(&fixture, "t1")->id.v;
    fixture.verdict = POOL_DEAD;
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_COLD);
    assert_true(fixture_box(&fixture, "t1")->id.v != old);
    assert_true(fixture_box(&fixture, "t1")->generation == 2);
    assert_int_equal(fixture.facts[POOL_FACT_LOST], 1);
}

static void send_seen(const char *thread, struct box_id id, uint64_t principal, bool is_foreign)
{
    const struct pool_fx *fx = fixture_held(&fixture, POOL_FX_DISCOVER);
    struct pool_event ev = {.kind = POOL_EV_DISCOVERED};

    assert_non_null(fx);
    ev.box = fx->box;
    ev.epoch = fx->epoch;
    ev.u.discovered.is_found = true;
    ev.u.discovered.seen.id = id;
    memcpy(ev.u.discovered.seen.sandbox_id, fx->snapshot.sandbox_id, POOL_ID_MAX + 1);
    str_copy_cut(ev.u.discovered.seen.thread, POOL_OWNER_MAX + 1, thread);
    memcpy(ev.u.discovered.seen.ref, "elsewhere", 10);
    ev.u.discovered.seen.principal = principal;
    ev.u.discovered.seen.is_foreign = is_foreign;
    fixture.held_count = 0;
    fixture_send(&fixture, &ev);
}

static void send_discovered(const char *thread, struct box_id id)
{
    send_seen(thread, id, 0, false);
}

static void test_discovered(void **state)
{
    struct box_id id = {77};
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture.config.profiles[0].want_discover = true;
    fixture.hold.discover = true;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    b = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    send_discovered("t1", id);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_code(&fixture, b), SP_OK);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_DISCOVERED);
    assert_true(fixture_reply(&fixture, a)->box.v == 77);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 0);
    a = fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    send_discovered("somebody else", (struct box_id){78});
    assert_int_equal(fixture_code(&fixture, a), SP_OWNER_CONFLICT);
    a = fixture_acquire(&fixture, "u", "t3", NS_PER_S);
    fixture_answer_all(&fixture, POOL_FX_DISCOVER, true); /* nothing found */
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_COLD);
}

/* User and thread are only names; the principal in the labels decides whose box it is. */
static void test_discovered_of_another(void **state)
{
    struct pool_acquire caller = {.principal = 1001};
    struct pool_acquire operator_ = {.principal = 1000, .is_operator = true};
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].want_discover = true;
    fixture.hold.discover = true;
    fixture_start(&fixture);
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &caller);
    send_seen("t1", (struct box_id){77}, 1002, false);
    assert_int_equal(fixture_code(&fixture, a), SP_FORBIDDEN);
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &caller);
    send_seen("t1", (struct box_id){77}, 0, false); /* no label: it belongs to root */
    assert_int_equal(fixture_code(&fixture, a), SP_FORBIDDEN);
    assert_null(fixture_box(&fixture, "t1"));
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &operator_);
    send_seen("t1", (struct box_id){77}, 1002, false);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(fixture_box(&fixture, "t1")->principal == 1002); /* still its owner's */
    a = fixture_acquire_with(&fixture, "u", "t2", NS_PER_S, &caller);
    send_seen("t2", (struct box_id){78}, 1001, false);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    a = fixture_acquire_with(&fixture, "u", "t3", NS_PER_S, &caller);
    send_seen("t3", (struct box_id){79}, 0, true); /* of another program: goes to the first caller
                                                    * that asks */
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(fixture_box(&fixture, "t3")->principal == 1001);
}

/* One write fails: the box runs on, is found again, and no listing ends it. */
static void test_discovered_and_not_recorded(void **state)
{
    struct pool_seen seen = {.id = {77}, .generation = 1};
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].want_discover = true;
    fixture.hold.discover = true;
    fixture_start(&fixture);
    fixture.fail_store = true;
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    send_discovered("t1", (struct box_id){77});
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
    assert_null(fixture_box(&fixture, "t1"));
    fixture.fail_store = false;
    fixture_store(&fixture, true);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    send_discovered("t1", (struct box_id){77});
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(fixture_reply(&fixture, a)->box.v == 77);
    fixture.fail_store = true;
    a = fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    send_discovered("t2", (struct box_id){78});
    fixture.fail_store = false;
    fixture_store(&fixture, true);
    seen.id.v = 78;
    str_copy_cut(seen.profile, sizeof(seen.profile), "default");
    str_copy_cut(seen.sandbox_id, sizeof(seen.sandbox_id), "s-t2");
    str_copy_cut(seen.user, sizeof(seen.user), "u");
    str_copy_cut(seen.thread, sizeof(seen.thread), "t2");
    for (int i = 0; i < 3; i++) {
        fixture_advance(&fixture, NS_PER_S);
        fixture_list(&fixture, true, &seen, 1);
    }
    assert_int_equal(fixture_box(&fixture, "t2")->state, POOL_PARKED);
    assert_true(fixture_box(&fixture, "t2")->id.v == 78);
}

static void test_anonymous(void **state)
{
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "-r1", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_string_equal(fixture_reply(&fixture, a)->snapshot.thread, "");
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "-r1", 0, false)),
                     SP_OK);
    assert_int_equal(fixture_count(&fixture, POOL_PARKED), 0);
    assert_null(fixture_box(&fixture, "-r1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cold_then_kept, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_warm_is_last_in_first_out, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_concurrent_acquires_of_a_thread, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reply_follows_the_commit, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_wrong_callers, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_budget_used_up, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_users_take_turns, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refusals, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_timeout_while_made, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_heir_takes_the_place, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_check_before_kept, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_discovered, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_discovered_of_another, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_discovered_and_not_recorded, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_anonymous, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_budget_of_the_box_it_has, fixture_setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
