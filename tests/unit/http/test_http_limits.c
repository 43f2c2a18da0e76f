/* test_http_limits.c - every limit has its own refusal, and the client gets to read it: no refusal
 * ends in a reset. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "fixture.h"
#include "tests/lib/at_most.h"

/* The request is refused with this status and code; then the connection ends in good order. */
static void check_refused(const char *data, size_t len, int status, const char *code)
{
    struct client c;
    struct buf text;
    char wanted[64];
    int got;

    buf_init(&text, 100000);
    client_open(&c, &fx);
    (void) client_try_send(&c, data, len); /* it may stop taking half way */
    got = client_answer(&c, &text);
    (void) snprintf(wanted, sizeof(wanted), "{\"error\":{\"code\":\"%s\",\"message\":\"", code);
    if (got != status || strstr(buf_str(&text), wanted) == NULL ||
        strstr(buf_str(&text), "\r\nConnection: close\r\n") == NULL)
        fail_msg("expected %d %s, got: %s", status, code, buf_str(&text));
    client_wait_eof(&c);
    assert_false(c.is_reset);
    assert_int_equal(c.in.len, 0); /* one answer, whatever followed */
    client_close(&c);
    buf_fini(&text);
}

static void check_text(const char *text, int status, const char *code)
{
    check_refused(text, strlen(text), status, code);
}

static void test_refusals(void **state)
{
    (void) state;
    check_text("garbage\r\n\r\n", 400, "bad_request");
    check_text("GET /healthz HTTP/3.0\r\n\r\n", 505, "http_version");
    check_text("GET /%GG HTTP/1.1\r\n\r\n", 400, "bad_request");
    check_text("GET / HTTP/1.1\r\nA : b\r\n\r\n", 400, "bad_request");
    check_text("PUT /upload HTTP/1.1\r\nExpect: more\r\nContent-Length: 1\r\n\r\nx", 417,
               "expectation_failed");
    check_text("POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501,
               "unsupported");
}

/* Each hides a second request that must never run; one answer, then the end. */
static void test_smuggling(void **state)
{
    (void) state;
    check_text("POST /echo HTTP/1.1\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
               "0\r\n\r\nGET /wait HTTP/1.1\r\n\r\n",
               400, "bad_request");
    check_text("POST /echo HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n"
               "GET /wait HTTP/1.1\r\n\r\n",
               400, "bad_request");
    check_text("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde0\r\n\r\n"
               "GET /wait HTTP/1.1\r\n\r\n",
               400, "bad_request");
    check_text("POST /echo HTTP/1.1\r\nTransfer-Encoding:\x0b"
               "chunked\r\n\r\n0\r\n\r\n"
               "GET /wait HTTP/1.1\r\n\r\n",
               400, "bad_request");
    check_text("GET /healthz HTTP/1.1\nContent-Length: 23\n\nGET /wait HTTP/1.1\r\n\r\n", 400,
               "bad_request");
    assert_int_equal(fx.waits, 0);
}

static void test_header_size(void **state)
{
    struct buf text;

    (void) state;
    buf_init(&text, 1000000);
    buf_puts(&text, "GET /healthz HTTP/1.1\r\nX: ");
    for (unsigned i = 0; i < HEAD_MAX; i++)
        buf_putc(&text, 'x');
    buf_puts(&text, "\r\n\r\n");
    check_refused(text.data, text.len, 431, "headers_too_large");
    buf_reset(&text);
    buf_puts(&text, "GET /healthz HTTP/1.1\r\n");
    for (unsigned i = 0; i < 101; i++)
        buf_puts(&text, "a:b\r\n");
    buf_puts(&text, "\r\n");
    check_refused(text.data, text.len, 431, "headers_too_large");
    buf_reset(&text);
    buf_puts(&text, "GET /");
    for (unsigned i = 0; i < 500000; i++)
        buf_putc(&text, 'x');
    check_refused(text.data, text.len, 414, "uri_too_long");
    buf_fini(&text);
}

static void test_body_size(void **state)
{
    struct buf text;
    struct client c;

    (void) state;
    buf_init(&text, 2000000);
    /* Known to be too long: refused before the first byte of it. */
    check_text("POST /echo HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", 413, "body_too_large");
    check_text("POST /small HTTP/1.1\r\nContent-Length: 17\r\n\r\n", 413, "body_too_large");
    check_text("PUT /upload/small HTTP/1.1\r\nContent-Length: 101\r\n\r\n", 413, "body_too_large");
    check_text("POST /echo HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n", 413,
               "body_too_large");
    /* Nobody needs it, so it must not be kept: strangers may ask for the health. */
    check_text("GET /healthz HTTP/1.1\r\nContent-Length: 4097\r\n\r\n", 413, "body_too_large");
    check_text("GET /items/1 HTTP/1.1\r\nContent-Length: 4097\r\n\r\n", 413, "body_too_large");
    client_open(&c, &fx);
    client_expect(&c, "GET /healthz HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 200);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&c);
    /* The same with a client that sends it anyhow. */
    buf_puts(&text, "POST /echo HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
    for (unsigned i = 0; i < 1000000; i++)
        buf_putc(&text, 'x');
    check_refused(text.data, text.len, 413, "body_too_large");
    /* Chunks: refused when it shows. */
    buf_reset(&text);
    buf_puts(&text, "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nF0000\r\n");
    for (unsigned i = 0; i < 0xF0000; i++)
        buf_putc(&text, 'x');
    check_refused(text.data, text.len, 413, "body_too_large");
    check_text("POST /small HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
               "8\r\n01234567\r\n9\r\n012345678\r\n0\r\n\r\n",
               413, "body_too_large");
    assert_int_equal(fx.sent_ok, 0);
    /* As much as is allowed is taken. */
    client_open(&c, &fx);
    client_expect(&c, "POST /small HTTP/1.1\r\nContent-Length: 16\r\n\r\n0123456789abcdef", 200);
    client_close(&c);
    buf_fini(&text);
}

/* A streamed body that breaks a rule: the handler is notified, and so is the client. */
static void test_streamed_body(void **state)
{
    static const char long_chunk[] =
        "PUT /upload/small HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\0\1\r\n65\r\n";
    static const char bad_chunk[] =
        "PUT /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\0\1XX";
    char text[300];
    size_t len = sizeof(long_chunk) - 1;

    (void) state;
    check_refused(long_chunk, len, 408, "request_timeout");
    assert_int_equal(fx.gone, 1);
    check_refused(bad_chunk, sizeof(bad_chunk) - 1, 400, "bad_request");
    assert_int_equal(fx.gone, 2);
    memcpy(text, long_chunk, len);
    for (unsigned i = 0; i < 0x65; i++)
        text[len + i] = (char) (2 + i);
    check_refused(text, len + 0x65, 413, "body_too_large");
    assert_int_equal(fx.gone, 3);
    assert_int_equal(fx.ended, 0);
}

static void test_header_timeout(void **state)
{
    struct client c;
    uint64_t start;

    (void) state;
    check_text("GET /healthz HTTP/1.1\r\nX: y", 408, "request_timeout");
    check_text("G", 408, "request_timeout");
    /* A drip of bytes does not push it back. */
    client_open(&c, &fx);
    start = fixture_now_ms();
    client_send(&c, "GET /healthz HTTP/1.1\r\n");
    while (c.in.len == 0 && fixture_now_ms() < start + WAIT_MS) {
        (void) client_try_send(&c, "a:b\r\n", 5);
        fixture_run_ms(&fx, 50);
        client_poll(&c);
    }
    assert_int_equal(client_answer(&c, NULL), 408);
    assert_in_range(fixture_now_ms() - start, 290, at_most(1500));
    client_close(&c);
}

static void test_body_timeout(void **state)
{
    static const char piece[2000];
    struct client c;

    (void) state;
    check_text("POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhel", 408, "request_timeout");
    check_text("POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 408, "request_timeout");
    /* Longer than that is fine as long as enough comes. */
    client_open(&c, &fx);
    client_send(&c, "POST /echo HTTP/1.1\r\nContent-Length: 10000\r\n\r\n");
    for (unsigned i = 0; i < 5; i++) {
        fixture_run_ms(&fx, 150);
        assert_true(client_try_send(&c, piece, sizeof(piece)));
    }
    assert_int_equal(client_answer(&c, NULL), 200);
    client_close(&c);
}

/* A byte now and then does not hold a connection: the whole request has a deadline. */
static void test_body_that_trickles(void **state)
{
    uint64_t start = fixture_now_ms();
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "POST /echo HTTP/1.1\r\nContent-Length: 5000\r\n\r\n");
    for (unsigned i = 0; i < 50 && c.in.len == 0; i++) {
        (void) client_try_send(&c, "x", 1);
        fixture_run_ms(&fx, 100);
        client_poll(&c);
    }
    assert_int_equal(client_answer(&c, NULL), 408);
    assert_in_range(fixture_now_ms() - start, 290, at_most(2500));
    client_close(&c);
}

static void test_idle_timeout(void **state)
{
    struct http_limits limits;
    struct client c;
    struct client fresh;

    (void) state;
    fixture_limits(&limits);
    limits.idle_timeout_ms = 200;
    http_server_set_limits(fx.server, &limits);
    client_open(&c, &fx);
    client_open(&fresh, &fx);
    for (unsigned i = 0; i < 4; i++) { /* every request starts it anew */
        fixture_run_ms(&fx, 100);
        client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    }
    client_wait_eof(&c);
    assert_int_equal(c.in.len, 0); /* nothing was asked: nothing is said */
    client_wait_eof(&fresh);
    client_close(&c);
    client_close(&fresh);
}

/* A waiting request is not idle. */
static void test_no_timeout_while_waiting(void **state)
{
    struct http_limits limits;
    struct client c;

    (void) state;
    fixture_limits(&limits);
    limits.idle_timeout_ms = 50;
    limits.header_timeout_ms = 50;
    limits.write_timeout_ms = 50;
    http_server_set_limits(fx.server, &limits);
    client_open(&c, &fx);
    client_send(&c, "GET /wait HTTP/1.1\r\n\r\n");
    fixture_run_ms(&fx, 400);
    assert_int_equal(fx.waits, 1);
    http_reply(fx.pending, 200, NULL, "late", 4);
    assert_int_equal(client_answer(&c, NULL), 200);
    client_close(&c);
}

static void test_connection_cap(void **state)
{
    enum { CAP = 8, OVER = 60 };
    struct http_limits limits;
    struct http_stats stats;
    struct client c[CAP];
    struct client over[OVER];
    struct buf text;

    (void) state;
    buf_init(&text, 10000);
    fixture_limits(&limits);
    limits.max_connections = CAP;
    http_server_set_limits(fx.server, &limits);
    for (unsigned i = 0; i < CAP; i++) {
        client_open(&c[i], &fx);
        client_expect(&c[i], "GET /healthz HTTP/1.1\r\n\r\n", 200);
    }
    for (unsigned i = 0; i < OVER; i++) { /* more than are lingered for */
        client_open(&over[i], &fx);
        if (i % 2 == 0)
            client_send(&over[i], "GET /healthz HTTP/1.1\r\n\r\n");
    }
    for (unsigned i = 0; i < OVER; i++) {
        assert_int_equal(client_answer(&over[i], &text), 503);
        assert_non_null(strstr(buf_str(&text), "too_many_connections"));
        assert_non_null(strstr(buf_str(&text), "\r\nRetry-After: 1\r\n"));
        client_wait_eof(&over[i]);
        client_close(&over[i]);
    }
    http_server_get_stats(fx.server, &stats);
    assert_int_equal(stats.refused, OVER);
    assert_int_equal(stats.open, CAP);
    client_expect(&c[0], "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&c[0]);
    fixture_until(&fx, http_server_connections(fx.server) == CAP - 1);
    client_open(&c[0], &fx); /* there is room again */
    client_expect(&c[0], "GET /healthz HTTP/1.1\r\n\r\n", 200);
    for (unsigned i = 0; i < CAP; i++)
        client_close(&c[i]);
    buf_fini(&text);
}

/* After a refusal a client that never stops sending is cut off: by amount, and by time. */
static void test_linger_is_bounded(void **state)
{
    static char data[64 * 1024];
    struct client c;
    uint64_t start;
    unsigned sent = 0;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "POST /small HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n");
    while (sent < 1000 && client_try_send(&c, data, sizeof(data))) {
        fixture_turn(&fx);
        sent++;
    }
    assert_in_range(sent, 32, 200);
    client_poll(&c);
    assert_memory_equal(c.in.data, "HTTP/1.1 413", 12);
    client_close(&c);

    client_open(&c, &fx);
    client_expect(&c, "POST /small HTTP/1.1\r\nContent-Length: 1000\r\n\r\n", 413);
    start = fixture_now_ms();
    fixture_until(&fx, http_server_connections(fx.server) == 0);
    assert_in_range(fixture_now_ms() - start, 1500, at_most(3000));
    client_close(&c);
}

/* Waits for the first bytes of an answer or the end, without memory of its own. */
static int status_without_memory(struct client *c)
{
    char text[13] = "";
    uint64_t end = fixture_now_ms() + WAIT_MS;
    ssize_t n;

    do {
        assert_true(fixture_now_ms() < end);
        fixture_turn(&fx);
        n = recv(c->fd, text, 12, MSG_PEEK);
    } while (n < 0);
    return n == 12 ? (int) strtol(text + 9, NULL, 10) : 0;
}

/* Every allocation whose size the peer chooses fails once, and then all from there on: the answer
 * is right, a refusal, or at worst the end of the connection; the next request is served. */
static void test_no_memory(void **state)
{
    static char request[30000];
    unsigned refused = 0;
    unsigned served = 0;

    (void) state;
    memset(request, 'x', sizeof(request));
    for (unsigned n = 1; n <= 60; n++) {
        struct client c;
        int status;
        int head = snprintf(request, 100, "POST /echo HTTP/1.1\r\nContent-Length: 20000\r\n\r\n");

        request[head] = 'x';
        client_open(&c, &fx);
        mem_fail_after((n + 1) / 2, n % 2 == 0);
        assert_true(client_try_send(&c, request, (size_t) head + 20000));
        status = status_without_memory(&c);
        mem_fail_after(0, false);
        assert_true(status == 0 || status == 200 || status == 503);
        refused += status == 503;
        served += status == 200;
        client_close(&c);
        client_open(&c, &fx);
        client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
        client_close(&c);
    }
    assert_true(refused > 0 && served > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refusals),       TEST(test_smuggling),
        TEST(test_header_size),    TEST(test_body_size),
        TEST(test_streamed_body),  TEST(test_header_timeout),
        TEST(test_body_timeout),   TEST(test_body_that_trickles),
        TEST(test_idle_timeout),   TEST(test_no_timeout_while_waiting),
        TEST(test_connection_cap), TEST(test_linger_is_bounded),
        TEST(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
