/* test_pool_lease.c - releasing, renewing, generations, and leases that are undone. */
#include <stdio.h>

#include "rig.h"

static void test_park_and_back(void **state)
{
    uint64_t a;
    uint64_t box;

    (void) state;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    box = rig_box(&rig, "t1")->id.v;
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 1, false)), SP_OK);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 1, false)), SP_OK);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RENEW, "t1", 1, false)), SP_NOT_LEASED);
    /* Parked for its own thread only. */
    a = rig_acquire(&rig, "u", "t2", NS_PER_S);
    assert_true(rig_reply(&rig, a)->box.v != box);
    a = rig_acquire(&rig, "u", "t1", 0);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_PARKED);
    assert_true(rig_reply(&rig, a)->box.v == box);
    assert_true(rig_reply(&rig, a)->snapshot.generation == 1);
}

static void test_generations(void **state)
{
    (void) state;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 9, false)),
                     SP_STALE_GENERATION);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 1, true)), SP_OK);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 1, true)), SP_NOT_FOUND);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_true(rig_box(&rig, "t1")->generation == 2);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_DESTROY, "t1", 1, false)),
                     SP_STALE_GENERATION);
    rig_died(&rig, rig_box(&rig, "t1")->id);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RENEW, "t1", 2, false)), SP_SANDBOX_LOST);
    assert_int_equal(rig_reply(&rig, rig.req)->u.reply.lost, POOL_END_DIED);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_true(rig_box(&rig, "t1")->generation == 3);
}

/* An entry that is pushed out of the ring keeps its generation from being used again. */
static void test_generation_floor(void **state)
{
    (void) state;
    rig_start(&rig);
    pool_restore_past(rig.pool, "s-old", 40, POOL_END_TTL, 0);
    for (unsigned i = 0; i < 2000; i++) {
        char id[32];

        snprintf(id, sizeof(id), "x%u", i);
        pool_restore_past(rig.pool, id, 1, POOL_END_TTL, 0);
    }
    assert_int_equal(pool_find_past(rig.pool, "s-old", NULL, NULL), POOL_END_NONE);
    (void) rig_acquire(&rig, "u", "old", NS_PER_S);
    assert_true(rig_box(&rig, "old")->generation == 41);
}

static void test_renew(void **state)
{
    (void) state;
    rig.config.profiles[0].ttl_ns = 10 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig_advance(&rig, 8 * NS_PER_S);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RENEW, "t1", 1, false)), SP_OK);
    rig_advance(&rig, 8 * NS_PER_S);
    assert_non_null(rig_box(&rig, "t1"));
    rig_advance(&rig, 3 * NS_PER_S);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(pool_find_past(rig.pool, "s-t1", NULL, NULL), POOL_END_TTL);
}

/* However long it asks, however often it is renewed; the next lease begins anew. */
static void test_longest(void **state)
{
    struct pool_acquire forever = {.ttl_ns = POOL_NEVER};
    uint64_t end_ns;

    (void) state;
    rig.config.profiles[0].ttl_ns = 10 * NS_PER_S;
    rig.config.profiles[0].ttl_max_ns = 15 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    end_ns = rig_box(&rig, "t1")->leased_ns + 15 * NS_PER_S;
    assert_true(rig_box(&rig, "t1")->expires_ns == end_ns - 5 * NS_PER_S);
    rig_advance(&rig, 8 * NS_PER_S);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RENEW, "t1", 1, false)), SP_OK);
    assert_true(rig_box(&rig, "t1")->expires_ns == end_ns);
    (void) rig_acquire_with(&rig, "u", "t1", NS_PER_S, &forever); /* kept */
    assert_true(rig_box(&rig, "t1")->expires_ns == end_ns);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 1, false)), SP_OK);
    rig_advance(&rig, NS_PER_S);
    (void) rig_acquire_with(&rig, "u", "t1", NS_PER_S, &forever);
    assert_true(rig_box(&rig, "t1")->expires_ns == rig_box(&rig, "t1")->leased_ns + 15 * NS_PER_S);
    rig_advance(&rig, 16 * NS_PER_S);
    assert_int_equal(pool_find_past(rig.pool, "s-t1", NULL, NULL), POOL_END_TTL);
}

static void test_renew_that_cannot_be_stored(void **state)
{
    uint64_t was_ns;
    uint64_t a;

    (void) state;
    rig.config.profiles[0].ttl_ns = 10 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    was_ns = rig_box(&rig, "t1")->expires_ns;
    rig_advance(&rig, NS_PER_S);
    rig.hold.store = true;
    a = rig_on(&rig, POOL_EV_RENEW, "t1", 1, false);
    rig_answer(&rig, POOL_FX_STORE, false);
    assert_int_equal(rig_code(&rig, a), SP_STORE_UNAVAILABLE);
    assert_true(rig_box(&rig, "t1")->expires_ns == was_ns);
}

static void test_abandoned_in_commit(void **state)
{
    uint64_t a;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig_start(&rig);
    rig.hold.store = true;
    a = rig_acquire(&rig, "u", "t1", 0);
    rig_abandon(&rig, a);
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig_code(&rig, a), -1000);
    assert_null(rig_box(&rig, "t1"));
    assert_true(rig_count(&rig, POOL_BLANK) >= 1);
    assert_int_equal(rig_count(&rig, POOL_LEASED), 0);
    /* The generation it consumed does not come again. */
    (void) rig_acquire(&rig, "u", "t1", 0);
    assert_true(rig_box(&rig, "t1")->generation == 2);
}

/* Without labels, a copy of the database made at that moment would give it to the caller who
 * left. */
static void test_abandoned_without_labels(void **state)
{
    uint64_t a;

    (void) state;
    rig.config.profiles[0].can_bind = false;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[0].warm_max = 1;
    rig_start(&rig);
    rig.hold.store = true;
    a = rig_acquire(&rig, "u", "t1", 0);
    rig_abandon(&rig, a);
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 1);
}

static void send_back(uint64_t req, bool is_spoiled)
{
    struct pool_event ev = {.kind = POOL_EV_UNDELIVERED, .u.undelivered.is_spoiled = is_spoiled};

    ev.box = rig_reply(&rig, req)->box;
    ev.epoch = rig_reply(&rig, req)->snapshot.epoch;
    rig_send(&rig, &ev);
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
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    box = rig_reply(&rig, a)->box;
    send_undelivered(a);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 0);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    a = rig_acquire(&rig, "v", "t2", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_true(rig_reply(&rig, a)->box.v != box.v);
    /* Its own thread gets it; and from parked it goes back to parked. */
    a = rig_acquire(&rig, "u", "t1", 0);
    assert_true(rig_reply(&rig, a)->box.v == box.v);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_PARKED);
    send_undelivered(a);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
}

/* Nobody can come back for it. */
static void test_undelivered_destroys(void **state)
{
    uint64_t a;

    (void) state;
    rig.hold.destroy = true;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "-a", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    send_undelivered(a);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 0);
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 1);
    rig_answer_all(&rig, POOL_FX_DESTROY, true);
    rig_stop(&rig);
    rig.config.profiles[0].park_ns = 0;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    send_undelivered(a);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(rig_count(&rig, POOL_BLANK), 0);
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 1);
}

/* Several replies name one lease: it is undone when none of them was delivered, and only then. */
static void test_undelivered_of_several(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    b = rig_acquire(&rig, "u", "t1", 0);
    assert_int_equal(rig_reply(&rig, b)->u.reply.source, POOL_SRC_KEPT);
    send_undelivered(a);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    send_undelivered(b);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    /* Two that waited for the same commit. */
    rig.hold.store = true;
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    b = rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_code(&rig, b), SP_OK);
    send_undelivered(b);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    send_undelivered(a);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    /* One comes back while another one waits, which then hangs up. */
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.hold.store = true;
    b = rig_acquire(&rig, "u", "t1", NS_PER_S);
    send_undelivered(a);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    rig_abandon(&rig, b);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
}

/* A reply of an earlier lease of the same box does not count for this one. */
static void test_undelivered_late(void **state)
{
    uint64_t a;

    (void) state;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    (void) rig_acquire(&rig, "u", "t1", 0);
    send_undelivered(a);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
}

/* A box that was at work, or was renewed, stays with its owner whatever became of the reply. */
static void test_undelivered_after_work(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY};
    uint64_t a;

    (void) state;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    ev.box = rig_reply(&rig, a)->box;
    rig_send(&rig, &ev);
    send_undelivered(a);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    a = rig_acquire(&rig, "u", "t2", NS_PER_S);
    (void) rig_on(&rig, POOL_EV_RENEW, "t2", 0, false);
    send_undelivered(a);
    assert_int_equal(rig_box(&rig, "t2")->state, POOL_LEASED);
}

/* A fresh box that was half changed for its owner cannot be used; a box that the thread already had
 * is kept. */
static void test_spoiled(void **state)
{
    uint64_t a;
    uint64_t b;

    (void) state;
    rig.hold.destroy = true;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    send_back(a, true);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(rig_count(&rig, POOL_BLANK), 0);
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 1);
    rig_answer_all(&rig, POOL_FX_DESTROY, true);
    /* also with the store down */
    rig_store(&rig, true);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig_store(&rig, false);
    send_back(a, true);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 0);
    assert_int_equal(rig_count(&rig, POOL_LEASED), 0);
    rig_store(&rig, true);
    rig_advance(&rig, 10 * NS_PER_S);
    rig_answer_all(&rig, POOL_FX_DESTROY, true);
    /* another caller of the thread got a reply for it: it stays until that one is undelivered,
     * too */
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    b = rig_acquire(&rig, "u", "t1", 0);
    send_back(a, true);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    send_undelivered(b);
    assert_null(rig_box(&rig, "t1"));
    rig_answer_all(&rig, POOL_FX_DESTROY, true);
    /* from parked it goes back to parked */
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    a = rig_acquire(&rig, "u", "t1", 0);
    send_back(a, true);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
}

/* The disk takes longer than the lease, or its idle time, lasts: no reply with a doomed box. */
static void test_commit_slower_than_the_lease(void **state)
{
    struct pool_acquire more = {.ttl_ns = 2 * NS_PER_S};
    uint64_t a;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[0].warm_max = 1;
    rig_start(&rig);
    rig.hold.store = true;
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &more);
    rig.now_ns += 3 * NS_PER_S;
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig_code(&rig, a), SP_STORE_UNAVAILABLE);
    assert_null(rig_box(&rig, "t1"));
    /* The same for a deadline that is extended: the caller gets another box. */
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &more);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    rig.hold.store = true;
    a = rig_acquire_with(&rig, "u", "t1", NS_PER_S, &more);
    rig.now_ns += 3 * NS_PER_S;
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    assert_true(rig_box(&rig, "t1")->id.v == rig_reply(&rig, a)->box.v);
    /* The idle time begins with the reply to the owner. */
    more = (struct pool_acquire){.idle_ns = 2 * NS_PER_S};
    rig.hold.store = true;
    a = rig_acquire_with(&rig, "u", "t2", NS_PER_S, &more);
    rig.now_ns += 3 * NS_PER_S;
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_box(&rig, "t2")->state, POOL_LEASED);
}

static void test_acquire_during_park(void **state)
{
    uint64_t rel;
    uint64_t a;

    (void) state;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.hold.store = true;
    rel = rig_on(&rig, POOL_EV_RELEASE, "t1", 1, false);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.hold.store = false;
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig_code(&rig, rel), SP_OK);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_reply(&rig, a)->u.reply.source, POOL_SRC_PARKED);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
}

static void test_new_box_while_the_old_one_dies(void **state)
{
    uint64_t gone;
    uint64_t a;

    (void) state;
    rig.hold.destroy = true;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    gone = rig_on(&rig, POOL_EV_DESTROY, "t1", 1, false);
    assert_int_equal(rig_code(&rig, gone), -1000);
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_true(rig_reply(&rig, a)->snapshot.generation == 2);
    rig_answer_all(&rig, POOL_FX_DESTROY, true);
    assert_int_equal(rig_code(&rig, gone), SP_OK);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
}

/* Each acquire takes a blank box and has the next one made; each box comes back when its caller hangs up
 * before the commit. */
static void test_hanging_up_does_not_fill_the_pool(void **state)
{
    (void) state;
    rig.config.max_boxes = 100;
    rig.config.profiles[0].warm_min = 2;
    rig.config.profiles[0].warm_max = 4;
    rig_start(&rig);
    for (unsigned i = 0; i < 60; i++) {
        uint64_t reqs[3];

        for (unsigned k = 0; k < 3; k++) {
            char who[16];

            rig.hold.store = false;
            snprintf(who, sizeof(who), "t%u-%u", i, k);
            rig.hold.store = k == 2; /* the last is caught in its commit */
            reqs[k] = rig_acquire(&rig, "u", who, NS_PER_S);
        }
        rig_abandon(&rig, reqs[2]);
        rig.hold.store = false;
        rig_answer_all(&rig, POOL_FX_STORE, true);
        for (unsigned k = 0; k < 2; k++) {
            char who[16];

            snprintf(who, sizeof(who), "t%u-%u", i, k);
            (void) rig_on(&rig, POOL_EV_DESTROY, who, 0, true);
        }
        assert_in_range(rig_count(&rig, POOL_BLANK), 1, 4 + rig.config.profiles[0].create_max);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hanging_up_does_not_fill_the_pool, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_park_and_back, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_generations, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_generation_floor, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_renew, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_longest, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_renew_that_cannot_be_stored, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_abandoned_in_commit, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_abandoned_without_labels, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_undelivered, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_undelivered_destroys, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_undelivered_of_several, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_undelivered_late, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_undelivered_after_work, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_spoiled, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_commit_slower_than_the_lease, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_acquire_during_park, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_new_box_while_the_old_one_dies, rig_setup,
                                        rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
