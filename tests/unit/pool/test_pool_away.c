/* test_pool_away.c - a backend that does not answer: the boxes it was asked to make may exist and
 * count, but they do not fill the pool. */
#include <stdio.h>
#include <string.h>

#include "rig.h"

static const struct pool_acquire odd = {.is_special = true, .made_with = 7, .principal = 5};

static int setup(void **state)
{
    struct pool_profile *c = rig.config.profiles;

    (void) state;
    rig_init(&rig);
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
    rig.config.profile_count = 2;
    rig.hold.create = true;
    rig.hold.destroy = true;
    return 0;
}

/* Every create and destroy of backend 0 that is under way ends like this. */
static unsigned end_all(int code)
{
    unsigned count = 0;

    while (rig.held_count > 0) {
        struct pool_fx fx = rig.held[0];
        struct pool_event ev = {.box = fx.box, .epoch = fx.epoch};

        rig.held_count--;
        memmove(rig.held, rig.held + 1, rig.held_count * sizeof(rig.held[0]));
        ev.kind = fx.kind == POOL_FX_CREATE ? POOL_EV_CREATE_FAILED : POOL_EV_DESTROYED;
        if (fx.snapshot.backend == 1 && fx.kind == POOL_FX_CREATE)
            ev.kind = POOL_EV_CREATED;
        else
            ev.u.failed.code = fx.snapshot.backend == 1 ? SP_OK : code;
        if (ev.kind != POOL_EV_CREATED)
            snprintf(ev.u.failed.reason, sizeof(ev.u.failed.reason), "nothing answers");
        count += fx.kind == POOL_FX_CREATE ? 1 : 0;
        rig_send(&rig, &ev);
    }
    return count;
}

/* An hour in which nothing is answered. Returns how many creates there were. */
static unsigned spend_an_hour(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < 3600; i++) {
        rig_advance(&rig, NS_PER_S);
        count += end_all(SP_TIMEOUT);
    }
    return count;
}

static struct pool_profile_view view(void)
{
    struct pool_profile_view v;

    pool_get_profile(rig.pool, rig.now_ns, 0, &v);
    return v;
}

static void test_rows_are_bounded(void **state)
{
    const struct pool_acquire other = {.profile = 1, .is_profile_named = true};
    uint64_t a;

    (void) state;
    rig_start(&rig);
    assert_int_equal(spend_an_hour(), 2); /* those that were under way at once */
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 2);
    assert_true(view().is_open);
    a = rig_acquire(&rig, "u", "here", 60 * NS_PER_S);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE); /* at once, with the cause */
    assert_string_equal(rig_reply(&rig, a)->reason, "nothing answers");
    a = rig_acquire_with(&rig, "u", "there", 60 * NS_PER_S, &other);
    (void) end_all(SP_TIMEOUT);
    assert_int_equal(rig_code(&rig, a), SP_OK);
}

static void test_it_answers_again(void **state)
{
    (void) state;
    rig_start(&rig);
    (void) spend_an_hour();
    rig.hold.create = false;
    rig.hold.destroy = false;
    rig_advance(&rig, 20 * NS_PER_S); /* the next try to destroy them */
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 0);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 2);
    assert_false(view().is_open);
}

/* A box that cannot be destroyed blocks nobody if the backend does answer. */
static void test_a_listing_is_an_answer(void **state)
{
    (void) state;
    rig_start(&rig);
    (void) spend_an_hour();
    rig.hold.create = false;
    rig_list(&rig, true, NULL, 0);
    rig_advance(&rig, 20 * NS_PER_S);
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 2);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 2);
}

/* Boxes with a caller's extras block only their own kind, and soon. */
static void test_boxes_of_callers(void **state)
{
    uint64_t plain;

    (void) state;
    rig.config.max_boxes = 64;
    rig.config.profiles[0].warm_min = 0;
    rig.config.profiles[0].warm_max = 0;
    rig_start(&rig);
    for (unsigned i = 0; i < 20; i++) {
        char who[8];

        snprintf(who, sizeof(who), "t%u", i);
        (void) rig_acquire_with(&rig, "u", who, 10 * NS_PER_S, &odd);
        (void) end_all(SP_TIMEOUT);
        rig_advance(&rig, NS_PER_S);
    }
    assert_in_range(rig_count(&rig, POOL_DESTROYING), 4, 5);
    rig.hold.create = false;
    plain = rig_acquire(&rig, "v", "plain", NS_PER_S);
    assert_int_equal(rig_code(&rig, plain), SP_OK);
}

/* Boxes that cannot be destroyed: a backend has its share of the places, and no more. */
static void test_a_backend_has_its_part(void **state)
{
    const struct pool_acquire other = {.profile = 1, .is_profile_named = true};
    uint64_t a;

    (void) state;
    rig.hold.create = false;
    rig_start(&rig);
    for (unsigned i = 0; i < 20; i++) {
        char who[8];

        snprintf(who, sizeof(who), "t%u", i);
        (void) rig_acquire(&rig, "u", who, 0);
        (void) rig_on(&rig, POOL_EV_RELEASE, who, 0, true);
        (void) end_all(SP_BACKEND_FAILED);
        rig_advance(&rig, NS_PER_S);
    }
    assert_int_equal(rig_count(&rig, POOL_BLANK), 0);
    assert_in_range(rig_count(&rig, POOL_DESTROYING), 4, 6);
    a = rig_acquire(&rig, "u", "here", 0);
    assert_int_equal(rig_code(&rig, a), SP_BACKEND_UNAVAILABLE);
    a = rig_acquire_with(&rig, "u", "there", 60 * NS_PER_S, &other);
    assert_int_equal(rig_code(&rig, a), SP_OK);
}

/* A daemon that is killed repeatedly in the meantime. */
static void test_restarts_add_nothing(void **state)
{
    struct pool_box row = {.id = {77}, .state = POOL_DESTROYING, .end = POOL_END_CREATE_FAILED};

    (void) state;
    row.expires_ns = POOL_NEVER;
    row.idle_ns = POOL_NEVER;
    rig.pool = pool_new(&rig.config);
    assert_true(pool_restore_box(rig.pool, rig.now_ns, &row));
    rig_start(&rig);
    assert_int_equal(spend_an_hour(), 0);
    assert_int_equal(rig_count(&rig, POOL_DESTROYING), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_are_bounded, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_it_answers_again, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_listing_is_an_answer, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_boxes_of_callers, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_backend_has_its_part, setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_restarts_add_nothing, setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
