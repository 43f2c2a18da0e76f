/* test_pool_away.c - a backend that does not answer: the boxes it was asked to make may exist and
 * count, but they do not fill the pool. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

static const struct pool_acquire odd = {.is_special = true, .made_with = 7, .principal = 5};

static int setup(void **state)
{
    struct pool_profile *c = fixture.config.profiles;

    (void) state;
    fixture_init(&fixture);
    c[0].create_max = 2;
    c[0].warm_min = 2;
    c[0].warm_max = 2;
    c[0].create_timeout_ns = 2 * NS_PER_S;
    c[0].destroy_timeout_ns = 2 * NS_PER_S;
    c[1] = c[0];
    snprintf(c[1].name, sizeof(c[1].name), "other");
    c[1].backend = 1;
    c[1].warm_min = 0;
    c[1].warm_max = 0;
    fixture.config.profile_count = 2;
    fixture.hold.create = true;
    fixture.hold.destroy = true;
    return 0;
}

/* Every create and destroy of backend 0 that is under way ends like this. */
static unsigned end_all(int code)
{
    unsigned count = 0;

    while (fixture.held_count > 0) {
        struct pool_fx fx = fixture.held[0];
        struct pool_event ev = {.box = fx.box, .epoch = fx.epoch};

        fixture.held_count--;
        memmove(fixture.held, fixture.held + 1, fixture.held_count * sizeof(fixture.held[0]));
        ev.kind = fx.kind == POOL_FX_CREATE ? POOL_EV_CREATE_FAILED : POOL_EV_DESTROYED;
        if (fx.snapshot.backend == 1 && fx.kind == POOL_FX_CREATE)
            ev.kind = POOL_EV_CREATED;
        else
            ev.u.failed.code = fx.snapshot.backend == 1 ? SP_OK : code;
        if (ev.kind != POOL_EV_CREATED)
            snprintf(ev.u.failed.reason, sizeof(ev.u.failed.reason), "nothing answers");
        count += fx.kind == POOL_FX_CREATE ? 1 : 0;
        fixture_send(&fixture, &ev);
    }
    return count;
}

/* An hour in which nothing is answered. Returns how many creates there were. */
static unsigned spend_an_hour(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < 3600; i++) {
        fixture_advance(&fixture, NS_PER_S);
        count += end_all(SP_TIMEOUT);
    }
    return count;
}

static struct pool_profile_view view(void)
{
    struct pool_profile_view v;

    pool_get_profile(fixture.pool, fixture.now_ns, 0, &v);
    return v;
}

static void test_rows_are_bounded(void **state)
{
    const struct pool_acquire other = {.profile = 1, .is_profile_named = true};
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    assert_int_equal(spend_an_hour(), 2); /* those that were under way at once */
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 2);
    assert_true(view().is_open);
    a = fixture_acquire(&fixture, "u", "here", 60 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a),
                     SP_BACKEND_UNAVAILABLE); /* at once, with the cause */
    assert_string_equal(fixture_reply(&fixture, a)->reason, "nothing answers");
    a = fixture_acquire_with(&fixture, "u", "there", 60 * NS_PER_S, &other);
    (void) end_all(SP_TIMEOUT);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

static void test_it_answers_again(void **state)
{
    (void) state;
    fixture_start(&fixture);
    (void) spend_an_hour();
    fixture.hold.create = false;
    fixture.hold.destroy = false;
    fixture_advance(&fixture, 20 * NS_PER_S); /* the next try to destroy them */
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 0);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 2);
    assert_false(view().is_open);
}

/* A box that cannot be destroyed blocks nobody if the backend does answer. */
static void test_a_listing_is_an_answer(void **state)
{
    (void) state;
    fixture_start(&fixture);
    (void) spend_an_hour();
    fixture.hold.create = false;
    fixture_list(&fixture, true, NULL, 0);
    fixture_advance(&fixture, 20 * NS_PER_S);
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 2);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 2);
}

/* Boxes with a caller's extras block only their own kind, and soon. */
static void test_boxes_of_callers(void **state)
{
    uint64_t plain;

    (void) state;
    fixture.config.max_boxes = 64;
    fixture.config.profiles[0].warm_min = 0;
    fixture.config.profiles[0].warm_max = 0;
    fixture_start(&fixture);
    for (unsigned i = 0; i < 20; i++) {
        char who[8];

        snprintf(who, sizeof(who), "t%u", i);
        (void) fixture_acquire_with(&fixture, "u", who, 10 * NS_PER_S, &odd);
        (void) end_all(SP_TIMEOUT);
        fixture_advance(&fixture, NS_PER_S);
    }
    assert_in_range(fixture_count(&fixture, POOL_DESTROYING), 4, 5);
    fixture.hold.create = false;
    plain = fixture_acquire(&fixture, "v", "plain", NS_PER_S);
    assert_int_equal(fixture_code(&fixture, plain), SP_OK);
}

/* Boxes that cannot be destroyed: a backend has its share of the places, and no more. */
static void test_a_backend_has_its_part(void **state)
{
    const struct pool_acquire other = {.profile = 1, .is_profile_named = true};
    uint64_t a;

    (void) state;
    fixture.hold.create = false;
    fixture_start(&fixture);
    for (unsigned i = 0; i < 20; i++) {
        char who[8];

        snprintf(who, sizeof(who), "t%u", i);
        (void) fixture_acquire(&fixture, "u", who, 0);
        (void) fixture_on(&fixture, POOL_EV_RELEASE, who, 0, true);
        (void) end_all(SP_BACKEND_FAILED);
        fixture_advance(&fixture, NS_PER_S);
    }
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 0);
    assert_in_range(fixture_count(&fixture, POOL_DESTROYING), 4, 6);
    a = fixture_acquire(&fixture, "u", "here", 0);
    assert_int_equal(fixture_code(&fixture, a), SP_BACKEND_UNAVAILABLE);
    a = fixture_acquire_with(&fixture, "u", "there", 60 * NS_PER_S, &other);
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
}

/* A daemon that is killed repeatedly in the meantime. */
static void test_restarts_add_nothing(void **state)
{
    struct pool_box row = {.id = {77}, .state = POOL_DESTROYING, .end = POOL_END_CREATE_FAILED};

    (void) state;
    row.expires_ns = POOL_NEVER;
    row.idle_ns = POOL_NEVER;
    fixture.pool = pool_new(&fixture.config);
    assert_true(pool_restore_box(fixture.pool, fixture.now_ns, &row));
    fixture_start(&fixture);
    assert_int_equal(spend_an_hour(), 0);
    assert_int_equal(fixture_count(&fixture, POOL_DESTROYING), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_are_bounded, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_it_answers_again, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_listing_is_an_answer, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_boxes_of_callers, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_backend_has_its_part, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_restarts_add_nothing, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
