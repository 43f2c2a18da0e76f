/* test_pool_store.c - commits that fail, a store that is down, and what is written when. */
#include <stdio.h>

#include "rig.h"

static void test_intent_before_create(void **state)
{
    (void) state;
    rig.hold.store = true;
    rig.config.profiles[0].warm_min = 1;
    rig_start(&rig);
    assert_int_equal(rig_count(&rig, POOL_INTENT), 1);
    assert_int_equal(rig.effects[POOL_FX_CREATE], 0);
    assert_true(rig_answer(&rig, POOL_FX_STORE, true));
    assert_int_equal(rig.effects[POOL_FX_CREATE], 1);
}

static void test_lost_intent(void **state)
{
    uint64_t a;

    (void) state;
    rig.hold.store = true;
    rig_start(&rig);
    a = rig_acquire(&rig, "u", "t1", 60 * NS_PER_S);
    assert_true(rig_answer(&rig, POOL_FX_STORE, false));
    assert_int_equal(rig.effects[POOL_FX_CREATE], 0);
    assert_int_equal(rig_code(&rig, a), -1000); /* it goes on waiting */
    assert_null(rig_held(&rig, POOL_FX_STORE)); /* and is not tried at once */
    rig.hold.store = false;
    rig_advance(&rig, NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_OK);
}

static void test_lost_lease(void **state)
{
    uint64_t a;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig_start(&rig);
    rig.hold.store = true;
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_true(rig_answer(&rig, POOL_FX_STORE, false));
    assert_int_equal(rig_code(&rig, a), SP_STORE_UNAVAILABLE);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(rig_count(&rig, POOL_BLANK), 1);
}

static void test_lost_park(void **state)
{
    uint64_t a;

    (void) state;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.hold.store = true;
    a = rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    assert_true(rig_answer(&rig, POOL_FX_STORE, false));
    assert_int_equal(rig_code(&rig, a), SP_STORE_UNAVAILABLE);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    /* From parked, a lease that is lost leaves the box parked. */
    rig.hold.store = false;
    rig_advance(&rig, 2 * NS_PER_S);
    rig_answer_all(&rig, POOL_FX_STORE, true);
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    rig.hold.store = true;
    a = rig_acquire(&rig, "u", "t1", 0);
    assert_true(rig_answer(&rig, POOL_FX_STORE, false));
    assert_int_equal(rig_code(&rig, a), SP_STORE_UNAVAILABLE);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKED);
}

static void test_down(void **state)
{
    uint64_t waiting;
    uint64_t kept;
    uint64_t was_ns;

    (void) state;
    rig.config.max_boxes = 2;
    rig.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    (void) rig_acquire(&rig, "u", "t2", NS_PER_S);
    waiting = rig_acquire(&rig, "u", "t3", 60 * NS_PER_S);
    was_ns = rig_box(&rig, "t1")->expires_ns;
    rig_store(&rig, false);
    assert_int_equal(rig_code(&rig, waiting), SP_STORE_UNAVAILABLE);
    rig_advance(&rig, NS_PER_S);
    kept = rig_acquire(&rig, "u", "t1", 0);
    assert_int_equal(rig_code(&rig, kept), SP_OK);
    assert_true(rig_reply(&rig, kept)->snapshot.expires_ns == was_ns);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t4", NS_PER_S)), SP_STORE_UNAVAILABLE);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false)),
                     SP_STORE_UNAVAILABLE);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    /* A death is reported in any case; its row follows when the store is back. */
    rig_died(&rig, rig_box(&rig, "t2")->id);
    assert_int_equal(rig_count(&rig, POOL_DOOMED), 1);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 0);
    rig_store(&rig, true);
    assert_int_equal(rig_count(&rig, POOL_DOOMED), 0);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 1);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t4", NS_PER_S)), SP_OK);
}

static void test_deleting_before_destroy(void **state)
{
    uint64_t a;

    (void) state;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.hold.store = true;
    a = rig_on(&rig, POOL_EV_RELEASE, "t1", 0, true);
    assert_int_equal(rig_code(&rig, a), -1000);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 0);
    rig_abandon(&rig, a); /* whoever stays is served without the store: test_pool_disk.c */
    assert_true(rig_answer(&rig, POOL_FX_STORE, false));
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 0);
    assert_int_equal(rig_count(&rig, POOL_DOOMED), 1);
    rig_advance(&rig, 2 * NS_PER_S); /* tried again by itself */
    assert_true(rig_answer(&rig, POOL_FX_STORE, true));
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 1);
}

static void token_of_test(void *ctx, char *dst)
{
    unsigned *calls = ctx;

    (*calls)++;
    dst[0] = 'k';
    dst[1] = '\0';
}

static void test_token_is_in_the_intent(void **state)
{
    unsigned calls = 0;

    (void) state;
    rig.config.make_token = token_of_test;
    rig.config.make_token_ctx = &calls;
    rig.config.profiles[0].warm_min = 1;
    rig.hold.store = true;
    rig_start(&rig);
    assert_int_equal(calls, 1);
    assert_string_equal(rig_held(&rig, POOL_FX_STORE)->snapshot.token, "k");
}

static uint64_t renew(const char *who, uint64_t ttl_ns)
{
    struct pool_event ev = {.kind = POOL_EV_RENEW};

    rig.req++;
    ev.req.v = rig.req;
    snprintf(ev.u.on.sandbox_id, sizeof(ev.u.on.sandbox_id), "s-%s", who);
    ev.u.on.ttl_ns = ttl_ns;
    rig_send(&rig, &ev);
    return rig.req;
}

/* A renewal that is refused does not change one that was committed before it, whether its caller is
 * still there or not. */
static void test_committed_renewal_stays(void **state)
{
    uint64_t a;
    uint64_t deadline_ns;

    (void) state;
    rig.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.hold.store = true;
    a = renew("t1", 1000 * NS_PER_S);
    deadline_ns = rig_box(&rig, "t1")->expires_ns;
    rig_abandon(&rig, a);
    assert_true(rig_answer(&rig, POOL_FX_STORE, true));
    a = renew("t1", 500 * NS_PER_S);
    assert_true(rig_answer(&rig, POOL_FX_STORE, false));
    assert_int_equal(rig_code(&rig, a), SP_STORE_UNAVAILABLE);
    assert_true(rig_box(&rig, "t1")->expires_ns == deadline_ns);
}

static void answer(const struct pool_fx *fx, enum pool_event_kind kind)
{
    struct pool_event ev = {.kind = kind, .box = fx->box, .epoch = fx->epoch};

    ev.u.stored.write = fx->u.store.write;
    ev.u.stored.expires_ns = fx->snapshot.expires_ns;
    rig_send(&rig, &ev);
}

/* A write that finds the queue full is refused at once, before those that wait in it are answered. */
static void test_renewal_refused_out_of_turn(void **state)
{
    struct pool_fx first;
    uint64_t deadline_ns;
    uint64_t a;
    uint64_t b;

    (void) state;
    rig.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.hold.store = true;
    a = renew("t1", 1000 * NS_PER_S);
    deadline_ns = rig_box(&rig, "t1")->expires_ns;
    first = rig.held[0];
    rig.held_count = 0;
    b = renew("t1", 500 * NS_PER_S);
    assert_true(rig_answer(&rig, POOL_FX_STORE, false));
    assert_int_equal(rig_code(&rig, b), SP_STORE_UNAVAILABLE);
    rig_advance(&rig, 2 * NS_PER_S); /* nor does a row with the old deadline follow it */
    assert_null(rig_held(&rig, POOL_FX_STORE));
    answer(&first, POOL_EV_STORED);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_true(rig_box(&rig, "t1")->expires_ns == deadline_ns);
    rig_advance(&rig, 2 * NS_PER_S); /* the row is written again, with what was promised */
    assert_true(rig_held(&rig, POOL_FX_STORE)->snapshot.expires_ns == deadline_ns);
}

/* The same, and the paused box goes on meanwhile, or is to be paused again. */
static void test_renewal_confirmed_while_resuming(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_RESUMED};
    struct pool_fx first;
    uint64_t deadline_ns;
    uint64_t a;

    (void) state;
    rig.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_PAUSE, "t1", 0, false)), SP_OK);
    rig.hold.store = true;
    a = renew("t1", 1000 * NS_PER_S);
    deadline_ns = rig_box(&rig, "t1")->expires_ns;
    first = rig.held[0];
    rig.held_count = 0;
    (void) renew("t1", 500 * NS_PER_S);
    assert_true(rig_answer(&rig, POOL_FX_STORE, false));
    ev.box = rig_box(&rig, "t1")->id;
    rig_send(&rig, &ev);
    assert_false(rig_box(&rig, "t1")->is_paused);
    assert_null(rig_held(&rig, POOL_FX_STORE));
    assert_int_equal(rig_code(&rig, rig_on(&rig, POOL_EV_PAUSE, "t1", 0, false)),
                     SP_STORE_UNAVAILABLE);
    answer(&first, POOL_EV_STORED);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    rig_advance(&rig, 2 * NS_PER_S);
    assert_true(rig_held(&rig, POOL_FX_STORE)->snapshot.expires_ns == deadline_ns);
    assert_false(rig_held(&rig, POOL_FX_STORE)->snapshot.is_paused);
}

/* The same, and the box is to be parked meanwhile, which fails: it is leased as long as was promised. */
static void test_renewal_confirmed_while_parking(void **state)
{
    struct pool_fx first;
    uint64_t deadline_ns;
    uint64_t a;

    (void) state;
    rig.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    rig.config.profiles[0].park_ns = 100 * NS_PER_S;
    rig_start(&rig);
    (void) rig_acquire(&rig, "u", "t1", NS_PER_S);
    rig.hold.store = true;
    a = renew("t1", 1000 * NS_PER_S);
    deadline_ns = rig_box(&rig, "t1")->expires_ns;
    first = rig.held[0];
    rig.held_count = 0;
    (void) renew("t1", 500 * NS_PER_S);
    assert_true(rig_answer(&rig, POOL_FX_STORE, false));
    (void) rig_on(&rig, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_PARKING);
    answer(&first, POOL_EV_STORED);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_true(rig_answer(&rig, POOL_FX_STORE, false));
    assert_int_equal(rig_box(&rig, "t1")->state, POOL_LEASED);
    assert_true(rig_box(&rig, "t1")->expires_ns == deadline_ns);
    rig_advance(&rig, 2 * NS_PER_S);
    assert_true(rig_held(&rig, POOL_FX_STORE)->snapshot.expires_ns == deadline_ns);
}

/* Many boxes end at once: the rows are written at the speed of the store, and a caller does not
 * wait for all of them. */
static void test_mass_end_does_not_fill_the_queue(void **state)
{
    uint64_t a;

    (void) state;
    rig.config.max_boxes = 1002;
    rig.config.restore_max = 1002;
    rig.pool = pool_new(&rig.config);
    for (unsigned i = 1; i <= 1000; i++) { /* nobody can come back for these: all of them go */
        struct pool_box row = {.id = {i}, .state = POOL_STARTING, .spec_hash = 1, .generation = 1};

        snprintf(row.sandbox_id, sizeof(row.sandbox_id), "anon-%u", i);
        assert_true(pool_restore_box(rig.pool, rig.now_ns, &row));
    }
    rig.hold.store = true;
    rig_start(&rig);
    assert_int_equal(rig_count(&rig, POOL_DOOMED), 1000);
    assert_in_range(rig.effects[POOL_FX_STORE], 1, 400);
    a = rig_acquire(&rig, "u", "t1", 60 * NS_PER_S);
    assert_int_equal(rig.held[rig.held_count - 1].snapshot.state, POOL_INTENT);
    for (unsigned i = 0; rig_code(&rig, a) != SP_OK; i++) {
        assert_in_range(i, 0, 1000); /* with all of them ahead it would take longer */
        assert_true(rig_answer(&rig, POOL_FX_STORE, true));
        assert_in_range(rig.held_count, 0, 400);
    }
    a = rig_on(&rig, POOL_EV_DESTROY, "t1", 0, false);
    assert_string_equal(rig.held[rig.held_count - 1].snapshot.sandbox_id, "s-t1");
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_int_equal(rig_code(&rig, a), SP_OK);
    assert_int_equal(rig_count(&rig, POOL_DOOMED), 0);
}

/* The mode changes while the store is down: the answer to an older write does not confirm it. */
static void test_mode_is_not_settled_by_an_older_write(void **state)
{
    (void) state;
    rig_start(&rig);
    rig.hold.store = true;
    rig_mode(&rig, POOL_PAUSED, false);
    assert_int_equal(rig.writes[POOL_WRITE_MODE], 1);
    rig_store(&rig, false);
    rig_mode(&rig, POOL_RUNNING, false);
    assert_true(rig_answer(&rig, POOL_FX_STORE, true));
    rig_store(&rig, true);
    assert_int_equal(rig.writes[POOL_WRITE_MODE], 2);
}

/* Nobody got the box, so nobody has given up what became of the id's last one: not even when it is destroyed because
 * another one was made in its place. */
static void test_an_undone_lease_was_not_released(void **state)
{
    const struct pool_box *box;
    uint64_t a;

    (void) state;
    rig.config.profiles[0].warm_min = 1;
    rig.config.profiles[0].warm_max = 1;
    rig_start(&rig);
    rig.hold.destroy = true;
    rig.hold.store = true;
    a = rig_acquire(&rig, "u", "t1", NS_PER_S);
    box = rig_box(&rig, "t1");
    assert_int_equal(box->state, POOL_LEASING);
    rig_abandon(&rig, a);
    rig.hold.store = false;
    while (rig_held(&rig, POOL_FX_STORE)->box.v != box->id.v) /* its substitute comes first */
        assert_true(rig_answer(&rig, POOL_FX_STORE, true));
    rig_answer_all(&rig, POOL_FX_STORE, true);
    assert_null(rig_box(&rig, "t1"));
    assert_int_equal(rig.facts[POOL_FACT_LEASED], 0);
    assert_int_equal(pool_find_past(rig.pool, "s-t1", NULL, NULL), POOL_END_NONE);
    assert_int_equal(rig_held(&rig, POOL_FX_DESTROY)->snapshot.end, POOL_END_RELEASED);
    assert_true(rig_held(&rig, POOL_FX_DESTROY)->snapshot.leased_ns == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_intent_before_create, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_lost_intent, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_lost_lease, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_lost_park, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_down, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_deleting_before_destroy, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_token_is_in_the_intent, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_committed_renewal_stays, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_renewal_refused_out_of_turn, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_renewal_confirmed_while_parking, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_mass_end_does_not_fill_the_queue, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_mode_is_not_settled_by_an_older_write, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_an_undone_lease_was_not_released, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(test_renewal_confirmed_while_resuming, rig_setup,
                                        rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
