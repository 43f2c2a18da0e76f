/* Bodies in pieces: back-pressure, flat memory, servers that do not wait for the end. */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "tests/lib/unit.h"
#include "tests/unit/loop/stream_call.h"

/* --- the body in pieces --- */

static void test_body_in_pieces(void **state)
{
    struct fixture *f = *state;
    struct stream s;

    atomic_store(&f->server.counts->gate, 1);
    for (int i = 0; i < 6; i++) {
        uint64_t size = i % 3 == 0 ? 0 : i % 3 == 1 ? 5 : 1000000;
        char text[40];

        memset(&s, 0, sizeof(s));
        stream_prepare_up(f, &s, "/up/count", size);
        s.call.http.body_size = i < 3 ? (int64_t) size : -1;
        start_call(&s.call, 20000);
        stream_push(&s.call.http);
        loop_run(&f->loop);
        snprintf(text, sizeof(text), "%llu sound", (unsigned long long) size);
        stream_assert_answer(&s, 200, text);
    }
    assert_int_equal(httpc_body_write(&s.call.http, "x", 1), 0); /* after the end: nothing */
    httpc_body_end(&s.call.http);
}

static void test_request_with_streamed_body(void **state)
{
    static const char *const headers[] = {"Content-Length: 7", "Expect: 100-continue",
                                          "transfer-encoding: gzip", "X-Mine: 1", NULL};
    struct fixture *f = *state;
    struct stream s = {0};
    const char *text;

    stream_prepare_up(f, &s, "/echo", 5);
    s.call.http.body_size = 5;
    s.call.http.headers = headers;
    start_call(&s.call, 20000);
    assert_int_equal(httpc_body_write(&s.call.http, "he", 2), 2);
    assert_int_equal(httpc_body_write(&s.call.http, "llo", 3), 5);
    s.sent = 5;
    httpc_body_end(&s.call.http);
    loop_run(&f->loop);
    assert_int_equal(s.call.result, SP_OK);
    text = buf_str(&s.call.http.response);
    assert_ptr_equal(strstr(text, "POST /echo HTTP/1.1\r\n"), text);
    assert_non_null(strstr(text, "\r\nContent-Length: 5\r\n"));
    assert_non_null(strstr(text, "\r\nX-Mine: 1\r\n"));
    assert_null(strstr(text, "Length: 7"));
    assert_null(strcasestr(text, "expect"));
    assert_null(strcasestr(text, "transfer-encoding"));
    assert_non_null(strstr(text, "\r\n\r\nhello"));
    httpc_request_fini(&s.call.http);
}

static void test_slow_server(void **state)
{
    struct fixture *f = *state;
    struct stream s = {0};
    size_t rss = stream_rss();
    uint64_t cpu;
    uint64_t sent;
    char text[64];

    stream_prepare_up(f, &s, "/up/count", stream_mib() * MIB);
    start_call(&s.call, 60000);
    stream_push(&s.call.http);
    do { /* until the kernel's buffers are full */
        sent = s.sent;
        stream_rest(f, 300);
    } while (s.sent > sent || sent == 0);
    cpu = stream_cpu_us();
    stream_rest(f, 400);
    assert_in_range(stream_cpu_us() - cpu, 0, 200000);
    assert_int_equal(s.sent, sent);
    assert_true(sent < stream_mib() * MIB / 2);
    atomic_store(&f->server.counts->gate, 1);
    loop_run(&f->loop);
    snprintf(text, sizeof(text), "%llu sound", (unsigned long long) (stream_mib() * MIB));
    stream_assert_answer(&s, 200, text);
    stream_assert_flat(&s, rss);
}

static void test_wrong_length(void **state)
{
    struct fixture *f = *state;
    struct stream s = {0};

    atomic_store(&f->server.counts->gate, 1);
    stream_prepare_up(f, &s, "/up/count", 5);
    s.call.http.body_size = 6;
    start_call(&s.call, 20000);
    stream_push(&s.call.http); /* five, and the end */
    loop_run(&f->loop);
    assert_int_equal(s.call.result, SP_BAD_REQUEST);
    memset(&s, 0, sizeof(s));
    stream_prepare_up(f, &s, "/up/count", 7);
    s.call.http.body_size = 6;
    start_call(&s.call, 20000);
    stream_push(&s.call.http);
    loop_run(&f->loop);
    assert_int_equal(s.call.result, SP_BAD_REQUEST);
}

static void test_deadline_and_cancel_while_body_waits(void **state)
{
    struct fixture *f = *state;
    struct stream s[2] = {0};

    atomic_store(&f->server.counts->gate, 1);
    for (size_t i = 0; i < 2; i++) {
        stream_prepare_up(f, &s[i], "/up/count", UINT64_MAX);
        s[i].call.http.on_body_drain = NULL;
        start_call(&s[i].call, i == 0 ? 300 : 30000);
        (void) httpc_body_write(&s[i].call.http, "abc", 3);
    }
    while (s[0].call.done == 0 || !s[1].call.http.is_send_held)
        (void) loop_run_once(&f->loop);
    assert_int_equal(s[0].call.result, SP_TIMEOUT);
    cancel_call(&s[1].call);
    loop_run(&f->loop);
    assert_int_equal(s[1].call.result, SP_CANCELLED);
}

/* --- servers that do not wait for the body --- */

static void early(struct fixture *f, const char *path, int status, bool is_idle)
{
    struct stream s = {0};

    stream_prepare_up(f, &s, path, UINT64_MAX);
    if (is_idle)
        s.call.http.on_body_drain = NULL;
    start_call(&s.call, 20000);
    if (is_idle)
        (void) httpc_body_write(&s.call.http, "abc", 3);
    else
        stream_push(&s.call.http);
    loop_run(&f->loop);
    stream_assert_answer(&s, status, "early");
}

static void test_early_refusal(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 2; i++) {
        early(f, "/up/early/413", 413, i == 0);
        early(f, "/up/early-chunked/413", 413, i == 0);
    }
    early(f, "/up/early-close/413", 413, true);
    early(f, "/up/early-close/200", 200, true);
}

/* It closes with bytes unread: a reset follows its answer on the wire. */
static void test_early_refusal_with_reset(void **state)
{
    struct fixture *f = *state;
    struct stream s = {0};

    stream_prepare_up(f, &s, "/up/early-close/413", UINT64_MAX);
    start_call(&s.call, 20000);
    stream_push(&s.call.http);
    loop_run(&f->loop);
    if (s.call.result == SP_OK)
        assert_int_equal(s.call.http.status, 413);
    else /* the reset hit a send in progress */
        assert_int_equal(s.call.result, SP_IO);
    httpc_request_fini(&s.call.http);
}

/* An answer that refuses nothing: the body goes on to its end. */
static void test_early_success(void **state)
{
    static const char *const paths[] = {"/up/early/200", "/up/early-chunked/200"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct stream s = {0};

        stream_prepare_up(f, &s, paths[i], 3);
        s.call.http.on_body_drain = NULL;
        s.call.http.response_max = 5;
        start_call(&s.call, 20000);
        (void) httpc_body_write(&s.call.http, "abc", 3);
        while (!s.call.http.is_answer_over)
            (void) loop_run_once(&f->loop);
        stream_rest(f, 50);
        assert_int_equal(s.call.done, 0);
        httpc_body_end(&s.call.http);
        loop_run(&f->loop);
        stream_assert_answer(&s, 200, "early");
    }
}

static void test_hang_up(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 4; i++) {
        struct stream s = {0};

        stream_prepare_up(f, &s, "/up/hangup", UINT64_MAX);
        s.call.http.body_size = i / 2 == 0 ? -1 : INT64_MAX;
        if (i % 2 == 0)
            s.call.http.on_body_drain = NULL;
        start_call(&s.call, 20000);
        if (i % 2 == 0)
            (void) httpc_body_write(&s.call.http, "abc", 3);
        else
            stream_push(&s.call.http);
        loop_run(&f->loop);
        assert_int_equal(s.call.result, SP_IO);
    }
}

#define STREAM_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STREAM_TEST(test_body_in_pieces),
        STREAM_TEST(test_request_with_streamed_body),
        STREAM_TEST(test_slow_server),
        STREAM_TEST(test_wrong_length),
        STREAM_TEST(test_deadline_and_cancel_while_body_waits),
        STREAM_TEST(test_early_refusal),
        STREAM_TEST(test_early_refusal_with_reset),
        STREAM_TEST(test_early_success),
        STREAM_TEST(test_hang_up),
    };

    return cmocka_run_group_tests(tests, set_up_process, NULL);
}
