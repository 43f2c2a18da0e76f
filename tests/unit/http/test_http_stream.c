/* test_http_stream.c - bodies that are never whole in memory, in both directions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/rand.h"
#include "fixture.h"
#include "tests/lib/at_most.h"

enum { MANY = 200 * 1024 * 1024 };

/* Resident memory in KiB: most that it ever was, and now. */
static long memory_kib(const char *field)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[128];
    long kib = -1;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtol(line + strlen(field), NULL, 10);
    (void) fclose(f);
    assert_true(kib > 0);
    return kib;
}

/* Fills with what /upload expects at this position. */
static void fill(char *data, size_t len, uint64_t position)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (char) ((position + i) % 251);
}

static void test_upload_flat_memory(void **state)
{
    static char data[256 * 1024];
    struct client c;
    char head[128];
    long before;

    (void) state;
    client_open(&c, &fx);
    (void) snprintf(head, sizeof(head), "PUT /upload HTTP/1.1\r\nContent-Length: %d\r\n\r\n", MANY);
    client_send(&c, head);
    fixture_turn(&fx);
    before = memory_kib("VmRSS:");
    for (uint64_t sent = 0; sent < MANY; sent += sizeof(data)) {
        fill(data, sizeof(data), sent);
        assert_true(client_try_send(&c, data, sizeof(data)));
    }
    assert_int_equal(client_answer(&c, NULL), 200);
    assert_int_equal(fx.uploaded, MANY);
    assert_true(fx.largest_piece <= 64 * 1024);
    assert_true(memory_kib("VmHWM:") - before < 16 * 1024);
    client_close(&c);
}

static void test_download_flat_memory(void **state)
{
    struct client c;
    char request[128];
    uint64_t got = 0;
    long before = memory_kib("VmRSS:");
    uint64_t end = fixture_now_ms() + 60000;

    (void) state;
    client_open(&c, &fx);
    (void) snprintf(request, sizeof(request), "GET /download?n=%d HTTP/1.1\r\n\r\n", MANY);
    client_send(&c, request);
    for (;;) {
        client_poll(&c);
        if (c.in.len >= 5 && memcmp(c.in.data + c.in.len - 5, "0\r\n\r\n", 5) == 0)
            break;
        got += c.in.len;
        buf_reset(&c.in);
        assert_true(fixture_now_ms() < end);
        (void) loop_run_once(&fx.loop);
    }
    got += c.in.len;
    buf_reset(&c.in);
    assert_true(got > MANY && got < MANY + MANY / 100);
    assert_true(fx.drains > 10);
    assert_true(fx.highest_unsent < HTTP_HIGH_WATER + 64 * 1024);
    assert_int_equal(fx.sent_ok, 1);
    assert_true(memory_kib("VmHWM:") - before < 16 * 1024);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&c);
}

/* A handler that pauses after every piece gets them one by one, whole and in order, in any split;
 * the end comes only after the last resume. */
static void upload_with_pauses(struct rand *random, bool is_chunked)
{
    struct client c;
    struct buf text;
    char data[5000];
    uint64_t sent = 0;
    uint64_t end = fixture_now_ms() + WAIT_MS;
    size_t at = 0;

    buf_init(&text, 1000000);
    buf_printf(&text, is_chunked ? "PUT /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 : "PUT /upload HTTP/1.1\r\nContent-Length: 20000\r\n\r\n");
    while (sent < 20000) {
        size_t n = 1 + rand_below(random, sizeof(data));

        n = MIN_OF(n, 20000 - sent);
        fill(data, n, sent);
        sent += n;
        if (is_chunked)
            buf_printf(&text, "%zx\r\n", n);
        buf_append(&text, data, n);
        if (is_chunked)
            buf_puts(&text, "\r\n");
    }
    if (is_chunked)
        buf_puts(&text, "0\r\n\r\n");
    client_open(&c, &fx);
    while (fx.ended == 0) {
        size_t n = 1 + rand_below(random, 8000);

        n = MIN_OF(n, text.len - at);
        assert_true(fixture_now_ms() < end);
        assert_true(client_try_send(&c, text.data + at, n));
        at += n;
        (void) loop_run_once(&fx.loop);
        if (fx.paused != NULL && rand_below(random, 3) == 0) {
            struct http_exchange *ex = fx.paused;

            fx.paused = NULL;
            http_body_resume(ex);
        }
    }
    assert_int_equal(client_answer(&c, NULL), 200);
    assert_int_equal(fx.uploaded, 20000);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&c);
    buf_fini(&text);
}

static void test_upload_pauses(void **state)
{
    struct rand random;

    (void) state;
    rand_seed(&random, 11);
    fx.pause_each_piece = true;
    for (unsigned i = 0; i < 60; i++) {
        fx.ended = 0;
        fx.paused = NULL;
        upload_with_pauses(&random, i % 2 == 0);
    }
}

/* While the handler pauses no more than a read's worth is taken from the client. */
static void test_pause_slows_the_client(void **state)
{
    static char data[16 * 1024 * 1024];
    struct client c;
    size_t sent = 0;

    (void) state;
    fx.pause_each_piece = true;
    fill(data, sizeof(data), 0);
    client_open(&c, &fx);
    client_send(&c, "PUT /upload HTTP/1.1\r\nContent-Length: 16777216\r\n\r\n");
    for (unsigned i = 0; i < 200; i++) {
        ssize_t n = send(c.fd, data + sent, sizeof(data) - sent, MSG_NOSIGNAL);

        sent += n > 0 ? (size_t) n : 0;
        fixture_turn(&fx);
    }
    assert_true(sent < 2 * 1024 * 1024);
    fixture_run_ms(&fx, 400); /* and it is not the client that times out */
    assert_int_equal(fx.gone, 0);
    fx.pause_each_piece = false;
    http_body_resume(fx.paused);
    assert_true(client_try_send(&c, data + sent, sizeof(data) - sent));
    assert_int_equal(client_answer(&c, NULL), 200);
    assert_int_equal(fx.uploaded, sizeof(data));
    client_close(&c);
}

static void test_streams_without_body(void **state)
{
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_expect(&c, "PUT /upload HTTP/1.1\r\n\r\n", 200);
    client_expect(&c, "PUT /upload HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 200);
    client_expect(&c, "PUT /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200);
    assert_int_equal(fx.ended, 3);
    client_close(&c);
}

/* An answer within the body: the client reads it, the rest of the body is no request. */
static void test_early_answer(void **state)
{
    struct client c;
    struct buf text;

    (void) state;
    buf_init(&text, 10000);
    client_open(&c, &fx);
    client_send(&c, "PUT /early HTTP/1.1\r\nContent-Length: 1000\r\n\r\nsome");
    assert_int_equal(client_answer(&c, &text), 403);
    assert_non_null(strstr(buf_str(&text), "Connection: close"));
    client_send(&c, "GET /wait HTTP/1.1\r\n\r\n");
    client_wait_eof(&c);
    assert_false(c.is_reset);
    assert_int_equal(c.in.len, 0);
    assert_int_equal(fx.waits, 0);
    client_close(&c);
    buf_fini(&text);
}

/* Who takes nothing is dropped after the write timeout, and the handler is notified. */
static void test_slow_reader_of_stream(void **state)
{
    struct client c;
    uint64_t start;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /download?n=100000000 HTTP/1.1\r\n\r\n");
    start = fixture_now_ms();
    fixture_until(&fx, fx.gone == 1);
    assert_in_range(fixture_now_ms() - start, 290, at_most(2000));
    assert_true(fx.highest_unsent < HTTP_HIGH_WATER + 64 * 1024);
    client_wait_eof(&c);
    assert_int_equal(fx.sent_ok + fx.sent_io, 0);
    client_close(&c);
}

static void test_slow_reader_of_answer(void **state)
{
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /big HTTP/1.1\r\n\r\n");
    fixture_until(&fx, fx.sent_io == 1);
    assert_int_equal(fx.sent_ok, 0);
    client_wait_eof(&c);
    client_close(&c);
}

/* A reader that takes a little now and then is slow, not dead. */
static void test_steady_reader(void **state)
{
    static char data[48 * 1024];
    struct client c;
    uint64_t got = 0;
    uint64_t end = fixture_now_ms() + 4 * WAIT_MS;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /download?n=1500000 HTTP/1.1\r\n\r\n");
    while (fx.sent_ok == 0) {
        ssize_t n = recv(c.fd, data, sizeof(data), 0);

        got += n > 0 ? (uint64_t) n : 0;
        assert_true(fixture_now_ms() < end);
        assert_int_equal(fx.gone + fx.sent_io, 0);
        fixture_run_ms(&fx, 100);
    }
    assert_true(fixture_now_ms() > end - 4 * WAIT_MS + 1000);
    client_wait_eof(&c); /* idle in the end */
    assert_true(got + c.in.len > 1500000);
    client_close(&c);
}

/* A writer that does not wait is stopped by the limit. */
static void test_stream_max(void **state)
{
    struct client c;

    (void) state;
    fx.ignores_backpressure = true;
    client_open(&c, &fx);
    client_send(&c, "GET /wait HTTP/1.1\r\n\r\n");
    fixture_until(&fx, fx.waits == 1);
    http_begin(fx.pending, 200, NULL);
    for (unsigned i = 0; i < 1000; i++) {
        static char data[64 * 1024];
        size_t unsent = http_write(fx.pending, data, sizeof(data));

        assert_true(unsent <= STREAM_MAX + 2 * sizeof(data));
        assert_int_equal(fx.gone, 0); /* not from inside the call */
    }
    fixture_until(&fx, fx.gone == 1);
    client_wait_eof(&c);
    client_close(&c);
}

static void test_abort(void **state)
{
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /abort HTTP/1.1\r\n\r\n");
    client_wait_eof(&c);
    assert_non_null(strstr(buf_str(&c.in), "\r\n\r\n4\r\nhalf\r\n"));
    assert_null(strstr(buf_str(&c.in), "0\r\n\r\n"));
    fixture_until(&fx, fx.sent_io == 1);
    assert_int_equal(fx.gone, 0); /* the handler closed it itself */
    client_close(&c);
}

static void test_live_stream(void **state)
{
    struct client c;

    (void) state;
    client_open(&c, &fx);
    client_send(&c, "GET /wait HTTP/1.1\r\n\r\n");
    fixture_until(&fx, fx.waits == 1);
    http_begin(fx.pending, 200, "text/event-stream");
    fixture_until(&fx, (client_poll(&c), c.in.len > 0)); /* the headers do not wait */
    buf_reset(&c.in);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(http_write(fx.pending, "data: x\n\n", 9), 0);
        fixture_until(&fx, (client_poll(&c), c.in.len > 0));
        assert_string_equal(buf_str(&c.in), "9\r\ndata: x\n\n\r\n");
        buf_reset(&c.in);
        fixture_run_ms(&fx, 100); /* longer than a write timeout in all */
    }
    http_end(fx.pending);
    fixture_until(&fx, (client_poll(&c), c.in.len == 5));
    buf_reset(&c.in);
    fixture_until(&fx, fx.sent_ok == 1);
    client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
    client_close(&c);
}

/* What does not have the length that was announced breaks the connection: the client would take the
 * rest for the answer to another request, or wait for it. */
static void test_sized(void **state)
{
    static const struct {
        const char *method;
        const char *written;
        bool is_good;
    } cases[] = {
        {"GET", "hello", true},    {"GET", "hell", false}, {"GET", "hello!", false},
        {"GET", "hellohe", false}, {"GET", "", false},     {"HEAD", "", true},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned waits = fx.waits;
        struct client c;
        char request[64];
        size_t len = strlen(cases[i].written);

        client_open(&c, &fx);
        (void) snprintf(request, sizeof(request), "%s /wait HTTP/1.1\r\n\r\n", cases[i].method);
        client_send(&c, request);
        fixture_until(&fx, fx.waits == waits + 1);
        http_begin_sized(fx.pending, 200, NULL, 5);
        (void) http_write(fx.pending, cases[i].written, len / 2);
        (void) http_write(fx.pending, cases[i].written + len / 2, len - len / 2);
        http_end(fx.pending);
        if (cases[i].is_good) {
            fixture_until(&fx, (client_poll(&c), c.in.len == 38 + len));
            buf_reset(&c.in);
            client_expect(&c, "GET /healthz HTTP/1.1\r\n\r\n", 200);
        } else {
            client_wait_eof(&c);
            assert_true(c.in.len <= 38 + 5);
        }
        client_close(&c);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_upload_flat_memory),
        TEST(test_download_flat_memory),
        TEST(test_upload_pauses),
        TEST(test_pause_slows_the_client),
        TEST(test_streams_without_body),
        TEST(test_early_answer),
        TEST(test_slow_reader_of_stream),
        TEST(test_slow_reader_of_answer),
        TEST(test_steady_reader),
        TEST(test_stream_max),
        TEST(test_abort),
        TEST(test_live_stream),
        TEST(test_sized),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
