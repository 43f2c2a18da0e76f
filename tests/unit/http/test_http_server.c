/* test_http_server.c - what a well-behaved client sees. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

/* A busy machine may let the client, which is in this process, read late. */
static int setup(void **state)
{
    struct http_limits limits;

    (void) state;
    fixture_limits(&limits);
    limits.write_timeout_ms = WAIT_MS;
    fixture_start(&fx, &limits);
    return 0;
}

/* One request on a new connection; the answer's text must hold `part`. */
static void check(const char *request, int status, const char *part)
{
    struct client c;
    struct buf text;
    int got;

    buf_init(&text, 1024 * 1024);
    client_open(&c, &fx);
    client_send(&c, request);
    got = client_answer(&c, &text);
    if (got != status || strstr(buf_str(&text), part) == NULL)
        fail_msg("expected %d with '%s', got: %s", status, part, buf_str(&text));
    client_close(&c);
    buf_fini(&text);
}

static void test_requests(void **state)
{
    (void) state;
    check(
        "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"status");
    check("GET /items/a%20b?q=1%2B1 HTTP/1.1\r\nX-Test: yes\r\n\r\n", 200,
          "{\"id\":\"a b\",\"path\":\"/items/a b\",\"method\":\"GET\",\"q\":\"1+1\",\"x\":\"yes\","
          "\"none\":true}");
    check("GET /items/a HTTP/1.1\r\n\r\n", 200, "\r\nX-Kind: item\r\n");
    check("GET /items/special HTTP/1.1\r\n\r\n", 204, "HTTP/1.1 204 No Content\r\n\r\n");
    check("POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 200, "\r\n\r\nhello");
    check("POST /echo HTTP/1.1\r\n\r\n", 200, "Content-Length: 0\r\n");
    check("GET http://box/healthz HTTP/1.1\r\n\r\n", 200, "ok");
    check("\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n", 200, "ok");
}

static void test_errors(void **state)
{
    (void) state;
    check("GET /nothing HTTP/1.1\r\n\r\n", 404,
          "{\"error\":{\"code\":\"no_route\",\"message\":\"no such path\"}}");
    check("DELETE /healthz HTTP/1.1\r\n\r\n", 405, "\r\nAllow: GET, HEAD\r\n");
    check("OPTIONS /items/a HTTP/1.1\r\n\r\n", 405, "\r\nAllow: GET, HEAD, DELETE\r\n");
    check("OPTIONS * HTTP/1.1\r\n\r\n", 404, "no_route");
    check("GET /error HTTP/1.1\r\n\r\n", 429, "\r\nRetry-After: 2\r\n");
    check("GET /error HTTP/1.1\r\n\r\n", 429,
          "{\"error\":{\"code\":\"pool_exhausted\",\"message\":\"all \\\"boxes\\\" are in use\","
          "\"retry_after_ms\":1200}}");
}

static void test_guard(void **state)
{
    (void) state;
    fx.guard_code = SP_UNAUTHORIZED;
    check("GET /items/a HTTP/1.1\r\n\r\n", 401, "the guard says no");
    check("GET /healthz HTTP/1.1\r\n\r\n", 200, "ok");
    check("GET /nothing HTTP/1.1\r\n\r\n", 404, "no_route");
    /* Before the body: it is neither read nor asked for. */
    check("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", 401,
          "Connection: close");
}

static void test_peer(void **state)
{
    (void) state;
    check("POST /echo HTTP/1.1\r\n\r\n", 200, "");
    assert_false(fx.peer.is_tcp);
    assert_int_equal(fx.peer.uid, getuid());
    assert_int_equal(fx.peer.gid, getgid());
    assert_int_equal(fx.peer.pid, getpid());
}

static void test_keep_alive(void **state)
{
    struct client c;
    struct buf text;

    (void) state;
    buf_init(&text, 10000);
    client_open(&c, &fx);
    for (unsigned i = 0; i < 50; i++) {
        client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
        client_expect(&c, "GET /nothing HTTP/1.1\r\n\r\n", 404);
        client_expect(&c, "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 200);
        client_expect(&c, "HEAD /items/special HTTP/1.1\r\n\r\n", 204);
    }
    assert_int_equal(http_server_connections(fx.server), 1);
    client_send(&c, "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_int_equal(client_answer(&c, &text), 200);
    assert_non_null(strstr(buf_str(&text), "\r\nConnection: close\r\n"));
    client_wait_eof(&c);
    assert_false(c.is_reset);
    client_close(&c);
    buf_fini(&text);
}

static void test_http10(void **state)
{
    struct client c;
    struct buf text;

    (void) state;
    buf_init(&text, 10000);
    client_open(&c, &fx);
    client_send(&c, "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_int_equal(client_answer(&c, &text), 200);
    assert_non_null(strstr(buf_str(&text), "\r\nConnection: keep-alive\r\n"));
    client_expect(&c, "GET /healthz HTTP/1.0\r\n\r\n", 200);
    client_wait_eof(&c);
    client_close(&c);

    client_open(&c, &fx);
    client_send(&c, "GET /download?n=5 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    client_wait_eof(&c);
    assert_non_null(strstr(buf_str(&c.in), "\r\nConnection: close\r\n\r\nddddd"));
    assert_null(strstr(buf_str(&c.in), "chunked"));
    client_close(&c);
    buf_fini(&text);
}

static void test_head(void **state)
{
    struct client c;
    struct buf text;

    (void) state;
    buf_init(&text, 10000);
    client_open(&c, &fx);
    client_send(&c, "HEAD /healthz HTTP/1.1\r\n\r\n");
    assert_int_equal(client_head(&c, &text), 200);
    assert_non_null(strstr(buf_str(&text), "\r\nContent-Length: 15\r\n"));
    client_send(&c, "HEAD /nothing HTTP/1.1\r\n\r\n");
    assert_int_equal(client_head(&c, &text), 404);
    client_send(&c, "HEAD /download?n=100 HTTP/1.1\r\n\r\n");
    assert_int_equal(client_head(&c, &text), 200);
    assert_non_null(strstr(buf_str(&text), "chunked"));
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200); /* nothing was left over */
    client_close(&c);
    buf_fini(&text);
}

static void test_byte_by_byte(void **state)
{
    static const char text[] =
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "4\r\nWiki\r\n6;e=\"1\"\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n"
        "0\r\nTrailer: x\r\n\r\n";
    struct client c;
    struct buf answer;

    (void) state;
    buf_init(&answer, 10000);
    client_open(&c, &fx);
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < strlen(text); i++) {
            assert_true(client_try_send(&c, text + i, 1));
            (void) loop_run_once(&fx.loop);
        }
        assert_int_equal(client_answer(&c, &answer), 200);
        assert_non_null(strstr(buf_str(&answer), "\r\n\r\nWikipedia in \r\n\r\nchunks."));
    }
    client_close(&c);
    buf_fini(&answer);
}

static void test_pipelining(void **state)
{
    struct client c;
    struct buf text;
    struct buf want;

    (void) state;
    buf_init(&text, 100000);
    buf_init(&want, 1000);
    for (unsigned i = 0; i < 100; i++)
        buf_printf(&text, "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\n%03u", i);
    client_open(&c, &fx);
    client_send(&c, buf_str(&text));
    for (unsigned i = 0; i < 100; i++) {
        char tail[16];

        assert_int_equal(client_answer(&c, &want), 200);
        (void) snprintf(tail, sizeof(tail), "\r\n\r\n%03u", i);
        assert_non_null(strstr(buf_str(&want), tail));
    }
    assert_int_equal(fx.sent_ok, 100);
    client_close(&c);
    buf_fini(&text);
    buf_fini(&want);
}

/* Requests behind one that waits are not looked at, and come in order after it. */
static void test_pipelining_behind_a_wait(void **state)
{
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(
        &c, "GET /wait HTTP/1.1\r\n\r\nGET /wait HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n");
    fixture_until(&fx, fx.waits == 1);
    fixture_run_ms(&fx, 400); /* longer than the header timeout */
    assert_int_equal(fx.waits, 1);
    http_reply(fx.pending, 200, NULL, "1", 1);
    assert_int_equal(fx.waits, 1); /* not from inside the call */
    assert_int_equal(fx.sent_ok, 0);
    assert_int_equal(client_answer(&c, NULL), 200);
    fixture_until(&fx, fx.waits == 2);
    assert_int_equal(fx.sent_ok, 1);
    http_reply(fx.pending, 201, NULL, "2", 1);
    assert_int_equal(client_answer(&c, NULL), 201);
    assert_int_equal(client_answer(&c, NULL), 200);
    assert_int_equal(fx.gone, 0);
    client_close(&c);
}

/* Who asks for thousands ahead does not keep the loop from others: it gets a part of each turn. */
static void test_pipelining_takes_turns(void **state)
{
    static const char one[] = "GET /healthz HTTP/1.1\r\n\r\n";
    struct client greedy;
    struct client other;
    struct buf many;
    struct http_stats before;
    struct http_stats after;

    (void) state;
    buf_init(&many, 1024 * 1024);
    for (int i = 0; i < 2000; i++)
        buf_append(&many, one, strlen(one));
    client_open(&greedy, &fx);
    client_open(&other, &fx);
    fixture_turn(&fx);
    http_server_get_stats(fx.server, &before);
    assert_true(client_try_send(&greedy, buf_str(&many), many.len));
    client_expect(&other, one, 200);
    http_server_get_stats(fx.server, &after);
    assert_in_range(after.requests - before.requests, 1, 256);
    client_close(&greedy);
    client_close(&other);
    buf_fini(&many);
}

/* Far more than is kept ahead: the client is slowed down, nothing is lost. */
static void test_pipelining_flood(void **state)
{
    enum { COUNT = 5000 };
    static const char request[] = "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /wait HTTP/1.1\r\n\r\n");
    fixture_until(&fx, fx.waits == 1);
    for (unsigned i = 0; i < COUNT; i++) {
        if (i == 1000) {
            http_reply(fx.pending, 200, NULL, "", 0);
            assert_int_equal(client_answer(&c, NULL), 200);
        }
        client_send(&c, request);
        client_poll(&c);
    }
    fixture_until(&fx, (client_poll(&c), fx.sent_ok == COUNT + 1));
    client_close(&c);
}

static void test_continue(void **state)
{
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "POST /echo HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
    assert_int_equal(client_head(&c, NULL), 100);
    client_expect(&c, "ok", 200);
    client_send(&c, "PUT /upload HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    assert_int_equal(client_head(&c, NULL), 100);
    assert_true(client_try_send(&c, "", 1)); /* the byte that /upload expects first is 0 */
    assert_int_equal(client_answer(&c, NULL), 200);
    /* Without a body there is nothing to wait for, and HTTP/1.0 knows no such answer. */
    client_expect(&c, "POST /echo HTTP/1.1\r\nExpect: 100-continue\r\n\r\n", 200);
    client_expect(&c, "POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
                  200);
    client_close(&c);
    /* Refusals come instead of it. */
    client_open(&c, &fx);
    client_expect(&c, "POST /nope HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
                  404);
    client_wait_eof(&c);
    client_close(&c);
    client_open(&c, &fx);
    client_expect(&c, "POST /small HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 17\r\n\r\n",
                  413);
    client_wait_eof(&c);
    client_close(&c);
}

static void test_big_answer(void **state)
{
    struct client c;
    struct buf text;

    (void) state;
    buf_init(&text, 64 * 1024 * 1024);
    client_open(&c, &fx);
    client_send(&c, "GET /big HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n");
    assert_int_equal(client_answer(&c, &text), 200);
    assert_true(text.len > 8 * 1024 * 1024);
    assert_int_equal(text.data[text.len - 1], 'b');
    assert_int_equal(client_answer(&c, NULL), 200);
    assert_int_equal(fx.sent_ok, 1);
    client_close(&c);
    buf_fini(&text);
}

static void test_stats(void **state)
{
    struct http_stats stats;
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_expect(&c, "nonsense\r\n\r\n", 400);
    http_server_get_stats(fx.server, &stats);
    assert_int_equal(stats.accepted, 1);
    assert_int_equal(stats.requests, 1);
    assert_int_equal(stats.bad_requests, 1);
    assert_int_equal(stats.refused, 0);
    assert_int_equal(stats.open, 1);
    client_close(&c);
    fixture_until(&fx, http_server_connections(fx.server) == 0);
}

/* Whoever answers, and in whatever way: what follows is never a request. */
static void test_refused_upgrades(void **state UNUSED)
{
    static const struct {
        const char *head;
        int status;
    } cases[] = {
        {"GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", 200},
        {"GET /nothing HTTP/1.1\r\nConnection: keep-alive, upgrade\r\nUpgrade: x\r\n\r\n", 404},
        {"PUT /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", 405},
        {"GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n\r\nx",
         200},
        {"CONNECT /nothing HTTP/1.1\r\n\r\n", 404},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct client c;

        client_open(&c, &fx);
        client_send(&c, cases[i].head);
        client_send(&c, "GET /healthz HTTP/1.1\r\n\r\n");
        assert_int_equal(client_answer(&c, NULL), cases[i].status);
        client_wait_eof(&c);
        assert_int_equal(c.in.len, 0);
        client_close(&c);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_requests),
        TEST(test_errors),
        TEST(test_guard),
        TEST(test_peer),
        TEST(test_keep_alive),
        TEST(test_refused_upgrades),
        TEST(test_http10),
        TEST(test_head),
        TEST(test_byte_by_byte),
        TEST(test_pipelining),
        TEST(test_pipelining_behind_a_wait),
        TEST(test_pipelining_takes_turns),
        TEST(test_pipelining_flood),
        TEST(test_continue),
        TEST(test_big_answer),
        TEST(test_stats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
