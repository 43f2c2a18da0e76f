/* test_http_effort.c - bodies that make much work for few bytes: one turn of the loop does a part of it,
 * and everybody else is served meanwhile. Counted in bytes of bodies per turn, not in time. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/effort.h"
#include "fixture.h"

enum {
    CLIENTS = 60,
    CHUNKS = 18000,                /* of one byte each: less than a socket takes at once */
    LONG_CHUNKS = 50000,           /* likewise, with a longer queue */
    COST = 1 + 5 * EFFORT_FRAMING, /* of such a chunk */
    /* A pass of loop_run_once() begins in the middle of one turn and ends in the middle of the next. */
    ONE_MAX = 2 * (EFFORT_ONE_MAX / COST + 100), /* chunks of one client in a pass */
    ALL_MAX = 2 * ((EFFORT_ALL_MAX + CLIENTS * EFFORT_SLICE) / COST + 100 * CLIENTS),
};

static struct client clients[CLIENTS];

static int setup(void **state)
{
    struct http_limits limits;

    (void) state;
    fixture_limits(&limits);
    limits.header_timeout_ms = 60000;
    limits.idle_timeout_ms = 60000;
    fixture_start(&fx, &limits);
    return 0;
}

/* All of it is in the socket before the server reads the first byte. */
static void send_chunks(struct client *c, unsigned count)
{
    struct buf text;
    int queue = 208 * 1024;

    buf_init(&text, 1024 * 1024);
    buf_puts(&text, "PUT /sink HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (unsigned i = 0; i < count; i++)
        buf_puts(&text, "1\r\nx\r\n");
    buf_puts(&text, "0\r\n\r\n");
    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &queue, sizeof(queue)), 0);
    assert_int_equal(send(c->fd, text.data, text.len, MSG_DONTWAIT), text.len);
    buf_fini(&text);
}

/* Turns until `count` bodies have come; gives the most bytes of them that came in one pass. */
static uint64_t largest_pass(unsigned count)
{
    uint64_t end_ms = fixture_now_ms() + 60000;
    uint64_t largest = 0;

    while (fx.ended < count) {
        uint64_t before = fx.sunk;

        (void) loop_run_once(&fx.loop);
        largest = MAX_OF(largest, fx.sunk - before);
        assert_true(fixture_now_ms() < end_ms);
    }
    return largest;
}

static void test_one_connection(void **state)
{
    (void) state;
    client_open(&clients[0], &fx);
    client_expect(&clients[0], "GET /healthz HTTP/1.1\r\n\r\n", 200);
    send_chunks(&clients[0], LONG_CHUNKS);
    assert_in_range(largest_pass(1), 1, ONE_MAX);
    assert_int_equal(fx.sunk, LONG_CHUNKS);
    assert_int_equal(client_answer(&clients[0], NULL), 200);
    client_expect(&clients[0], "GET /healthz HTTP/1.1\r\n\r\n", 200); /* it goes on as ever */
    client_close(&clients[0]);
}

static void test_many_connections(void **state)
{
    struct client other;

    (void) state;
    for (unsigned i = 0; i < CLIENTS; i++) {
        client_open(&clients[i], &fx);
        client_expect(&clients[i], "GET /healthz HTTP/1.1\r\n\r\n", 200);
    }
    client_open(&other, &fx);
    client_expect(&other, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    for (unsigned i = 0; i < CLIENTS; i++)
        send_chunks(&clients[i], CHUNKS);
    client_expect(&other,
                  "PUT /sink HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "2\r\nok\r\n0\r\n\r\n",
                  200);
    assert_true(fx.sunk < (uint64_t) CLIENTS * CHUNKS); /* the others are still at it */
    assert_in_range(largest_pass(CLIENTS + 1), 1, ALL_MAX);
    assert_int_equal(fx.sunk, (uint64_t) CLIENTS * CHUNKS + 2);
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(client_answer(&clients[i], NULL), 200);
        client_close(&clients[i]);
    }
    client_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_connection, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_many_connections, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
