/* test_pool_quota.c - what one caller and one user may have: boxes, acquires that wait, new leases in a minute. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.has_quotas = true;
    fixture.config.profiles[0].park_ns = 1000 * NS_PER_S;
    return 0;
}

static void limit(enum pool_level level, unsigned boxes, unsigned waiting, unsigned per_minute)
{
    fixture.config.quotas[level] =
        (struct pool_quota){.boxes = boxes, .waiting = waiting, .per_minute = per_minute};
}

static uint64_t ask(uint64_t principal, const char *user, const char *who)
{
    struct pool_acquire more = {.principal = principal};

    return fixture_acquire_with(&fixture, user, who, 100 * NS_PER_S, &more);
}

static int code_of(uint64_t req)
{
    return fixture_code(&fixture, req);
}

/* Each is refused or served at once, or waits. */
#define REFUSED(req, error) assert_int_equal(code_of(req), SP_##error)
#define SERVED(req) assert_int_equal(code_of(req), SP_OK)
#define WAITS(req) assert_int_equal(code_of(req), -1000)

static void release(uint64_t principal, const char *who, bool want_destroy)
{
    struct pool_event ev = {.kind = POOL_EV_RELEASE};

    fixture.req++;
    ev.req.v = fixture.req;
    ev.u.on.principal = principal;
    ev.u.on.want_destroy = want_destroy;
    snprintf(ev.u.on.sandbox_id, sizeof(ev.u.on.sandbox_id), "s-%s", who);
    fixture_send(&fixture, &ev);
    SERVED(fixture.req);
}

static void boxes_of_a_caller(void **state)
{
    uint64_t req;

    (void) state;
    limit(POOL_LEVEL_CALLER, 2, 0, 0);
    fixture_start(&fixture);
    SERVED(ask(7, "ana", "a"));
    SERVED(ask(7, "ben", "b"));
    req = ask(7, "eva", "c");
    REFUSED(req, QUOTA_BOXES);
    assert_string_equal(fixture_reply(&fixture, req)->reason,
                        "this caller has 2 boxes, its quota (quotas.caller_boxes)");
    assert_true(fixture_reply(&fixture, req)->u.reply.retry_after_ns > 0);
    SERVED(ask(7, "ana", "a")); /* it has that one */
    SERVED(ask(8, "ana", "d")); /* another caller */
    release(7, "a", true);
    SERVED(ask(7, "eva", "c"));
    REFUSED(ask(7, "ana", "a"), QUOTA_BOXES);
}

static void boxes_of_a_user(void **state)
{
    uint64_t req;

    (void) state;
    limit(POOL_LEVEL_CALLER, 3, 0, 0);
    limit(POOL_LEVEL_USER, 1, 0, 0);
    fixture_start(&fixture);
    SERVED(ask(7, "ana", "a"));
    req = ask(7, "ana", "b");
    REFUSED(req, QUOTA_BOXES);
    assert_string_equal(fixture_reply(&fixture, req)->reason,
                        "user 'ana' of this caller has 1 boxes, its quota (quotas.user_boxes)");
    SERVED(ask(8, "ana", "c")); /* another caller's user of that name */
    SERVED(ask(7, "ben", "d"));
    SERVED(ask(7, "eva", "e"));
    REFUSED(ask(7, "new", "f"), QUOTA_BOXES); /* its caller has three */
}

/* Together they get no more than one of them could: also when they wait for boxes that are being made. */
static void acquires_that_wait_are_claims(void **state)
{
    uint64_t first;
    uint64_t second;

    (void) state;
    limit(POOL_LEVEL_CALLER, 2, 0, 0);
    fixture.hold.create = true;
    fixture_start(&fixture);
    first = ask(7, "ana", "a");
    second = ask(7, "ana", "b");
    REFUSED(ask(7, "ana", "c"), QUOTA_BOXES);
    WAITS(ask(7, "ana", "a")); /* joins the first */
    WAITS(ask(8, "ana", "x"));
    fixture_abandon(&fixture, second);
    WAITS(ask(7, "ana", "d"));
    REFUSED(ask(7, "ana", "e"), QUOTA_BOXES);
    fixture.hold.create = false;
    fixture_answer_all(&fixture, POOL_FX_CREATE, true);
    SERVED(first);
    REFUSED(ask(7, "ana", "e"), QUOTA_BOXES);
    assert_int_equal(fixture_count(&fixture, POOL_LEASED), 3);
}

static void parked_boxes_make_room(void **state)
{
    (void) state;
    limit(POOL_LEVEL_CALLER, 1, 0, 0);
    fixture_start(&fixture);
    SERVED(ask(7, "ana", "a"));
    release(7, "a", false);
    assert_int_equal(fixture_state(&fixture, fixture_box(&fixture, "a")->id.v), POOL_PARKED);
    SERVED(ask(7, "ana", "b"));
    REFUSED(ask(7, "ana", "a"), QUOTA_BOXES); /* its parked box stays */
    assert_int_equal(fixture_state(&fixture, fixture_box(&fixture, "a")->id.v), POOL_PARKED);
    release(7, "b", true);
    SERVED(ask(7, "ana", "a"));
}

static void places_in_the_queue(void **state)
{
    uint64_t first;

    (void) state;
    limit(POOL_LEVEL_CALLER, 0, 2, 0);
    limit(POOL_LEVEL_USER, 0, 1, 0);
    fixture.hold.create = true;
    fixture_start(&fixture);
    first = ask(7, "ana", "a");
    WAITS(first);
    REFUSED(ask(7, "ana", "b"), QUOTA_WAITING);
    WAITS(ask(7, "ben", "c"));
    REFUSED(ask(7, "eva", "d"), QUOTA_WAITING);
    WAITS(ask(8, "ana", "e"));
    fixture_abandon(&fixture, first);
    WAITS(ask(7, "ana", "b"));
}

static void leases_in_a_minute(void **state)
{
    uint64_t req;

    (void) state;
    limit(POOL_LEVEL_CALLER, 0, 0, 3);
    fixture_start(&fixture);
    for (unsigned i = 0; i < 3; i++) {
        SERVED(ask(7, "ana", "a"));
        release(7, "a", true);
    }
    req = ask(7, "ana", "a");
    REFUSED(req, QUOTA_CREATES);
    assert_int_equal(fixture_reply(&fixture, req)->u.reply.retry_after_ns, 20 * NS_PER_S);
    SERVED(ask(8, "ana", "b"));
    fixture_advance(&fixture, 20 * NS_PER_S - 1);
    REFUSED(ask(7, "ana", "a"), QUOTA_CREATES);
    fixture_advance(&fixture, 1);
    SERVED(ask(7, "ana", "a"));
    release(7, "a", false);
    SERVED(ask(7, "ana", "a")); /* its parked box is no new one */
    release(7, "a", true);
    REFUSED(ask(7, "ana", "a"), QUOTA_CREATES);
    fixture_advance(&fixture, 3600 * NS_PER_S); /* no more than those of a minute are saved up */
    for (unsigned i = 0; i < 3; i++) {
        SERVED(ask(7, "ana", "a"));
        release(7, "a", true);
    }
    REFUSED(ask(7, "ana", "a"), QUOTA_CREATES);
}

/* More names than there is room for: those that have nothing are forgotten. */
static void many_names(void **state)
{
    char user[16];

    (void) state;
    limit(POOL_LEVEL_CALLER, 0, 0, 100000);
    limit(POOL_LEVEL_USER, 0, 0, 1);
    fixture_start(&fixture);
    for (unsigned i = 0; i < 1500; i++) {
        snprintf(user, sizeof(user), "u%u", i);
        fixture.req = 0; /* numbers are used again */
        memset(fixture.has_reply, 0, sizeof(fixture.has_reply));
        SERVED(ask(7, user, "a"));
        release(7, "a", true);
    }
    assert_null(pool_check(fixture.pool));
    REFUSED(ask(7, user, "a"), QUOTA_CREATES);
}

static void operators_and_new_limits(void **state)
{
    struct pool_acquire more = {.principal = 7, .is_operator = true};
    struct pool_event ev = {.kind = POOL_EV_RECONFIG, .u.reconfig = &fixture.config};

    (void) state;
    limit(POOL_LEVEL_CALLER, 1, 0, 0);
    fixture_start(&fixture);
    SERVED(ask(7, "ana", "a"));
    SERVED(fixture_acquire_with(&fixture, "ana", "b", NS_PER_S, &more));
    REFUSED(ask(7, "ana", "c"), QUOTA_BOXES);
    limit(POOL_LEVEL_CALLER, 3, 0, 0);
    fixture_send(&fixture, &ev);
    SERVED(ask(7, "ana", "c"));
    REFUSED(ask(7, "ana", "d"), QUOTA_BOXES);
    limit(POOL_LEVEL_CALLER, 0, 0, 0);
    fixture_send(&fixture, &ev);
    SERVED(ask(7, "ana", "d"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(boxes_of_a_caller, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(boxes_of_a_user, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(acquires_that_wait_are_claims, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(parked_boxes_make_room, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(places_in_the_queue, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(leases_in_a_minute, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(many_names, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(operators_and_new_limits, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
