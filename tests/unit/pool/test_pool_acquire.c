/* test_pool_acquire.c - the order of an acquire, the queue and its refusals. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "rig.h"

static void test_cold_then_kept(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    b = rig_acquire(&rig, "u", "t1", 0);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_COLD);
    assert_int_equal(rig_code(&rig, b), SP_OK);
    assert_int_equal(rig_reply(&rig, b)->u.reply.source, POOL_SRC_KEPT);
    assert_true(rig_reply(&rig, a)->box.v == rig_reply(&rig, b)->box.v);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 1);
}

static void test_warm_is_last_in_first_out(void **state)
{
    uint64_t a;
    struct box_id youngest = {0};
    uint64_t order = 0;

    (void) state;
    rig.config.profiles[0].warm_min = 3;
    rig.config.profiles[0].warm_max = 3;
    rig_start(&rig);
    for (size_t i = 0; i < pool_slot_count(rig.pool); i++) {
        const struct pool_box *b = pool_slot(rig.pool, i);

        if (b != NULL && b->order > order) {
            order = b->order;
            youngest = b->id;
        }
    }
    a = rig_acquire(&rig, "u", "t1", 0);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_WARM);
    assert_true(rig_reply(&rig, a)->box.v == youngest.v);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 3); /* the next one was made at once */
}

static void test_concurrent_acquires_of_a_thread(void **state)
{
    uint64_t reqs[4];

    (void) state;
    rig.hold.create = true;
    rig_start(&rig);
    for (int i = 0; i < 4; i++)
        reqs[i] = rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 1);
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rig_code(&rig, reqs[i]), SP_OK);
        assert_true(rig_reply(&rig, reqs[i])->box.v == rig_box(&rig, "t1")->id.v);
        assert_true(rig_reply(&rig, reqs[i])->snapshot.generation == 1);
    }
}

static void test_reply_follows_the_commit(void **state)
{
    uint64_t a;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig_start(&rig);
    rig.hold.store = true;
    a = rig_acquire(&rig, "u", "t1", 0);
    assert_int_equal(rig_code(&rig, a), -1000);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASING);
    assert_true(rig_answer(&rig, POOL_FX_STORE, true));
    assert_int_equal(rig_code(&rig, a), SP_OK);
}

static void test_wrong_callers(void **state)
{
    struct pool_acquire other = {.principal = 5};
    struct pool_acquire root = {.principal = 5, .is_operator = true};
    struct pool_acquire named = {.profile = 1, .is_profile_named = true};

    (void) state;
    rig.config.profile_count = 2;
    rig.config.profiles[1] = rig.config.profiles[0];
    memcpy(rig.config.profiles[1].name, "other", 6);
    rig_start(&rig);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t1", NS_PER_S)), SP_OK);
    assert_int_equal(rig_code(&rig, rig_acquire_with(&rig, "u", "t1", 0, &other)), SP_FORBIDDEN);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "v", "t1", 0)), SP_OWNER_CONFLICT);
    assert_int_equal(rig_code(&rig, rig_acquire_with(&rig, "u", "t1", 0, &named)),
                     SP_SPEC_CONFLICT);
    assert_int_equal(rig_code(&rig, rig_acquire_with(&rig, "u", "t1", 0, &root)), SP_OK);
    named.is_profile_named = false;
    assert_int_equal(rig_code(&rig, rig_acquire_with(&rig, "u", "t1", 0, &named)), SP_OK);
}

/* Nothing is made or leased for who has no money left; what it has it keeps, until its time is over. */
static void test_budget_used_up(void **state)
{
    struct pool_acquire spent = {.is_spent = true, .ttl_ns = 500 * NS_PER_S};
    struct pool_event renew = {.kind = POOL_EV_RENEW, .u.on = {.is_spent = true}};
    uint64_t expires_ns;
    uint64_t again;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    rig_start(&rig);
    assert_int_equal(rig_code(&rig, rig_acquire_with(&rig, "u", "t1", NS_PER_S, &spent)),
                     SP_BUDGET_EXCEEDED);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 1);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t1", NS_PER_S)), SP_OK);
    expires_ns = rig_box(&rig, "t1")->expires_ns;
    rig_advance(&rig, NS_PER_S);
    again = rig_acquire_with(&rig, "u", "t1", 0, &spent);
    assert_int_equal(rig_code(&rig, again), SP_OK);
    assert_int_equal(rig_reply(&rig, again)->u.reply.source, POOL_SRC_KEPT);
    assert_int_equal(rig_box(&rig, "t1")->expires_ns, expires_ns);
    memcpy(renew.u.on.sandbox_id, rig_box(&rig, "t1")->sandbox_id, sizeof(renew.u.on.sandbox_id));
    renew.u.on.principal = rig_box(&rig, "t1")->principal;
    renew.req.v = ++rig.req;
    rig_send(&rig, &renew);
    assert_int_equal(rig_code(&rig, renew.req.v), SP_BUDGET_EXCEEDED);
    assert_int_equal(rig_box(&rig, "t1")->expires_ns, expires_ns);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false)), SP_OK);
    assert_int_equal(rig_code(&rig, rig_acquire_with(&rig, "u", "t1", NS_PER_S, &spent)),
                     SP_BUDGET_EXCEEDED);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_DESTROY, "t1", 0, false)), SP_OK);
}

/* The thread's box is of another profile than it asked for, which it cannot pay. */
static void test_budget_of_the_box_it_has(void **state)
{
    struct pool_acquire free_of_charge = {.profile = 0, .spent_at = 1U << 1};
    struct pool_acquire priced = {.profile = 1};
    uint64_t a;

    (void) state;
    rig.config.profiles[1] = rig.config.profiles[0];
    snprintf(rig.config.profiles[1].name, sizeof(rig.config.profiles[1].name), "priced");
    rig.config.profile_count = 2;
    rig_start(&rig);
    assert_int_equal(rig_code(&rig, rig_acquire_with(&rig, "u", "t1", NS_PER_S, &priced)), SP_OK);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false)), SP_OK);
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &free_of_charge);
    assert_int_equal(rig_code(&rig, a), SP_BUDGET_EXCEEDED);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    a = rig_acquire_with(&rig, "u", "t2", NS_PER_S, &free_of_charge);
    assert_int_equal(rig_code(&rig, a), SP_OK);
}

static void test_users_take_turns(void **state)
{
    uint64_t greedy[3];
    uint64_t modest;

    (void) state;
    rig.config.max_boxes = 1;
    rig_start(&rig);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "x", "first", NS_PER_S)), SP_OK);
    greedy[0] = rig_acquire(&rig, "a", "a0", 60 * NS_PER_S);
    greedy[1] = rig_acquire(&rig, "a", "a1", 60 * NS_PER_S);
    greedy[2] = rig_acquire(&rig, "a", "a2", 60 * NS_PER_S);
    modest = rig_acquire(&rig, "b", "b0", 60 * NS_PER_S);
    (void) rig_on(&rig, POOL_EV_RELEASE, "first", 0, true);
    assert_int_equal(rig_code(&rig, greedy[0]), SP_OK);
    (void) rig_on(&rig, POOL_EV_RELEASE, "a0", 0, true);
    assert_int_equal(rig_code(&rig, modest), SP_OK); /* not a1, who asked earlier */
    (void) rig_on(&rig, POOL_EV_RELEASE, "b0", 0, true);
    assert_int_equal(rig_code(&rig, greedy[1]), SP_OK);
    assert_int_equal(rig_code(&rig, greedy[2]), -1000);
}

static void test_refusals(void **state)
{
    uint64_t a;

    (void) state;
    rig.config.max_boxes = 1;
    rig.config.max_waiters = 1;
    rig_start(&rig);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t1", NS_PER_S)), SP_OK);
    a = rig_acquire(&rig, "u", "t2", 0);
    assert_int_equal(rig_code(&rig, a), SP_POOL_EXHAUSTED);
    assert_true(rig_reply(&rig, a)->u.reply.retry_after_ns > 0);
    a = rig_acquire(&rig, "u", "t2", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), -1000);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t3", NS_PER_S)), SP_QUEUE_FULL);
    /* The full queue does not keep the owner from its box. */
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t1", 0)), SP_OK);
    rig_advance(&rig, NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_POOL_EXHAUSTED);
    assert_true(rig_reply(&rig, a)->u.reply.queued_ns == NS_PER_S);
}

static void test_timeout_while_made(void **state)
{
    uint64_t a;

    (void) state;
    rig.hold.create = true;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig_advance(&rig, 2 * NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_ACQUIRE_TIMEOUT);
    rig_answer_all(&rig, POOL_FX_CREATE, true);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 1); /* what was made for it is blank now */
    assert_null(rig_box(&rig, "t1"));
}

static void test_heir_takes_the_place(void **state)
{
    uint64_t first;
    uint64_t second;
    uint64_t other;

    (void) state;
    rig.config.max_boxes = 1;
    rig_start(&rig);
    (void) rig_acquire(&rig, "x", "holder", NS_PER_S);
    first = rig_acquire(&rig, "u", "t1", 60 * NS_PER_S);
    second = rig_acquire(&rig, "u", "t1", 60 * NS_PER_S);
    other = rig_acquire(&rig, "u", "t2", 60 * NS_PER_S);
    rig_abandon(&rig, first);
    (void) rig_on(&rig, POOL_EV_RELEASE, "holder", 0, true);
    assert_int_equal(rig_code(&rig, first), -1000);
    assert_int_equal(rig_code(&rig, second), SP_OK);
    assert_int_equal(rig_code(&rig, other), -1000);
}

static void test_check_before_kept(void **state)
{
    uint64_t a;
    uint64_t old;

    (void) state;
    rig.config.profiles[0].is_watched = false;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    (void) rig_acquire(&rig, "u", "t1", 0);
    assert_int_equal(rig.effects[POOL_FX_CHECK], 0); /* seen a moment ago */
    rig_advance(&rig, 20 * NS_PER_S);
    rig.verdict = POOL_UNKNOWN;
    a = rig_acquire(&rig, "u", "t1", 0);
    assert_int_equal(rig_code(&rig, a), SP_OK); /* a failed check proves nothing */
    assert_int_equal(rig.effects[POOL_FX_CHECK], 1);
    old = rig_box(&rig, "t1")->id.v;
    rig.verdict = POOL_DEAD;
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_COLD);
    assert_true(rig_box(&rig, "t1")->id.v != old);
    assert_true(rig_box(&rig, "t1")->generation == 2);
    assert_int_equal(rig.facts[POOL_FACT_LOST], 1);
}

static void send_seen(const char *thread, struct box_id id, uint64_t principal, bool is_foreign)
{
    const struct pool_fx *fx = rig_held(&rig, POOL_FX_DISCOVER);
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
    rig.held_count = 0;
    rig_send(&rig, &ev);
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
    rig.config.profiles[0].want_discover = true;
    rig.hold.discover = true;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    b = rig_acquire(&rig, "u", "t1", NS_PER_S);
    send_discovered("t1", id);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_code(&rig, b), SP_OK);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_DISCOVERED);
    assert_true(rig_reply(&rig, a)->box.v == 77);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 0);
    a = rig_acquire(&rig, "u", "t2", NS_PER_S);
    send_discovered("somebody else", (struct box_id){78});
    assert_int_equal(rig_code(&rig, a), SP_OWNER_CONFLICT);
    a = rig_acquire(&rig, "u", "t3", NS_PER_S);
    rig_answer_all(&rig, POOL_FX_DISCOVER, true); /* nothing found */
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_COLD);
}

/* User and thread are only names; the principal in the labels decides whose box it is. */
static void test_discovered_of_another(void **state)
{
    struct pool_acquire caller = {.principal = 1001};
    struct pool_acquire operator_ = {.principal = 1000, .is_operator = true};
    uint64_t a;

    (void) state;
    rig.config.profiles[0].want_discover = true;
    rig.hold.discover = true;
    rig_start(&rig);
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &caller);
    send_seen("t1", (struct box_id){77}, 1002, false);
    assert_int_equal(rig_code(&rig, a), SP_FORBIDDEN);
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &caller);
    send_seen("t1", (struct box_id){77}, 0, false); /* no label: it belongs to root */
    assert_int_equal(rig_code(&rig, a), SP_FORBIDDEN);
    assert_null(rig_box(&rig, "t1"));
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &operator_);
    send_seen("t1", (struct box_id){77}, 1002, false);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_true(rig_box(&rig, "t1")->principal == 1002); /* still its owner's */
    a = rig_acquire_with(&rig, "u", "t2", NS_PER_S, &caller);
    send_seen("t2", (struct box_id){78}, 1001, false);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    a = rig_acquire_with(&rig, "u", "t3", NS_PER_S, &caller);
    send_seen("t3", (struct box_id){79}, 0, true); /* of another program: goes to the first caller
                                                    * that asks */
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_true(rig_box(&rig, "t3")->principal == 1001);
}

/* One write fails: the box runs on, is found again, and no listing ends it. */
static void test_discovered_and_not_recorded(void **state)
{
    struct pool_seen seen = {.id = {77}, .generation = 1};
    uint64_t a;

    (void) state;
    rig.config.profiles[0].want_discover = true;
    rig.hold.discover = true;
    rig_start(&rig);
    rig.fail_store = true;
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    send_discovered("t1", (struct box_id){77});
    assert_int_equal(rig_code(&rig, a), SP_STORE_UNAVAILABLE);
    assert_null(rig_box(&rig, "t1"));
    rig.fail_store = false;
    rig_store(&rig, true);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    send_discovered("t1", (struct box_id){77});
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_true(rig_reply(&rig, a)->box.v == 77);
    rig.fail_store = true;
    a = rig_acquire(&rig, "u", "t2", NS_PER_S);
    send_discovered("t2", (struct box_id){78});
    rig.fail_store = false;
    rig_store(&rig, true);
    seen.id.v = 78;
    str_copy_cut(seen.profile, sizeof(seen.profile), "default");
    str_copy_cut(seen.sandbox_id, sizeof(seen.sandbox_id), "s-t2");
    str_copy_cut(seen.user, sizeof(seen.user), "u");
    str_copy_cut(seen.thread, sizeof(seen.thread), "t2");
    for (int i = 0; i < 3; i++) {
        rig_advance(&rig, NS_PER_S);
        rig_list(&rig, true, &seen, 1);
    }
    assert_int_equal(rig_box(&rig, "t2")->state, POOL_PARKED);
    assert_true(rig_box(&rig, "t2")->id.v == 78);
}

static void test_anonymous(void **state)
{
    uint64_t a;

    (void) state;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "-r1", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_string_equal(rig_reply(&rig, a)->snapshot.thread, "");
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "-r1", 0, false)), SP_OK);
    assert_int_equal(rig_count(&rig, POOL_PARKED), 0);
    assert_null(rig_box(&rig, "-r1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cold_then_kept, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_warm_is_last_in_first_out, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_concurrent_acquires_of_a_thread, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_reply_follows_the_commit, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_wrong_callers, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_budget_used_up, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_users_take_turns, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_refusals, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_timeout_while_made, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_heir_takes_the_place, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_check_before_kept, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_discovered, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_discovered_of_another, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_discovered_and_not_recorded, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_anonymous, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_budget_of_the_box_it_has, rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
