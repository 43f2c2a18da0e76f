/* test_http_fair.c - one caller with many connections and requests sent ahead, and what others get meanwhile. Counted in
 * answers, not in time: a turn of the loop serves a limited number, and callers are served in turns. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

enum {
    MANY = 150,                   /* connections of the caller "a" */
    AHEAD = 20,                   /* requests on each */
    TURN_REQUESTS = 64,           /* in one turn of the loop */
    PASS_MAX = 2 * TURN_REQUESTS, /* in one pass: it ends in the middle of a turn */
    BODY_PASS_MAX = 2 * 6,        /* of 60 KB each */
    BODY_BYTES = 60 * 1024,
};

static struct client many[MANY];
static struct client others[3];

static void open_as(struct client *c, const char *caller)
{
    char text[100];

    (void) snprintf(text, sizeof(text), "GET /healthz HTTP/1.1\r\nX-Caller: %s\r\n\r\n", caller);
    client_open(c, &fx);
    client_expect(c, text, 200);
}

static int setup(void **state)
{
    struct http_limits limits;

    (void) state;
    fixture_limits(&limits);
    limits.max_connections = 1000;
    limits.share_percent = 80;
    limits.header_timeout_ms = 60000;
    limits.idle_timeout_ms = 60000;
    limits.write_timeout_ms = 60000;
    fixture_start(&fx, &limits);
    for (unsigned i = 0; i < MANY; i++)
        open_as(&many[i], "a");
    for (unsigned i = 0; i < 3; i++)
        open_as(&others[i], "b");
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    for (unsigned i = 0; i < MANY; i++)
        client_close(&many[i]);
    for (unsigned i = 0; i < 3; i++)
        client_close(&others[i]);
    fixture_stop(&fx);
    return 0;
}

static struct http_stats stats(void)
{
    struct http_stats ret;

    http_server_get_stats(fx.server, &ret);
    return ret;
}

/* `count` requests on one connection; nothing is served yet. */
static void ask(struct client *c, const char *caller, unsigned id, unsigned count)
{
    char text[100];

    (void) snprintf(text, sizeof(text), "GET /mark?id=%u HTTP/1.1\r\nX-Caller: %s\r\n\r\n", id,
                    caller);
    for (unsigned i = 0; i < count; i++)
        client_send(c, text);
}

static void ask_many(unsigned count)
{
    for (unsigned i = 0; i < MANY; i++)
        ask(&many[i], "a", 0, count);
}

static unsigned count_marks(unsigned id)
{
    unsigned n = 0;

    for (unsigned i = 0; i < fx.marks; i++)
        n += fx.mark_ids[i] == id ? 1 : 0;
    return n;
}

static void pass(unsigned max)
{
    unsigned before = fx.marks;

    (void) loop_run_once(&fx.loop);
    assert_in_range(fx.marks - before, 0, max);
}

static void run_until(unsigned marks, unsigned max)
{
    uint64_t end_ms = fixture_now_ms() + WAIT_MS;

    while (fx.marks < marks) {
        pass(max);
        assert_true(fixture_now_ms() < end_ms);
    }
}

static void test_a_turn_is_limited(void **state)
{
    unsigned before;

    (void) state;
    ask_many(AHEAD);
    pass(PASS_MAX);
    before = fx.marks;
    ask(&others[0], "b", 1, 1);
    while (count_marks(1) == 0)
        pass(PASS_MAX);
    assert_in_range(fx.marks - before, 1, 2 * PASS_MAX);
    run_until(MANY * AHEAD + 1, PASS_MAX);
    for (unsigned i = 0; i < MANY; i++)
        for (unsigned k = 0; k < AHEAD; k++)
            assert_int_equal(client_answer(&many[i], NULL), 200);
}

/* One connection with requests sent ahead gets as much as a hundred, and callers do not count each other's. */
static void test_shares_are_equal(void **state)
{
    unsigned before;

    (void) state;
    ask_many(AHEAD);
    pass(PASS_MAX);
    before = fx.marks;
    for (unsigned i = 0; i < AHEAD; i++) {
        ask(&others[0], "b", 1, 1);
        ask(&others[1], "c", 2 + i, 1);
    }
    while (count_marks(1) < AHEAD)
        pass(PASS_MAX);
    /* Its share is a third. */
    assert_in_range(fx.marks - before, AHEAD, 3 * AHEAD + 2 * PASS_MAX);
    run_until(MANY * AHEAD + 2 * AHEAD, PASS_MAX);
    for (unsigned i = 0, next = 2; i < fx.marks; i++) /* in order on one connection */
        if (fx.mark_ids[i] >= 2)
            assert_int_equal(fx.mark_ids[i], next++);
}

static void test_an_operator_does_not_wait(void **state)
{
    struct client c;

    (void) state;
    fx.is_operator = true;
    client_open(&c, &fx);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    fx.is_operator = false;
    ask_many(AHEAD);
    pass(PASS_MAX);
    client_send(&c, "GET /mark?id=1 HTTP/1.1\r\n\r\n");
    pass(PASS_MAX + 1); /* as if nobody else were there */
    assert_int_equal(count_marks(1), 1);
    client_close(&c);
}

static void test_refusals_count(void **state)
{
    uint64_t before;

    (void) state;
    for (unsigned i = 0; i < MANY; i++)
        client_send(&many[i], "GET /none HTTP/1.1\r\n\r\n");
    for (unsigned i = 0; i < 3; i++) {
        before = stats().requests;
        (void) loop_run_once(&fx.loop);
        assert_in_range(stats().requests - before, 0, PASS_MAX);
    }
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(client_answer(&many[i], NULL), 404);
}

static void test_bodies_count(void **state)
{
    static char text[BODY_BYTES + 200];
    int head = snprintf(text, sizeof(text),
                        "POST /mark?id=0 HTTP/1.1\r\nX-Caller: a\r\nContent-Length: %d\r\n\r\n",
                        BODY_BYTES);

    (void) state;
    memset(text + head, 'x', BODY_BYTES - 1);
    for (unsigned i = 0; i < MANY; i++)
        assert_true(client_try_send(&many[i], text, strlen(text)));
    fixture_until(&fx, stats().requests == MANY + MANY + 3);
    fixture_run_ms(&fx, 50);
    assert_int_equal(fx.marks, 0);
    for (unsigned i = 0; i < MANY; i++)
        client_send(&many[i], "x");
    pass(BODY_PASS_MAX);
    ask(&others[0], "b", 1, 1);
    run_until(2 * BODY_PASS_MAX + 1, BODY_PASS_MAX);
    assert_int_equal(count_marks(1), 1);
    run_until(MANY + 1, BODY_PASS_MAX);
}

static void test_gone_while_waiting(void **state)
{
    (void) state;
    ask_many(1);
    pass(PASS_MAX);
    for (unsigned i = 0; i < MANY; i++)
        client_close(&many[i]);
    fixture_until(&fx, stats().open == 3);
    assert_in_range(fx.marks, 1, PASS_MAX);
    assert_int_equal(stats().buffered, 0);
    ask(&others[0], "b", 1, 1);
    fixture_until(&fx, count_marks(1) == 1);
}

static void test_stop_while_waiting(void **state)
{
    unsigned answered = 0;

    (void) state;
    ask_many(1);
    pass(PASS_MAX);
    http_server_stop(fx.server);
    fixture_until(&fx, stats().open == 0);
    for (unsigned i = 0; i < MANY; i++) {
        client_wait_eof(&many[i]);
        answered += many[i].in.len > 0 ? 1 : 0;
    }
    assert_int_equal(answered, fx.marks);
    assert_int_equal(fx.marks, MANY);
}

/* A paused server begins nothing, and goes on where it was. */
static void test_pause_while_waiting(void **state)
{
    struct http_pending pending;
    unsigned before;

    (void) state;
    ask_many(2);
    pass(PASS_MAX);
    http_server_pause(fx.server);
    before = fx.marks;
    for (unsigned i = 0; i < 5; i++)
        pass(0);
    fixture_run_ms(&fx, 20);
    assert_int_equal(fx.marks, before);
    http_server_get_pending(fx.server, &pending);
    assert_int_equal(pending.busy, 0);
    http_server_resume(fx.server);
    run_until(2 * MANY, PASS_MAX);
    for (unsigned i = 0; i < 2 * MANY; i++)
        assert_int_equal(client_answer(&many[i / 2], NULL), 200);
}

static void adopt(void *ctx, int fd, const char *bytes, size_t len)
{
    struct err err;

    assert_int_equal(http_server_adopt(ctx, fd, bytes, len, &err), SP_OK);
}

static void on_closed(void *ctx)
{
    *(bool *) ctx = true;
}

/* Another server takes over what waits; each request is served once. */
static void test_moved_while_waiting(void **state)
{
    struct http_limits limits;
    struct http_server *next;
    bool is_closed = false;

    (void) state;
    ask_many(2);
    pass(PASS_MAX);
    http_server_pause(fx.server);
    fixture_run_ms(&fx, 20);
    fixture_limits(&limits);
    limits.max_connections = 1000;
    next = fixture_new_server(&fx, &limits);
    http_server_migrate(fx.server, adopt, next);
    http_server_close(fx.server, on_closed, &is_closed);
    fixture_until(&fx, is_closed);
    fx.server = next;
    run_until(2 * MANY, PASS_MAX);
    for (unsigned i = 0; i < 2 * MANY; i++)
        assert_int_equal(client_answer(&many[i / 2], NULL), 200);
    assert_int_equal(fx.marks, 2 * MANY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_turn_is_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shares_are_equal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_operator_does_not_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals_count, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bodies_count, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gone_while_waiting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_while_waiting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pause_while_waiting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_moved_while_waiting, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
