/* test_pool_store.c - commits that fail, a store that is down, and what is written when. */
#include <stdio.h>

#include "fixture.h"

static void test_intent_before_create(void **state)
{
    (void) state;
    fixture.hold.store = true;
    fixture.config.profiles[0].warm_min = 1;
    fixture_start(&fixture);
    assert_int_equal(fixture_count(&fixture, POOL_INTENT), 1);
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 0);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 1);
}

static void test_lost_intent(void **state)
{
    uint64_t a;

    (void) state;
    fixture.hold.store = true;
    fixture_start(&fixture);
    a = fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    assert_int_equal(fixture.effects[POOL_FX_CREATE], 0);
    assert_int_equal(fixture_code(&fixture, a), -1000); /* it goes on waiting */
    assert_null(fixture_held(&fixture, POOL_FX_STORE)); /* and is not tried at once */
    fixture.hold.store = false;
    fixture_advance(&fixture, NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

static void test_lost_lease(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture_start(&fixture);
    fixture.hold.store = true;
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 1);
}

static void test_lost_park(void **state)
{
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = true;
    a = fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    /* From parked, a lease that is lost leaves the box parked. */
    fixture.hold.store = false;
    fixture_advance(&fixture, 2 * NS_PER_S);
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    fixture.hold.store = true;
    a = fixture_acquire(&fixture, "u", "t1", 0);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKED);
}

static void test_down(void **state)
{
    uint64_t waiting;
    uint64_t kept;
    uint64_t was_ns;

    (void) state;
    fixture.config.max_boxes = 2;
    fixture.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    (void) fixture_acquire(&fixture, "u", "t2", NS_PER_S);
    waiting = fixture_acquire(&fixture, "u", "t3", 60 * NS_PER_S);
    was_ns = fixture_box(&fixture, "t1")->expires_ns;
    fixture_store(&fixture, false);
    assert_int_equal(fixture_code(&fixture, waiting), SP_STORE_UNAVAILABLE);
    fixture_advance(&fixture, NS_PER_S);
    kept = fixture_acquire(&fixture, "u", "t1", 0);
    assert_int_equal(fixture_code(&fixture, kept), SP_OK);
    assert_true(fixture_reply(&fixture, kept)->snapshot.expires_ns == was_ns);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t4", NS_PER_S)),
                     SP_STORE_UNAVAILABLE);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false)),
                     SP_STORE_UNAVAILABLE);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    /* A death is reported in any case; its row follows when the store is back. */
    fixture_died(&fixture, fixture_box(&fixture, "t2")->id);
    assert_int_equal(fixture_count(&fixture, POOL_DOOMED), 1);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
    fixture_store(&fixture, true);
    assert_int_equal(fixture_count(&fixture, POOL_DOOMED), 0);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t4", NS_PER_S)), SP_OK);
}

static void test_deleting_before_destroy(void **state)
{
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = true;
    a = fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, true);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
    fixture_abandon(&fixture, a); /* whoever stays is served without the store: test_pool_disk.c */
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
    assert_int_equal(fixture_count(&fixture, POOL_DOOMED), 1);
    fixture_advance(&fixture, 2 * NS_PER_S); /* tried again by itself */
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
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
    fixture.config.make_token = token_of_test;
    fixture.config.make_token_ctx = &calls;
    fixture.config.profiles[0].warm_min = 1;
    fixture.hold.store = true;
    fixture_start(&fixture);
    assert_int_equal(calls, 1);
    assert_string_equal(fixture_held(&fixture, POOL_FX_STORE)->snapshot.token, "k");
}

static uint64_t renew(const char *who, uint64_t ttl_ns)
{
    struct pool_event ev = {.kind = POOL_EV_RENEW};

    fixture.req++;
    ev.req.v = fixture.req;
    snprintf(ev.u.on.sandbox_id, sizeof(ev.u.on.sandbox_id), "s-%s", who);
    ev.u.on.ttl_ns = ttl_ns;
    fixture_send(&fixture, &ev);
    return fixture.req;
}

/* A renewal that is refused does not change one that was committed before it, whether its caller is
 * still there or not. */
static void test_committed_renewal_stays(void **state)
{
    uint64_t a;
    uint64_t deadline_ns;

    (void) state;
    fixture.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = true;
    a = renew("t1", 1000 * NS_PER_S);
    deadline_ns = fixture_box(&fixture, "t1")->expires_ns;
    fixture_abandon(&fixture, a);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
    a = renew("t1", 500 * NS_PER_S);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    assert_int_equal(fixture_code(&fixture, a), SP_STORE_UNAVAILABLE);
    assert_true(fixture_box(&fixture, "t1")->expires_ns == deadline_ns);
}

static void answer(const struct pool_fx *fx, enum pool_event_kind kind)
{
    struct pool_event ev = {.kind = kind, .box = fx->box, .epoch = fx->epoch};

    ev.u.stored.write = fx->u.store.write;
    ev.u.stored.expires_ns = fx->snapshot.expires_ns;
    fixture_send(&fixture, &ev);
}

/* A write that finds the queue full is refused at once, before those that wait in it are answered. */
static void test_renewal_refused_out_of_turn(void **state)
{
    struct pool_fx first;
    uint64_t deadline_ns;
    uint64_t a;
    uint64_t b;

    (void) state;
    fixture.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = true;
    a = renew("t1", 1000 * NS_PER_S);
    deadline_ns = fixture_box(&fixture, "t1")->expires_ns;
    first = fixture.held[0];
    fixture.held_count = 0;
    b = renew("t1", 500 * NS_PER_S);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    assert_int_equal(fixture_code(&fixture, b), SP_STORE_UNAVAILABLE);
    fixture_advance(&fixture, 2 * NS_PER_S); /* nor does a row with the old deadline follow it */
    assert_null(fixture_held(&fixture, POOL_FX_STORE));
    answer(&first, POOL_EV_STORED);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(fixture_box(&fixture, "t1")->expires_ns == deadline_ns);
    fixture_advance(&fixture, 2 * NS_PER_S); /* the row is written again, with what was promised */
    assert_true(fixture_held(&fixture, POOL_FX_STORE)->snapshot.expires_ns == deadline_ns);
}

/* The same, and the paused box goes on meanwhile, or is to be paused again. */
static void test_renewal_confirmed_while_resuming(void **state)
{
    struct pool_event ev = {.kind = POOL_EV_RESUMED};
    struct pool_fx first;
    uint64_t deadline_ns;
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_PAUSE, "t1", 0, false)),
                     SP_OK);
    fixture.hold.store = true;
    a = renew("t1", 1000 * NS_PER_S);
    deadline_ns = fixture_box(&fixture, "t1")->expires_ns;
    first = fixture.held[0];
    fixture.held_count = 0;
    (void) renew("t1", 500 * NS_PER_S);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    ev.box = fixture_box(&fixture, "t1")->id;
    fixture_send(&fixture, &ev);
    assert_false(fixture_box(&fixture, "t1")->is_paused);
    assert_null(fixture_held(&fixture, POOL_FX_STORE));
    assert_int_equal(fixture_code(&fixture, fixture_on(&fixture, POOL_EV_PAUSE, "t1", 0, false)),
                     SP_STORE_UNAVAILABLE);
    answer(&first, POOL_EV_STORED);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_true(fixture_held(&fixture, POOL_FX_STORE)->snapshot.expires_ns == deadline_ns);
    assert_false(fixture_held(&fixture, POOL_FX_STORE)->snapshot.is_paused);
}

/* The same, and the box is to be parked meanwhile, which fails: it is leased as long as was promised. */
static void test_renewal_confirmed_while_parking(void **state)
{
    struct pool_fx first;
    uint64_t deadline_ns;
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].ttl_ns = 100 * NS_PER_S;
    fixture.config.profiles[0].park_ns = 100 * NS_PER_S;
    fixture_start(&fixture);
    (void) fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    fixture.hold.store = true;
    a = renew("t1", 1000 * NS_PER_S);
    deadline_ns = fixture_box(&fixture, "t1")->expires_ns;
    first = fixture.held[0];
    fixture.held_count = 0;
    (void) renew("t1", 500 * NS_PER_S);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    (void) fixture_on(&fixture, POOL_EV_RELEASE, "t1", 0, false);
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_PARKING);
    answer(&first, POOL_EV_STORED);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, false));
    assert_int_equal(fixture_box(&fixture, "t1")->state, POOL_LEASED);
    assert_true(fixture_box(&fixture, "t1")->expires_ns == deadline_ns);
    fixture_advance(&fixture, 2 * NS_PER_S);
    assert_true(fixture_held(&fixture, POOL_FX_STORE)->snapshot.expires_ns == deadline_ns);
}

/* Many boxes end at once: the rows are written at the speed of the store, and a caller does not
 * wait for all of them. */
static void test_mass_end_does_not_fill_the_queue(void **state)
{
    uint64_t a;

    (void) state;
    fixture.config.max_boxes = 1002;
    fixture.config.restore_max = 1002;
    fixture.pool = pool_new(&fixture.config);
    for (unsigned i = 1; i <= 1000; i++) { /* nobody can come back for these: all of them go */
        struct pool_box row = {.id = {i}, .state = POOL_STARTING, .spec_hash = 1, .generation = 1};

        snprintf(row.sandbox_id, sizeof(row.sandbox_id), "anon-%u", i);
        assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
    }
    fixture.hold.store = true;
    fixture_start(&fixture);
    assert_int_equal(fixture_count(&fixture, POOL_DOOMED), 1000);
    assert_in_range(fixture.effects[POOL_FX_STORE], 1, 400);
    a = fixture_acquire(&fixture, "u", "t1", 60 * NS_PER_S);
    assert_int_equal(fixture.held[fixture.held_count - 1].snapshot.state, POOL_INTENT);
    for (unsigned i = 0; fixture_code(&fixture, a) != SP_OK; i++) {
        assert_in_range(i, 0, 1000); /* with all of them ahead it would take longer */
        assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
        assert_in_range(fixture.held_count, 0, 400);
    }
    a = fixture_on(&fixture, POOL_EV_DESTROY, "t1", 0, false);
    assert_string_equal(fixture.held[fixture.held_count - 1].snapshot.sandbox_id, "s-t1");
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    assert_int_equal(fixture_count(&fixture, POOL_DOOMED), 0);
}

/* The mode changes while the store is down: the answer to an older write does not confirm it. */
static void test_mode_is_not_settled_by_an_older_write(void **state)
{
    (void) state;
    fixture_start(&fixture);
    fixture.hold.store = true;
    fixture_mode(&fixture, POOL_PAUSED, false);
    assert_int_equal(fixture.writes[POOL_WRITE_MODE], 1);
    fixture_store(&fixture, false);
    fixture_mode(&fixture, POOL_RUNNING, false);
    assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
    fixture_store(&fixture, true);
    assert_int_equal(fixture.writes[POOL_WRITE_MODE], 2);
}

/* Nobody got the box, so nobody has given up what became of the id's last one: not even when it is destroyed because
 * another one was made in its place. */
static void test_an_undone_lease_was_not_released(void **state)
{
    const struct pool_box *box;
    uint64_t a;

    (void) state;
    fixture.config.profiles[0].warm_min = 1;
    fixture.config.profiles[0].warm_max = 1;
    fixture_start(&fixture);
    fixture.hold.destroy = true;
    fixture.hold.store = true;
    a = fixture_acquire(&fixture, "u", "t1", NS_PER_S);
    box = fixture_box(&fixture, "t1");
    assert_int_equal(box->state, POOL_LEASING);
    fixture_abandon(&fixture, a);
    fixture.hold.store = false;
    while (fixture_held(&fixture, POOL_FX_STORE)->box.v !=
           box->id.v) /* its substitute comes first */
        assert_true(fixture_answer(&fixture, POOL_FX_STORE, true));
    fixture_answer_all(&fixture, POOL_FX_STORE, true);
    assert_null(fixture_box(&fixture, "t1"));
    assert_int_equal(fixture.facts[POOL_FACT_LEASED], 0);
    assert_int_equal(pool_find_past(fixture.pool, "s-t1", NULL, NULL), POOL_END_NONE);
    assert_int_equal(fixture_held(&fixture, POOL_FX_DESTROY)->snapshot.end, POOL_END_RELEASED);
    assert_true(fixture_held(&fixture, POOL_FX_DESTROY)->snapshot.leased_ns == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_intent_before_create, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_lost_intent, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_lost_lease, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_lost_park, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_down, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_deleting_before_destroy, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_token_is_in_the_intent, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_committed_renewal_stays, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_renewal_refused_out_of_turn, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_renewal_confirmed_while_parking, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_mass_end_does_not_fill_the_queue, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_mode_is_not_settled_by_an_older_write, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_an_undone_lease_was_not_released, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_renewal_confirmed_while_resuming, fixture_setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
