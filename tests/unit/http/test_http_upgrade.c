/* test_http_upgrade.c - connections that a handler takes over: bytes both ways, from the first one behind the request to
 * either end, with the limits of the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/rand.h"
#include "base/str.h"
#include "fixture.h"

#define ASK "GET /upgrade HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n"
static const char accepted[] =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";

/* What the handler has seen. */
static struct {
    struct http_exchange *ex;
    struct buf got;
    uint64_t count;
    unsigned ends;
    unsigned gone;
    unsigned sent;
    bool wants_echo;
    bool wants_late; /* upgraded by the test, not by the handler */
    bool wants_pause;
    bool wants_bye; /* ends when the client does */
    size_t highest;
    unsigned drains;
} seen;

static void on_gone(void *ctx UNUSED)
{
    seen.gone++;
    seen.ex = NULL;
}

static void on_sent(void *ctx UNUSED, int result)
{
    seen.sent += result == SP_OK ? 1 : 0;
}

static void on_data(struct http_exchange *ex, const char *data, size_t len)
{
    assert_true(len > 0);
    seen.count += len;
    if (seen.got.len < 1024 * 1024)
        buf_append(&seen.got, data, len);
    if (seen.wants_echo)
        (void) http_write(ex, data, len);
    if (seen.wants_pause)
        http_body_pause(ex);
}

static void on_end(struct http_exchange *ex)
{
    seen.ends++;
    if (seen.wants_bye) {
        (void) http_write(ex, "bye", 3);
        http_end(ex);
    }
}

static void on_drain(struct http_exchange *ex UNUSED)
{
    seen.drains++;
}

static void take(struct http_exchange *ex)
{
    http_add_header(ex, "Connection", "Upgrade");
    http_add_header(ex, "Upgrade", "echo");
    http_upgrade(ex, http_method(ex) == HTTP_METHOD_CONNECT ? 200 : 101);
}

static void handle(struct http_exchange *ex)
{
    seen.ex = ex;
    http_set_ctx(ex, &seen, on_gone);
    http_on_sent(ex, on_sent, &seen);
    http_body_start(ex, on_data, on_end);
    http_set_drain(ex, on_drain);
    if (!seen.wants_late)
        take(ex);
}

static void start(const struct http_limits *limits)
{
    fixture_start(&fx, limits);
    fx.on_upgrade = handle;
    memset(&seen, 0, sizeof(seen));
    buf_init(&seen.got, 2 * 1024 * 1024);
}

static int setup(void **state UNUSED)
{
    start(NULL);
    return 0;
}

static int teardown(void **state UNUSED)
{
    buf_fini(&seen.got);
    fixture_stop(&fx);
    return 0;
}

static void open_upgraded(struct client *c)
{
    client_open(c, &fx);
    client_send(c, ASK);
    fixture_until(&fx, (client_poll(c), c->in.len >= strlen(accepted)));
    assert_memory_equal(c->in.data, accepted, strlen(accepted));
    buf_consume(&c->in, strlen(accepted));
}

static void test_both_ways(void **state UNUSED)
{
    struct client c;

    seen.wants_echo = true;
    open_upgraded(&c);
    client_send(&c, "GET /healthz HTTP/1.1\r\n\r\n"); /* bytes like any other now */
    fixture_until(&fx, (client_poll(&c), c.in.len == 25));
    assert_string_equal(buf_str(&c.in), "GET /healthz HTTP/1.1\r\n\r\n");
    http_end(seen.ex);
    client_wait_eof(&c);
    assert_int_equal(seen.sent, 1);
    assert_int_equal(seen.gone, 0);
    client_close(&c);
}

/* What came with the request is the first that the handler gets, also when it takes its time. */
static void test_early_bytes(void **state UNUSED)
{
    struct client c;

    client_open(&c, &fx);
    client_send(&c, ASK "early");
    fixture_until(&fx, seen.count == 5);
    assert_string_equal(buf_str(&seen.got), "early");
    client_poll(&c); /* one that closes unread resets the connection */
    client_close(&c);
    fixture_until(&fx, seen.ends == 1);
    http_abort(seen.ex);
    seen.ex = NULL;
    seen.wants_late = true;
    seen.count = 0;
    buf_reset(&seen.got);
    client_open(&c, &fx);
    client_send(&c, ASK "first");
    fixture_until(&fx, seen.ex != NULL);
    client_send(&c, " second");
    fixture_run_ms(&fx, 20);
    assert_int_equal(seen.count, 0);
    take(seen.ex);
    assert_int_equal(seen.count, 0); /* not from inside */
    fixture_until(&fx, seen.count == 12);
    assert_string_equal(buf_str(&seen.got), "first second");
    client_poll(&c);
    client_close(&c);
    fixture_until(&fx, seen.ends == 2);
    http_abort(seen.ex);
}

static void test_connect(void **state UNUSED)
{
    struct client c;

    seen.wants_late = true;
    client_open(&c, &fx);
    client_send(&c, "CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: x\r\n\r\nabc");
    fixture_until(&fx, seen.ex != NULL);
    assert_int_equal(http_method(seen.ex), HTTP_METHOD_CONNECT);
    assert_string_equal(http_target(seen.ex), "127.0.0.1:80");
    take(seen.ex);
    fixture_until(&fx, seen.count == 3);
    client_poll(&c);
    assert_memory_equal(c.in.data, "HTTP/1.1 200 OK\r\n", 17);
    client_close(&c);
    fixture_until(&fx, seen.ends == 1);
    http_abort(seen.ex);
}

/* A request that is not upgraded is one like others, and so is the next. */
static void test_not_upgraded(void **state UNUSED)
{
    struct client c;

    client_open(&c, &fx);
    client_expect(&c, "GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200);
    client_expect(&c, "GET /healthz HTTP/1.1\r\nUpgrade: not named\r\n\r\n", 200);
    seen.wants_late = true;
    client_send(&c, ASK "GET /healthz HTTP/1.1\r\n\r\n");
    fixture_until(&fx, seen.ex != NULL);
    assert_string_equal(http_upgrade_wanted(seen.ex), "echo");
    http_reply(seen.ex, 404, NULL, "", 0);
    assert_int_equal(client_answer(&c, NULL), 404);
    client_wait_eof(&c);
    assert_int_equal(c.in.len, 0); /* what was behind it was not served */
    client_close(&c);
}

static const char *wanted(const char *head)
{
    static char ret[64];
    struct client c;
    const char *text;

    seen.ex = NULL;
    seen.wants_late = true;
    client_open(&c, &fx);
    client_send(&c, head);
    fixture_until(&fx, seen.ex != NULL);
    text = http_upgrade_wanted(seen.ex);
    str_copy_cut(ret, sizeof(ret), text != NULL ? text : "(none)");
    http_reply(seen.ex, 204, NULL, NULL, 0);
    client_close(&c);
    return ret;
}

static void test_wanted(void **state UNUSED)
{
    assert_string_equal(wanted(ASK), "echo");
    assert_string_equal(wanted("GET /upgrade HTTP/1.1\r\nUpgrade: a\r\nConnection: x\r\n"
                               "Connection: UPGRADE\r\n\r\n"),
                        "a");
    assert_string_equal(wanted("GET /upgrade HTTP/1.1\r\nUpgrade: a\r\n\r\n"), "(none)");
    assert_string_equal(wanted("GET /upgrade HTTP/1.1\r\nConnection: upgrade\r\n\r\n"), "(none)");
    assert_string_equal(
        wanted("GET /upgrade HTTP/1.1\r\nUpgrade: a\r\nConnection: upgrades\r\n\r\n"), "(none)");
    assert_string_equal(
        wanted("GET /upgrade HTTP/1.0\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n"), "(none)");
    assert_string_equal(
        wanted("HEAD /upgrade HTTP/1.1\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n"), "(none)");
    assert_string_equal(wanted("GET /upgrade HTTP/1.1\r\nUpgrade: a\r\nConnection: upgrade\r\n"
                               "Content-Length: 1\r\n\r\nx"),
                        "(none)");
}

/* Each side may end while the other goes on. */
static void test_half_close(void **state UNUSED)
{
    struct client c;

    open_upgraded(&c);
    client_send(&c, "last words");
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    fixture_until(&fx, seen.ends == 1);
    assert_string_equal(buf_str(&seen.got), "last words");
    fixture_run_ms(&fx, 50);
    assert_int_equal(seen.gone, 0);
    (void) http_write(seen.ex, "answer", 6);
    http_end(seen.ex);
    client_wait_eof(&c);
    assert_string_equal(buf_str(&c.in), "answer");
    client_close(&c);
    open_upgraded(&c);
    (void) http_write(seen.ex, "over", 4);
    http_shut(seen.ex);
    client_wait_eof(&c);
    assert_string_equal(buf_str(&c.in), "over");
    seen.count = 0;
    client_send(&c, "not yet");
    fixture_until(&fx, seen.count == 7);
    client_close(&c);
    fixture_until(&fx, seen.ends == 2);
    http_end(seen.ex);
    fixture_until(&fx, http_server_connections(fx.server) == 0);
    assert_int_equal(seen.sent, 2);
    assert_int_equal(seen.gone, 0);
}

/* A handler may end it from inside its callback. */
static void test_ends_at_the_end(void **state UNUSED)
{
    struct client c;

    seen.wants_bye = true;
    open_upgraded(&c);
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    client_wait_eof(&c);
    assert_string_equal(buf_str(&c.in), "bye");
    fixture_until(&fx, http_server_connections(fx.server) == 0);
    assert_int_equal(seen.sent, 1);
    assert_int_equal(seen.gone, 0);
    client_close(&c);
}

/* All that was written comes before the end of our side. */
static void test_shut_behind_much(void **state UNUSED)
{
    static char data[200 * 1024];
    struct client c;

    open_upgraded(&c);
    for (unsigned i = 0; i < 4; i++)
        (void) http_write(seen.ex, data, sizeof(data));
    http_shut(seen.ex);
    fixture_run_ms(&fx, 20);
    client_wait_eof(&c);
    assert_int_equal(c.in.len, 4 * sizeof(data));
    http_abort(seen.ex);
    client_close(&c);
}

/* A paused handler gets nothing, the client waits, and its end is known behind its last byte. */
static void test_pause(void **state UNUSED)
{
    static char data[1024 * 1024];
    struct client c;
    size_t sent = 0;

    seen.wants_pause = true;
    open_upgraded(&c);
    for (unsigned i = 0; i < 200; i++) {
        ssize_t n = send(c.fd, data, sizeof(data), MSG_NOSIGNAL);

        sent += n > 0 ? (size_t) n : 0;
        fixture_turn(&fx);
    }
    assert_true(seen.count <= 64 * 1024);
    assert_true(sent < 4 * sizeof(data));
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    fixture_run_ms(&fx, 20);
    assert_int_equal(seen.ends, 0);
    while (seen.ends == 0) {
        http_body_resume(seen.ex);
        fixture_turn(&fx);
    }
    assert_int_equal(seen.count, sent);
    http_abort(seen.ex);
    client_close(&c);
}

/* A client that never reads is closed, and does not fill memory before. */
static void test_never_reads(void **state UNUSED)
{
    static char data[32 * 1024];
    struct client c;
    size_t unsent = 0;
    struct http_stats stats;

    open_upgraded(&c);
    while (seen.ex != NULL && unsent < HTTP_HIGH_WATER)
        unsent = http_write(seen.ex, data, sizeof(data));
    http_server_get_stats(fx.server, &stats);
    assert_true(stats.buffered < 2 * 1024 * 1024);
    fixture_until(&fx, seen.gone == 1); /* write_timeout_ms */
    assert_int_equal(seen.drains, 0);
    client_close(&c);
    open_upgraded(&c);
    for (unsigned i = 0; i < 2 * STREAM_MAX / sizeof(data) && seen.ex != NULL; i++)
        (void) http_write(seen.ex, data, sizeof(data)); /* who does not wait */
    fixture_until(&fx, seen.gone == 2);
    client_close(&c);
}

static void test_drain(void **state UNUSED)
{
    static char data[32 * 1024];
    struct client c;
    size_t written = 0;
    size_t unsent = 0;

    open_upgraded(&c);
    while (unsent < HTTP_HIGH_WATER) {
        unsent = http_write(seen.ex, data, sizeof(data));
        written += sizeof(data);
    }
    fixture_until(&fx, (client_poll(&c), seen.drains == 1));
    fixture_until(&fx, (client_poll(&c), c.in.len == written));
    http_abort(seen.ex);
    client_wait_eof(&c);
    client_close(&c);
}

/* It counts as a connection, for all and for its caller. */
static void test_limits(void **state UNUSED)
{
    struct http_limits limits;
    struct client c[3];

    teardown(NULL);
    fixture_limits(&limits);
    limits.max_connections = 2;
    start(&limits);
    open_upgraded(&c[0]);
    open_upgraded(&c[1]);
    client_open(&c[2], &fx);
    assert_int_equal(client_answer(&c[2], NULL), 503);
    client_close(&c[0]);
    client_close(&c[1]);
    client_close(&c[2]);
    fixture_until(&fx, seen.ends == 2);
}

static void test_server_closes(void **state UNUSED)
{
    struct client c;

    open_upgraded(&c);
    http_server_close(fx.server, NULL, NULL);
    client_wait_eof(&c);
    fixture_until(&fx, seen.gone == 1);
    client_close(&c);
    fx.server = fixture_new_server(&fx, NULL); /* for the teardown */
}

/* In a take-over it stays behind; what came before the upgrade can be repeated. */
static void test_stays(void **state UNUSED)
{
    struct http_pending pending;
    struct client c;
    struct err err;

    open_upgraded(&c);
    http_may_stay(seen.ex);
    http_server_pause(fx.server);
    fixture_turn(&fx);
    http_server_get_pending(fx.server, &pending);
    assert_int_equal(pending.staying, 1);
    assert_int_equal(pending.busy, 0);
    client_send(&c, "still here");
    fixture_until(&fx, seen.count == 10);
    http_server_resume(fx.server);
    assert_int_equal(http_server_listen_unix(fx.server, fx.path, 0600, UINT32_MAX, &err), SP_OK);
    http_abort(seen.ex);
    client_close(&c);
}

/* Whatever comes in whatever pieces, all of it arrives in order. */
static void test_pieces(void **state UNUSED)
{
    struct rand random;
    struct client c;
    uint64_t sent = 0;

    rand_seed(&random, 5);
    seen.wants_echo = true;
    open_upgraded(&c);
    while (sent < 300 * 1024) {
        char data[8192];
        size_t n = 1 + rand_below(&random, sizeof(data));

        for (size_t i = 0; i < n; i++)
            data[i] = (char) ((sent + i) % 251);
        assert_true(client_try_send(&c, data, n));
        sent += n;
        if (rand_below(&random, 4) == 0)
            fixture_turn(&fx);
        client_poll(&c);
    }
    fixture_until(&fx, (client_poll(&c), c.in.len == sent));
    for (size_t i = 0; i < sent; i++)
        assert_int_equal((unsigned char) c.in.data[i], i % 251);
    http_end(seen.ex);
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(test_early_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_connect, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_upgraded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shut_behind_much, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pause, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_server_closes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
