/* test_http_held.c - the memory for connections has a budget: a caller that does not read, or does
 * not finish its requests, is refused at its share of it; others and operators are served. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

enum { COUNT = 40, BUDGET = 16 * 1024 * 1024, SMALL = 2 * 1024 * 1024, PAGE_CAP = 1024 * 1024 };

static struct client clients[COUNT];

static void start(size_t budget)
{
    struct http_limits limits;

    fixture_limits(&limits);
    limits.max_connections = 10 * COUNT;
    limits.share_percent = 80;
    limits.max_buffered = budget;
    limits.header_timeout_ms = 60000;
    limits.idle_timeout_ms = 60000;
    limits.write_timeout_ms = 60000;
    fixture_start(&fx, &limits);
}

static struct http_stats stats(void)
{
    struct http_stats ret;

    http_server_get_stats(fx.server, &ret);
    return ret;
}

/* Everything of the caller on all of its connections, nothing is read. */
static void send_all(struct client *c, const char *caller, const char *line, const char *rest)
{
    static char text[BODY_MAX + 1000];

    for (unsigned i = 0; i < COUNT; i++) {
        (void) snprintf(text, sizeof(text), "%s HTTP/1.1\r\nX-Caller: %s\r\n%s", line, caller,
                        rest);
        client_open(&c[i], &fx);
        (void) client_try_send(&c[i], text, strlen(text)); /* it may be refused half way */
    }
}

static void close_all(struct client *c)
{
    for (unsigned i = 0; i < COUNT; i++)
        client_close(&c[i]);
}

static void check_refused(struct client *c)
{
    struct buf text;

    buf_init(&text, 10000);
    assert_int_equal(client_answer(c, &text), 503);
    assert_non_null(strstr(buf_str(&text), "\"no_memory\""));
    assert_non_null(strstr(buf_str(&text), "http.max_buffered"));
    assert_non_null(strstr(buf_str(&text), "\r\nRetry-After: 1\r\n"));
    client_wait_eof(c);
    buf_fini(&text);
}

static void check_served(const char *request, bool is_operator)
{
    struct client c;

    fx.is_operator = is_operator;
    client_open(&c, &fx);
    client_expect(&c, request, 200);
    client_close(&c);
    fx.is_operator = false;
}

static void finish(void)
{
    fixture_until(&fx, stats().open == 0);
    assert_int_equal(stats().buffered, 0);
    fixture_stop(&fx);
}

static void test_answers_that_nobody_reads(void **state)
{
    static struct client more[3][COUNT];
    static const char *const names[] = {"b", "c", "d"};

    (void) state;
    start(BUDGET);
    send_all(clients, "a", "GET /page", "\r\n");
    fixture_until(&fx, stats().requests == COUNT);
    assert_in_range(stats().buffered, BUDGET / 2, BUDGET - 2 * PAGE_CAP);
    check_refused(&clients[COUNT - 1]);
    assert_int_equal(client_answer(&clients[0], NULL), 200); /* what was held is still right */
    check_served("GET /page HTTP/1.1\r\nX-Caller: b\r\n\r\n", false);
    check_served("GET /page HTTP/1.1\r\n\r\n", true);
    /* Others take the rest. Nobody gets more than one answer over the budget. */
    for (unsigned i = 0; i < 3; i++)
        send_all(more[i], names[i], "GET /page", "\r\n");
    fixture_until(&fx, stats().requests == 4 * COUNT + 2);
    assert_in_range(stats().buffered, BUDGET - 4 * PAGE_CAP, BUDGET + PAGE_CAP);
    check_served("GET /page HTTP/1.1\r\n\r\n", true);
    check_served("GET /healthz HTTP/1.1\r\nX-Caller: a\r\n\r\n", false);
    close_all(clients);
    for (unsigned i = 0; i < 3; i++)
        close_all(more[i]);
    fixture_until(&fx, stats().open == 0);
    check_served("GET /page HTTP/1.1\r\nX-Caller: a\r\n\r\n", false);
    finish();
}

static void test_bodies_that_do_not_end(void **state)
{
    static char rest[BODY_MAX + 100];
    static char whole[BODY_MAX + 200];
    int head = snprintf(rest, sizeof(rest), "Content-Length: %d\r\n\r\n", BODY_MAX);

    (void) state;
    memset(rest + head, 'x', BODY_MAX - 1);
    start(SMALL);
    send_all(clients, "a", "POST /echo", rest);
    fixture_until(&fx, stats().bad_requests > 0 && stats().requests == COUNT);
    fixture_run_ms(&fx, 20);
    assert_in_range(stats().buffered, SMALL / 4, SMALL);
    check_refused(&clients[COUNT - 1]);
    (void) snprintf(whole, sizeof(whole), "POST /echo HTTP/1.1\r\nX-Caller: b\r\n%sx", rest);
    check_served(whole, false);
    check_served(whole, true);
    client_send(&clients[0], "x");
    assert_int_equal(client_answer(&clients[0], NULL), 200);
    close_all(clients);
    finish();
}

/* A stream whose writer does not wait, to readers that do not read. */
static void test_streams_that_nobody_reads(void **state)
{
    (void) state;
    start(SMALL);
    fx.ignores_backpressure = true;
    send_all(clients, "a", "GET /download?n=900000", "\r\n");
    fixture_until(&fx, stats().requests == COUNT);
    assert_in_range(stats().buffered, SMALL / 4, SMALL);
    check_served("GET /items/1 HTTP/1.1\r\nX-Caller: b\r\n\r\n", false);
    close_all(clients);
    finish();
}

/* Requests that wait, each with the next one behind it. */
static void test_input_behind_requests_that_wait(void **state)
{
    static char rest[60000];

    (void) state;
    memset(rest, 'x', sizeof(rest) - 1);
    memcpy(rest, "\r\n", 2);
    start(SMALL);
    send_all(clients, "a", "GET /wait", rest);
    fixture_until(&fx, stats().requests == COUNT);
    fixture_run_ms(&fx, 50);
    assert_in_range(stats().buffered, SMALL / 4, SMALL);
    check_served("GET /items/1 HTTP/1.1\r\nX-Caller: b\r\n\r\n", false);
    close_all(clients);
    finish();
}

/* What a closed connection held counts until it is free. */
static void test_closed_connections(void **state)
{
    static char rest[30000];

    (void) state;
    memset(rest, 'x', sizeof(rest) - 1);
    memcpy(rest, "\r\n", 2);
    start(BUDGET);
    send_all(clients, "a", "GET /wait", rest);
    fixture_until(&fx, stats().buffered >= COUNT * sizeof(rest));
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned gone = fx.gone;

        client_close(&clients[i]);
        fixture_until(&fx, fx.gone == gone + 1);
        assert_in_range(fx.gone_buffered, (COUNT - i) * sizeof(rest), BUDGET);
    }
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_that_nobody_reads),
        cmocka_unit_test(test_bodies_that_do_not_end),
        cmocka_unit_test(test_streams_that_nobody_reads),
        cmocka_unit_test(test_input_behind_requests_that_wait),
        cmocka_unit_test(test_closed_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
