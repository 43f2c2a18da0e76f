/* test_http_migrate.c - connections that change the server under way: whatever was read and not
 * answered is answered by the next one, once. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

enum { TAKEN_MAX = 16 };

static bool is_old_closed;
static struct http_limits limits; /* of both servers */

static struct taken {
    int fd;
    struct buf bytes;
} taken[TAKEN_MAX];
static unsigned taken_count;

static int setup(void **state)
{
    (void) state;
    taken_count = 0;
    is_old_closed = false;
    fixture_limits(&limits);
    fixture_start(&fx, &limits);
    return 0;
}

static void take(void *ctx, int fd, const char *bytes, size_t len)
{
    struct taken *t = &taken[taken_count];

    assert_ptr_equal(ctx, &fx);
    assert_true(taken_count < TAKEN_MAX);
    t->fd = fd;
    buf_init(&t->bytes, 1024 * 1024);
    buf_append(&t->bytes, bytes, len);
    taken_count++;
}

static void on_old_closed(void *ctx)
{
    (void) ctx;
    is_old_closed = true;
}

static void pause_until_quiet(void)
{
    struct http_pending pending;

    http_server_pause(fx.server);
    do {
        fixture_turn(&fx);
        http_server_get_pending(fx.server, &pending);
    } while (pending.busy > 0);
}

/* Everything moves to a new server, as between two processes. */
static void move(void)
{
    struct err err;

    http_server_migrate(fx.server, take, &fx);
    http_server_close(fx.server, on_old_closed, NULL);
    fixture_until(&fx, is_old_closed);
    fx.server = fixture_new_server(&fx, &limits);
    for (unsigned i = 0; i < taken_count; i++) {
        struct buf *b = &taken[i].bytes;

        assert_int_equal(http_server_adopt(fx.server, taken[i].fd, buf_str(b), b->len, &err),
                         SP_OK);
        buf_fini(b);
    }
}

static void test_between_requests(void **state)
{
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    pause_until_quiet();
    client_send(&c, "GET /healthz HTTP/1.1\r\n\r\n");
    fixture_run_ms(&fx, 20);
    client_poll(&c);
    assert_int_equal(c.in.len, 0); /* nobody reads it yet */
    move();
    assert_int_equal(taken_count, 1);
    assert_int_equal(client_answer(&c, NULL), 200);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&c);
}

/* Cut at every byte, with a body in one piece and in chunks. */
static void test_in_the_middle_of_a_request(void **state)
{
    static const char *const texts[] = {
        "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"};

    (void) state;
    for (size_t k = 0; k < ARRAY_LEN(texts); k++)
        for (size_t cut = 1; cut < strlen(texts[k]); cut++) {
            struct client c;
            struct buf answer;

            setup(NULL);
            buf_init(&answer, 4096);
            client_open(&c, &fx);
            assert_true(client_try_send(&c, texts[k], cut));
            fixture_run_ms(&fx, 1);
            pause_until_quiet();
            assert_true(client_try_send(&c, texts[k] + cut, strlen(texts[k]) - cut));
            move();
            assert_int_equal(client_answer(&c, &answer), 200);
            assert_non_null(strstr(buf_str(&answer), "\r\n\r\nhello"));
            buf_fini(&answer);
            client_close(&c);
            fixture_teardown(NULL);
        }
    setup(NULL);
}

/* A body that makes more work than there is for one turn of the loop, read in many turns and handed over at once. */
static void test_a_long_body_goes_on(void **state)
{
    enum { CHUNKS = 20000 };
    struct http_stats stats;
    struct client c;
    struct buf text;
    size_t len;

    (void) state;
    limits.max_body_bytes = 1024 * 1024;
    limits.header_timeout_ms = WAIT_MS;
    http_server_set_limits(fx.server, &limits);
    buf_init(&text, 2 * 1024 * 1024);
    buf_puts(&text, "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (unsigned i = 0; i < CHUNKS; i++)
        buf_puts(&text, "10\r\n0123456789abcdef\r\n");
    len = text.len;
    client_open(&c, &fx);
    assert_true(client_try_send(&c, text.data, len));
    fixture_until(&fx, (http_server_get_stats(fx.server, &stats),
                        stats.buffered >= len + 16 * CHUNKS)); /* as it came, and the body */
    pause_until_quiet();
    move();
    assert_int_equal(taken_count, 1);
    client_send(&c, "0\r\n\r\n");
    assert_int_equal(client_answer(&c, NULL), 200);
    client_close(&c);
    buf_fini(&text);
}

static void test_a_waiting_request_is_taken_back_and_repeated(void **state)
{
    struct http_pending pending;
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /wait HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n");
    fixture_until(&fx, fx.waits == 1);
    pause_until_quiet();
    http_server_get_pending(fx.server, &pending);
    assert_int_equal(pending.repeatable, 1);
    move();
    assert_int_equal(fx.gone, 1);
    fixture_until(&fx, fx.waits == 2);
    http_reply(fx.pending, 200, "text/plain", "late", 4);
    assert_int_equal(client_answer(&c, NULL), 200);
    assert_int_equal(client_answer(&c, NULL), 200); /* the one behind it */
    client_close(&c);
}

static void test_an_answer_under_way_is_waited_for(void **state)
{
    struct http_pending pending;
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /big HTTP/1.1\r\n\r\n");
    fixture_run_ms(&fx, 20);
    http_server_pause(fx.server);
    fixture_run_ms(&fx, 20);
    http_server_get_pending(fx.server, &pending);
    assert_int_equal(pending.busy, 1);
    http_server_migrate(fx.server, take, &fx);
    assert_int_equal(taken_count, 0);
    assert_int_equal(client_answer(&c, NULL), 200);
    pause_until_quiet();
    move();
    assert_int_equal(taken_count, 1);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&c);
}

static void test_an_answer_that_nobody_reads_is_cut(void **state)
{
    struct http_pending pending;
    struct client slow;
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_open(&slow, &fx);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_send(&slow, "GET /big HTTP/1.1\r\n\r\n");
    fixture_run_ms(&fx, 20);
    http_server_pause(fx.server);
    assert_int_equal(http_server_cut_unread(fx.server), 1);
    pause_until_quiet();
    http_server_get_pending(fx.server, &pending);
    assert_int_equal(pending.busy, 0);
    move();
    assert_int_equal(taken_count, 1);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&slow);
    client_close(&c);
}

static void test_resume_goes_on_as_before(void **state)
{
    struct client c;
    struct client half;

    (void) state;
    client_open(&c, &fx);
    client_open(&half, &fx);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_send(&half, "GET /hea");
    fixture_run_ms(&fx, 5);
    pause_until_quiet();
    client_send(&c, "GET /healthz HTTP/1.1\r\n\r\n");
    fixture_run_ms(&fx, 400); /* longer than header_timeout_ms: a pause is not the client's fault */
    http_server_resume(fx.server);
    assert_int_equal(client_answer(&c, NULL), 200);
    client_expect(&half, "lthz HTTP/1.1\r\n\r\n", 200);
    client_close(&half);
    client_close(&c);
}

static void test_what_is_no_socket_is_refused(void **state)
{
    struct err err;
    int fds[2];

    (void) state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(http_server_adopt(fx.server, fds[0], "", 0, &err), SP_IO);
    assert_int_equal(close(fds[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_between_requests, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_in_the_middle_of_a_request, NULL, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_long_body_goes_on, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_waiting_request_is_taken_back_and_repeated, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_an_answer_under_way_is_waited_for, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_an_answer_that_nobody_reads_is_cut, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_resume_goes_on_as_before, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_socket_is_refused, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
