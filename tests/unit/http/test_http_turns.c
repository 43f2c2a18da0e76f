/* test_http_turns.c - long answers that many ask for at once: one turn of the loop makes a few of them, in order, and
 * everybody else is served meanwhile. Counted in answers per turn, not in time. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

enum {
    CLIENTS = 40,
    PASS_MAX = 2,      /* answers of 600 KB in one pass: it ends in the middle of a turn */
    PART_KB = 64,      /* of /parts */
    PARTS_PASS = 2 * 5 /* likewise: 256 KB, and one more */
};

static struct client clients[CLIENTS];
static struct client other;

static void start(size_t max_buffered)
{
    struct http_limits limits;

    fixture_limits(&limits);
    limits.max_buffered = max_buffered;
    limits.stream_max = 4 * PARTS_BYTES;
    limits.header_timeout_ms = 60000;
    limits.idle_timeout_ms = 60000;
    limits.write_timeout_ms = 60000;
    fixture_start(&fx, &limits);
    for (unsigned i = 0; i < CLIENTS; i++) {
        client_open(&clients[i], &fx);
        client_expect(&clients[i], "GET /healthz HTTP/1.1\r\n\r\n", 200);
    }
    client_open(&other, &fx);
    client_expect(&other, "GET /healthz HTTP/1.1\r\n\r\n", 200);
}

static int setup(void **state)
{
    (void) state;
    start(0);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    for (unsigned i = 0; i < CLIENTS; i++)
        client_close(&clients[i]);
    client_close(&other);
    fixture_stop(&fx);
    return 0;
}

static void ask(unsigned i)
{
    char text[64];

    (void) snprintf(text, sizeof(text), "GET /turn?id=%u HTTP/1.1\r\n\r\n", i);
    client_send(&clients[i], text);
}

/* One pass, which makes a few answers at most. */
static void pass(void)
{
    unsigned before = fx.turns;

    (void) loop_run_once(&fx.loop);
    assert_in_range(fx.turns - before, 0, PASS_MAX);
}

static void run_until(unsigned turns)
{
    uint64_t end_ms = fixture_now_ms() + WAIT_MS;

    while (fx.turns < turns) {
        pass();
        assert_true(fixture_now_ms() < end_ms);
    }
}

static void test_many_at_once(void **state)
{
    (void) state;
    for (unsigned i = 0; i < CLIENTS; i++)
        ask(i);
    pass();
    client_expect(&other, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    assert_in_range(fx.turns, 1, CLIENTS / 2); /* the others still wait */
    run_until(CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(client_answer(&clients[i], NULL), 200);
        assert_int_equal(fx.turn_ids[i], i); /* in the order in which they asked */
    }
    client_expect(&clients[0], "GET /turn HTTP/1.1\r\n\r\n", 200); /* they go on as ever */
}

/* One alone is made in the turn in which it was asked for: nobody waits for nothing. */
static void test_one_alone(void **state)
{
    (void) state;
    ask(0);
    (void) loop_run_once(&fx.loop);
    assert_int_equal(fx.turns, 1);
    assert_int_equal(client_answer(&clients[0], NULL), 200);
}

static size_t count_open(void)
{
    struct http_stats stats;

    http_server_get_stats(fx.server, &stats);
    return stats.open;
}

static void test_gone_while_waiting(void **state)
{
    (void) state;
    for (unsigned i = 0; i < CLIENTS; i++)
        ask(i);
    pass();
    for (unsigned i = CLIENTS / 2; i < CLIENTS; i++)
        client_close(&clients[i]);
    for (unsigned i = 0; i < CLIENTS / 2; i++)
        assert_int_equal(client_answer(&clients[i], NULL), 200);
    fixture_until(&fx, count_open() == CLIENTS / 2 + 1);
    assert_in_range(fx.gone, 0,
                    CLIENTS / 2);            /* some were not begun, and their handler not called */
    assert_int_equal(fx.turns, CLIENTS / 2); /* for those who have gone nothing was made */
    for (unsigned i = 0; i < CLIENTS / 2; i++)
        ask(i);
    pass(); /* and the end of the server finds some that wait */
}

/* Memory is looked at when the answer is made: when it was asked for there was enough for each of them. */
static void test_memory(void **state)
{
    unsigned refused = 0;
    struct http_stats stats;

    (void) state;
    start(4 * 1024 * 1024);
    for (unsigned i = 0; i < CLIENTS; i++)
        ask(i);
    fixture_until(&fx, fx.turns + fx.gone == CLIENTS);
    http_server_get_stats(fx.server, &stats);
    assert_in_range(stats.buffered, 1, 6 * 1024 * 1024);
    for (unsigned i = 0; i < CLIENTS; i++) {
        int status = client_answer(&clients[i], NULL);

        assert_true(status == 200 || status == 503);
        refused += status == 503 ? 1 : 0;
    }
    assert_in_range(refused, 1, CLIENTS - 1);
    assert_int_equal(fx.gone, refused);
}

static void test_parts(void **state)
{
    uint64_t end_ms = fixture_now_ms() + WAIT_MS;

    (void) state;
    client_send(&clients[0], "GET /parts HTTP/1.1\r\n\r\n");
    while (fx.parts < PARTS_BYTES / (PART_KB * 1024)) {
        unsigned before = fx.parts;

        (void) loop_run_once(&fx.loop);
        assert_in_range(fx.parts - before, 0, PARTS_PASS);
        client_poll(&clients[0]);
        assert_true(fixture_now_ms() < end_ms);
    }
    fixture_until(&fx, (client_poll(&clients[0]), clients[0].in.len > PARTS_BYTES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_many_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gone_while_waiting, setup, teardown),
        cmocka_unit_test_teardown(test_memory, teardown),
        cmocka_unit_test_setup_teardown(test_parts, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
