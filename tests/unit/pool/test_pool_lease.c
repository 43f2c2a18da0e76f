/* test_pool_lease.c - releasing, renewing, generations, and leases that are undone. */
#include <stdio.h>

#include "fixture.h"

static void test_park_and_back(void **state)
{
    uint64_t a;
    uint64_t box;

    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    box = fixture_box(&fixture, "t1")->id.v;
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 1, false)),
                     SP_OK);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 1, false)),
                     SP_OK);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RENEW, "t1", 1, false)),
                     SP_NOT_LEASED);
    /* Parked for its own thread only. */
    a = fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    assert_true(fixture_reply(&fixture, a)->box.v != box);
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_PARKED);
    assert_true(fixture_reply(&fixture, a)->box.v == box);
    assert_true(fixture_reply(&fixture, a)->snapshot.generation == 1);
}

static void test_generations(void **state)
{
    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 9, false)),
                     SP_STALE_GENERATION);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 1, true)),
                     SP_OK);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 1, true)),
                     SP_NOT_FOUND);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_true(fixture_box(&fixture, "t1")->generation == 2);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_DESTROY, "t1", 1, false)),
                     SP_STALE_GENERATION);
    fixture_died(&fixture, fixture_box(&fixture, "t1")->id);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RENEW, "t1", 2, false)),
                     SP_SANDBOX_LOST);
    assert_int_equal(fixture_reply(&fixture, fixture.req)->u.reply.lost, POOL_END_DIED);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_true(fixture_box(&fixture, "t1")->generation == 3);
}

/* An entry that is pushed out of the ring keeps its generation from being used again. */
static void test_generation_floor(void **state)
{
    (void) state;
    fixture_start(&fixture);
    pool_restore_past(fixture.pool, "s-old", 40, POOL_END_TTL, 0);
    for (unsigned i = 0; i < 2000; i++) {
        char id[32];

        snprintf(id, sizeof(id), "x%u", i);
        pool_restore_past(fixture.pool, id, 1, POOL_END_TTL, 0);
    }
    assert_int_equal(pool_find_past(fixture.pool, "s-old", NULL, NULL), POOL_END_NONE);
    (void) fixture_acquire(&fixture, "u", "old", NS_PER_S);
    assert_true(fixture_box(&fixture, "old")->generation == 41);
}

static void test_renew(void **state)
{
    (void) state;
    fixture.config.profiles[0].ttl_ns = 10 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture_advance(&fixture, 8 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RENEW, "t1", 1, false)),
                     SP_OK);
    fixture_advance(&fixture, 8 * NS_PER_S);
    assert_non_null(fixture_box(&fixture, "t1"));
    fixture_advance(&fixture, 3 * NS_PER_S);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(pool_find_past(fixture.pool, "s-t1", NULL, NULL), POOL_END_TTL);
}

/* However long it asks, however often it is renewed; the next lease begins anew. */
static void test_longest(void **state)
{
    struct pool_acquire forever = {.ttl_ns = POOL_NEVER};
    uint64_t end_ns;

    (void) state;
    fixture.config.profiles[0].ttl_ns = 10 * NS_PER_S;
    fixture.config.profiles[0].ttl_max_ns = 15 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    end_ns = fixture_box(&fixture, "t1")->leased_ns + 15 * NS_PER_S;
    assert_true(fixture_box(&fixture, "t1")->expires_ns == end_ns - 5 * NS_PER_S);
    fixture_advance(&fixture, 8 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RENEW, "t1", 1, false)),
                     SP_OK);
    assert_true(fixture_box(&fixture, "t1")->expires_ns == end_ns);
    (void) fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &forever); /* kept */
    assert_true(fixture_box(&fixture, "t1")->expires_ns == end_ns);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 1, false)),
                     SP_OK);
    fixture_advance(&fixture, NS_PER_S);
    (void) fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &forever);
    assert_true(fixture_box(&fixture, "t1")->expires_ns ==
                fixture_box(&fixture, "t1")->leased_ns + 15 * NS_PER_S);
    fixture_advance(&fixture, 16 * NS_PER_S);
    assert_int_equal(pool_find_past(fixture.pool, "s-t1", NULL, NULL), POOL_END_TTL);
}

static void test_renew_that_cannot_be_stored(void **state)
{
    uint64_t was_ns;
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].ttl_ns = 10 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    was_ns = fixture_box(&fixture, "t1")->expires_ns;
    fixture_advance(&fixture, NS_PER_S);
    fixture.hold.store = true;
    a = fixture_on(&fixture, POOL_EV_RENEW, "t1", 1, false);
    fixture_answer(&fixture, POOL_FX_STORE, false);
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
    assert_true(fixture_box(&fixture, "t1")->expires_ns == was_ns);
}

static void test_abandoned_in_commit(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture_start(&fixture);
    fixture.hold.store = true;
    a = fixture_acquire(&fixture, "u", "t1", 0);
    fixture_abandon(&fixture, a);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    assert_null(fixture_box(&fixture, "t1"));
    assert_true(fixture_count(&fixture, POOL_BLANK) >= 1);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 0);
    /* The generation it consumed does not come again. */
    (void) fixture_acquire(&fixture, "u", "t1", 0);
    assert_true(fixture_box(&fixture, "t1")->generation == 2);
}

/* Without labels, a copy of the database made at that moment would give it to the caller who
 * left. */
static void test_abandoned_without_labels(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].can_bind = false;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[0].warm_max = 1;
    fixture_start(&fixture);
    fixture.hold.store = true;
    a = fixture_acquire(&fixture, "u", "t1", 0);
    fixture_abandon(&fixture, a);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
}

static void send_back(uint64_t req, bool is_spoiled)
{
    struct pool_event ev = {.kind = POOL_EV_UNDELIVERED, .u.undelivered.is_spoiled = is_spoiled};

    ev.box = fixture_reply(&fixture, req)->box;
    ev.epoch = fixture_reply(&fixture, req)->snapshot.epoch;
    fixture_send(&fixture, &ev);
}

static void send_undelivered(uint64_t req)
{
    send_back(req, false);
}

/* Its caller may have read the token: the box is kept for its thread, and nobody else gets it. */
static void test_undelivered(void **state)
{
    uint64_t a;
    struct box_id box;

    (void) state;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    box = fixture_reply(&fixture, a)->box;
    send_undelivered(a);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 0);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    a = fixture_acquire(&fixture, "v", "t2", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(fixture_reply(&fixture, a)->box.v != box.v);
    /* Its own thread gets it; and from parked it goes back to parked. */
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_true(fixture_reply(&fixture, a)->box.v == box.v);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_PARKED);
    send_undelivered(a);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
}

/* Nobody can come back for it. */
static void test_undelivered_destroys(void **state)
{
    uint64_t a;

    (void) state;
    fixture.hold.destroy = true;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "-a", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    send_undelivered(a);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 0);
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
    fixture_answer_all(&fixture, POOL_FX_DESTROY, true);
    fixture_stop(&fixture);
    fixture.config.profiles[0].park_ns = 0;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    send_undelivered(a);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 0);
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
}

/* Several replies name one lease: it is undone when none of them was delivered, and only then. */
static void test_undelivered_of_several(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    b = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_reply(&fixture, b)->u.reply.source, POOL_SRC_KEPT);
    send_undelivered(a);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    send_undelivered(b);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    /* Two that waited for the same commit. */
    fixture.hold.store = true;
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    b = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_code(&fixture, b), SP_OK);
    send_undelivered(b);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    send_undelivered(a);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    /* One comes back while another one waits, which then hangs up. */
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = true;
    b = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    send_undelivered(a);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    fixture_abandon(&fixture, b);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
}

/* A reply of an earlier lease of the same box does not count for this one. */
static void test_undelivered_late(void **state)
{
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    (void) fixture_acquire(&fixture, "u", "t1", 0);
    send_undelivered(a);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
}

/* A box that was at work, or was renewed, stays with its owner whatever became of the reply. */
static void test_undelivered_after_work(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY};
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    ev.box = fixture_reply(&fixture, a)->box;
    fixture_send(&fixture, &ev);
    send_undelivered(a);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    a = fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RENEW, "t2", 0, false);
    send_undelivered(a);
    assert_int_equal(fixture_box(&fixture, "t2")->state, POOL_LEASED);
}

/* A fresh box that was half changed for its owner cannot be used; a box that the thread already had
 * is kept. */
static void test_spoiled(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture.hold.destroy = true;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    send_back(a, true);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 0);
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
    fixture_answer_all(&fixture, POOL_FX_DESTROY, true);
    /* also with the store down */
    fixture_store(&fixture, true);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture_store(&fixture, false);
    send_back(a, true);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 0);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 0);
    fixture_store(&fixture, true);
    fixture_advance(&fixture, 10 * NS_PER_S);
    fixture_answer_all(&fixture, POOL_FX_DESTROY, true);
    /* another caller of the thread got a reply for it: it stays until that one is undelivered,
     * too */
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    b = fixture_acquire(&fixture, "u", "t1", 0);
    send_back(a, true);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    send_undelivered(b);
    assert_null(fixture_box(&fixture, "t1"));
    fixture_answer_all(&fixture, POOL_FX_DESTROY, true);
    /* from parked it goes back to parked */
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    a = fixture_acquire(&fixture, "u", "t1", 0);
    send_back(a, true);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
}

/* The disk takes longer than the lease, or its idle time, lasts: no reply with a doomed box. */
static void test_commit_slower_than_the_lease(void **state)
{
    struct pool_acquire more = {.ttl_ns = 2 * NS_PER_S};
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[0].warm_max = 1;
    fixture_start(&fixture);
    fixture.hold.store = true;
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &more);
    fixture.now_ns += 3 * NS_PER_S;
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
    assert_null(fixture_box(&fixture, "t1"));
    /* The same for a deadline that is extended: the caller gets another box. */
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &more);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    fixture.hold.store = true;
    a = fixture_acquire_with(&fixture, "u", "t1", NS_PER_S, &more);
    fixture.now_ns += 3 * NS_PER_S;
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    assert_true(fixture_box(&fixture, "t1")->id.v == fixture_reply(&fixture, a)->box.v);
    /* The idle time begins with the reply to the owner. */
    more = (struct pool_acquire){.idle_ns = 2 * NS_PER_S};
    fixture.hold.store = true;
    a = fixture_acquire_with(&fixture, "u", "t2", NS_PER_S, &more);
    fixture.now_ns += 3 * NS_PER_S;
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_box(&fixture, "t2")->state, POOL_LEASED);
}

static void test_acquire_during_park(void **state)
{
    uint64_t rel;
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = true;
    rel = fixture_on(&fixture, POOL_EV_RELEASE, "t1", 1, false);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = false;
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture_code(&fixture, rel), SP_OK);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_reply(&fixture, a)->u.reply.source, POOL_SRC_PARKED);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
}

static void test_new_box_while_the_old_one_dies(void **state)
{
    uint64_t gone;
    uint64_t a;

    (void) state;
    fixture.hold.destroy = true;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    gone = fixture_on(&fixture, POOL_EV_DESTROY, "t1", 1, false);
    assert_int_equal(fixture_code(&fixture, gone), -1000);
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(fixture_reply(&fixture, a)->snapshot.generation == 2);
    fixture_answer_all(&fixture, POOL_FX_DESTROY, true);
    assert_int_equal(fixture_code(&fixture, gone), SP_OK);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
}

/* Each acquire takes a blank box and has the next one made; each box comes back when its caller hangs up
 * before the commit. */
static void test_hanging_up_does_not_fill_the_pool(void **state)
{
    (void) state;
    fixture.config.max_boxes = 100;
    fixture.config.profiles[0].warm_min = 2;
    fixture.config.profiles[0].warm_max = 4;
    fixture_start(&fixture);
    for (unsigned i = 0; i < 60; i++) {
        uint64_t reqs[3];

        for (unsigned k = 0; k < 3; k++) {
            char who[16];

            fixture.hold.store = false;
            snprintf(who, sizeof(who), "t%u-%u", i, k);
            fixture.hold.store = k == 2; /* the last is caught in its commit */
            reqs[k] = fixture_acquire(&fixture, "u", who, NS_PER_S);
        }
        fixture_abandon(&fixture, reqs[2]);
        fixture.hold.store = false;
        fixture_answer_all(&fixture, POOL_FX_STORE, true);
        for (unsigned k = 0; k < 2; k++) {
            char who[16];

            snprintf(who, sizeof(who), "t%u-%u", i, k);
            (void) fixture_on(&fixture, POOL_EV_DESTROY, who, 0, true);
        }
        assert_in_range(fixture_count(&fixture, POOL_BLANK), 1,
                        4 + fixture.config.profiles[0].create_max);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hanging_up_does_not_fill_the_pool, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_park_and_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_generations, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_generation_floor, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_renew, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_longest, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_renew_that_cannot_be_stored, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_abandoned_in_commit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_abandoned_without_labels, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_undelivered, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_undelivered_destroys, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_undelivered_of_several, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_undelivered_late, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_undelivered_after_work, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_spoiled, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_commit_slower_than_the_lease, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_acquire_during_park, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_new_box_while_the_old_one_dies, fixture_setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
