/* test_http_gone.c - clients that leave. Every exchange ends in exactly one of on_sent() and
 * on_gone(), at once, whatever the moment. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rand.h"
#include "fixture.h"
#include "tests/lib/at_most.h"

static void start_wait(struct client *c)
{
    unsigned waits = fx.waits;

    client_open(c, &fx);
    client_send(c, "GET /wait HTTP/1.1\r\n\r\n");
    fixture_until(&fx, fx.waits == waits + 1);
}

static void test_hang_up_while_pending(void **state)
{
    struct client c;
    uint64_t start;

    (void) state;
    start_wait(&c);
    assert_int_equal(fx.gone, 0);
    start = fixture_now_ms();
    client_close(&c);
    fixture_until(&fx, fx.gone == 1);
    assert_true(fixture_now_ms() - start < at_most(500));
    fixture_run_ms(&fx, 50);
    assert_int_equal(fx.gone, 1);
    assert_int_equal(fx.sent_ok + fx.sent_io, 0);
    assert_int_equal(http_server_connections(fx.server), 0);
}

/* A client that only shuts its sending side counts as gone, too: a socket does not show the difference. */
static void test_half_close_while_pending(void **state)
{
    struct client c;

    (void) state;
    start_wait(&c);
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    fixture_until(&fx, fx.gone == 1);
    client_wait_eof(&c);
    client_close(&c);
}

/* But requests that are answered at once are, all of them, also a long answer. */
static void test_half_close_behind_requests(void **state)
{
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /healthz HTTP/1.1\r\n\r\nGET /big HTTP/1.1\r\n\r\n"
                    "POST /echo HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    assert_int_equal(client_answer(&c, NULL), 200);
    assert_int_equal(client_answer(&c, NULL), 200);
    assert_int_equal(client_answer(&c, NULL), 200);
    client_wait_eof(&c);
    assert_false(c.is_reset);
    assert_int_equal(fx.sent_ok, 2);
    client_close(&c);
}

static void test_hang_up_with_pipelined_requests(void **state)
{
    struct client c;

    (void) state;
    start_wait(&c);
    client_send(&c, "GET /wait HTTP/1.1\r\n\r\nGET /wait HTTP/1.1\r\n\r\n");
    fixture_run_ms(&fx, 20);
    client_close(&c);
    fixture_until(&fx, fx.gone == 1);
    fixture_run_ms(&fx, 50);
    assert_int_equal(fx.waits, 1);
}

static void test_hang_up_in_request(void **state)
{
    static const char *const parts[] = {
        "G",
        "GET /healthz HTTP/1.1\r\nHos",
        "POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    };
    struct client c;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        client_open(&c, &fx);
        client_send(&c, parts[i]);
        fixture_until(&fx, http_server_connections(fx.server) == 1);
        client_close(&c);
        fixture_until(&fx, http_server_connections(fx.server) == 0);
    }
    assert_int_equal(fx.gone + fx.sent_ok + fx.sent_io, 0);
}

static void test_hang_up_in_upload(void **state)
{
    struct client c;

    (void) state;
    for (unsigned i = 0; i < 2; i++) {
        fx.pause_each_piece = i == 1;
        client_open(&c, &fx);
        client_send(&c, "PUT /upload HTTP/1.1\r\nContent-Length: 1000\r\n\r\n");
        assert_true(client_try_send(&c, "\0\1\2", 3));
        fixture_until(&fx, fx.uploaded == 3);
        client_close(&c);
        fixture_until(&fx, fx.gone == i + 1);
        fx.uploaded = 0;
    }
    assert_int_equal(fx.ended, 0);
}

static void test_hang_up_in_download(void **state)
{
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /download?n=100000000 HTTP/1.1\r\n\r\n");
    fixture_until(&fx, fx.highest_unsent > 0);
    client_close(&c);
    fixture_until(&fx, fx.gone == 1);
    assert_int_equal(fx.sent_ok + fx.sent_io, 0);
}

/* The answer comes in the same turn as the hang-up, before the server has seen it. */
static void test_reply_to_nobody(void **state)
{
    struct client c;

    (void) state;
    start_wait(&c);
    client_close(&c);
    http_reply(fx.pending, 200, NULL, "hello", 5);
    assert_int_equal(fx.sent_io, 0); /* not from inside the call */
    fixture_until(&fx, fx.sent_io == 1);
    fixture_run_ms(&fx, 50);
    assert_int_equal(fx.gone, 0);
    assert_int_equal(fx.sent_ok, 0);
    assert_int_equal(http_server_connections(fx.server), 0);
}

static void test_hang_up_in_answer(void **state)
{
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /big HTTP/1.1\r\n\r\n");
    fixture_run_ms(&fx, 20);
    client_close(&c);
    fixture_until(&fx, fx.sent_io == 1);
    assert_int_equal(fx.sent_ok, 0);
}

/* Closing the server notifies the handlers, and only afterwards comes on_closed. */
static void test_server_close(void **state)
{
    struct client c;
    struct client idle;
    struct client reader;

    (void) state;
    fixture_start(&fx, NULL);
    start_wait(&c);
    client_open(&idle, &fx);
    client_open(&reader, &fx);
    client_send(&reader, "GET /big HTTP/1.1\r\n\r\n");
    fixture_until(&fx, http_server_connections(fx.server) == 3);
    fixture_run_ms(&fx, 20);
    fixture_stop(&fx);
    assert_int_equal(fx.gone, 1);
    assert_int_equal(fx.sent_io, 1);
    client_close(&c);
    client_close(&idle);
    client_close(&reader);
}

static void test_server_stop(void **state)
{
    struct client waiting;
    struct client idle;
    struct buf text;

    (void) state;
    buf_init(&text, 10000);
    start_wait(&waiting);
    client_open(&idle, &fx);
    client_expect(&idle, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    http_server_stop(fx.server);
    http_server_stop(fx.server);
    client_wait_eof(&idle);
    assert_int_equal(access(fx.path, F_OK), -1);
    assert_int_equal(fx.gone, 0);
    http_reply(fx.pending, 200, NULL, "bye", 3);
    assert_int_equal(client_answer(&waiting, &text), 200);
    assert_non_null(strstr(buf_str(&text), "Connection: close"));
    client_wait_eof(&waiting);
    fixture_until(&fx, http_server_connections(fx.server) == 0);
    assert_int_equal(fx.sent_ok, 1);
    client_close(&waiting);
    client_close(&idle);
    buf_fini(&text);
}

/* Many clients that leave at random moments; nothing is reported twice and nothing is left. */
static void test_random_departures(void **state)
{
    static const char *const requests[] = {
        "GET /wait HTTP/1.1\r\n\r\n",
        "GET /big HTTP/1.1\r\n\r\n",
        "GET /download?n=1000000 HTTP/1.1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "PUT /upload HTTP/1.1\r\nContent-Length: 500\r\n\r\n",
        "nonsense\r\n\r\n",
        "POST /small HTTP/1.1\r\nContent-Length: 100000\r\n\r\n",
    };
    struct rand random;

    (void) state;
    rand_seed(&random, 3);
    for (unsigned i = 0; i < 500; i++) {
        struct client c;
        const char *text = requests[rand_below(&random, ARRAY_LEN(requests))];
        size_t cut = strlen(text) - (rand_below(&random, 4) == 0 ? rand_below(&random, 12) : 0);

        client_open(&c, &fx);
        assert_true(client_try_send(&c, text, cut));
        for (uint64_t n = rand_below(&random, 6); n > 0; n--)
            (void) loop_run_once(&fx.loop);
        if (fx.pending != NULL && rand_below(&random, 2) == 0) {
            struct http_exchange *ex = fx.pending;

            fx.pending = NULL;
            http_reply(ex, 200, NULL, "x", 1);
        }
        if (rand_below(&random, 2) == 0)
            client_poll(&c);
        client_close(&c);
        if (rand_below(&random, 2) == 0)
            fixture_until(&fx, http_server_connections(fx.server) == 0);
        fx.pending = http_server_connections(fx.server) == 0 ? NULL : fx.pending;
    }
    fixture_until(&fx, http_server_connections(fx.server) == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hang_up_while_pending),
        TEST(test_half_close_while_pending),
        TEST(test_half_close_behind_requests),
        TEST(test_hang_up_with_pipelined_requests),
        TEST(test_hang_up_in_request),
        TEST(test_hang_up_in_upload),
        TEST(test_hang_up_in_download),
        TEST(test_reply_to_nobody),
        TEST(test_hang_up_in_answer),
        cmocka_unit_test(test_server_close),
        TEST(test_server_stop),
        TEST(test_random_departures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
