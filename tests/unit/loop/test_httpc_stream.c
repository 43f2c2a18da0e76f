/* Answers in pieces: order, back-pressure, flat memory; and streams of all kinds at once. */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/rand.h"
#include "tests/lib/unit.h"
#include "tests/unit/loop/stream_call.h"

/* --- the answer in pieces --- */

static void test_header_and_pieces_are_reported(void **state)
{
    struct fixture *f = *state;
    struct stream s = {.is_leaving = true};

    prepare_call(f, &s.call, "/slow");
    s.call.http.on_data = stream_on_data;
    assert_int_equal(run_call(&s.call), SP_OK);
    assert_true(s.calls >= 2);                 /* the header is reported before the body is there */
    stream_assert_answer(&s, 200, "ssssssss"); /* what was left is there at the end */
}

static void on_slow_data(struct httpc_request *r)
{
    stream_of(r)->got += r->response.len;
    buf_consume(&r->response, r->response.len);
}

static void test_bound_is_for_what_is_left(void **state)
{
    struct fixture *f = *state;
    struct stream s = {.is_leaving = true};

    prepare_call(f, &s.call, "/slow");
    s.call.http.on_data = on_slow_data;
    s.call.http.response_max = 4;
    assert_int_equal(run_call(&s.call), SP_OK);
    assert_int_equal(s.got, 8);
    prepare_call(f, &s.call, "/huge");
    s.call.http.on_data = stream_on_data;
    assert_int_equal(run_call(&s.call), SP_TOO_BIG);
    httpc_request_fini(&s.call.http);
}

static void test_headers(void **state)
{
    struct fixture *f = *state;
    struct stream s = {.is_leaving = true};

    prepare_call(f, &s.call, "/fields");
    s.call.http.on_data = stream_on_data;
    s.call.http.want_headers = true;
    for (int i = 0; i < 2; i++) { /* nothing stays from the first */
        s.call.done = 0;
        assert_int_equal(run_call(&s.call), SP_OK);
        assert_string_equal(buf_str(&s.call.http.response_headers),
                            "Content-Type: text/plain\nSet-Cookie: a=1\nset-cookie: b=2\n"
                            "X-Folded: one   two\nX-Bare: a b\nX-Empty:\n"
                            "Transfer-Encoding: chunked\n");
    }
    stream_assert_answer(&s, 200, "hello");
    prepare_call(f, &s.call, "/fields");
    s.call.http.want_headers = false;
    s.call.done = 0;
    assert_int_equal(run_call(&s.call), SP_OK);
    assert_int_equal(s.call.http.response_headers.len, 0);
    httpc_request_fini(&s.call.http);
}

/* --- pausing --- */

static void slow_reader(struct fixture *f, const char *kind)
{
    struct stream s = {0};
    size_t rss = stream_rss();
    uint64_t cpu;
    char path[64];

    snprintf(path, sizeof(path), "/%s/%llu", kind, (unsigned long long) stream_mib());
    prepare_call(f, &s.call, path);
    s.call.http.on_data = stream_on_data;
    start_call(&s.call, 60000);
    httpc_pause(&s.call.http);
    while (!s.call.http.is_recv_held)
        stream_rest(f, 20);
    assert_int_equal(s.calls, 0);
    cpu = stream_cpu_us();
    stream_rest(f, 400);
    assert_in_range(stream_cpu_us() - cpu, 0, 200000); /* it does not spin */
    assert_int_equal(s.call.http.response.len, 0);
    s.is_pausing = true;
    httpc_resume(&s.call.http);
    loop_run(&f->loop);
    assert_int_equal(s.got, stream_mib() * MIB);
    assert_in_range(s.left_max, 1, 128 * 1024); /* bursts are held back too */
    stream_assert_answer(&s, 200, "");
    stream_assert_flat(&s, rss);
}

static void test_slow_reader(void **state)
{
    slow_reader(*state, "flow");
}

static void test_slow_reader_of_chunks(void **state)
{
    slow_reader(*state, "flow-chunked");
}

static void test_deadline_and_cancel_while_paused(void **state)
{
    struct fixture *f = *state;
    struct stream s[2] = {0};

    for (size_t i = 0; i < 2; i++) {
        prepare_call(f, &s[i].call, "/flow/64");
        s[i].call.http.on_data = stream_on_data;
        start_call(&s[i].call, i == 0 ? 300 : 30000);
        httpc_pause(&s[i].call.http);
    }
    while (s[0].call.done == 0)
        (void) loop_run_once(&f->loop);
    assert_int_equal(s[0].call.result, SP_TIMEOUT);
    while (!s[1].call.http.is_recv_held)
        (void) loop_run_once(&f->loop);
    cancel_call(&s[1].call);
    httpc_resume(&s[1].call.http); /* too late: nobody is notified */
    loop_run(&f->loop);
    assert_int_equal(s[1].call.result, SP_CANCELLED);
    assert_int_equal(s[0].calls + s[1].calls, 0);
}

static void pause_at_once(struct httpc_request *r)
{
    stream_of(r)->calls++;
    httpc_pause(r);
}

static void test_whole_answer_ends_in_spite_of_a_pause(void **state)
{
    struct fixture *f = *state;
    struct stream s = {0};

    prepare_call(f, &s.call, "/ok");
    s.call.http.on_data = pause_at_once;
    start_call(&s.call, 10000);
    while (s.calls == 0 || s.call.http.is_recv_held || s.call.done == 0) {
        (void) loop_run_once(&f->loop);
        if (s.call.http.is_recv_held) { /* the body came apart from the header */
            s.call.http.on_data = on_slow_data;
            httpc_resume(&s.call.http);
        }
    }
    assert_int_equal(s.call.result, SP_OK);
    assert_true(s.got == 5 || s.call.http.response.len == 5);
    httpc_request_fini(&s.call.http);
}

/* --- all at once --- */

static void start_random(struct fixture *f, struct stream *s, struct rand *r)
{
    static const char *const down[] = {"/flow/1", "/flow-chunked/1", "/flow/3"};
    static const char *const up[] = {"/up/count",           "/up/hangup",    "/up/early/413",
                                     "/up/early-close/500", "/up/early/200", "/never"};
    bool is_up = rand_below(r, 2) == 0;
    bool is_endless = is_up && rand_below(r, 4) == 0;

    if (is_up)
        stream_prepare_up(f, s, up[rand_below(r, ARRAY_LEN(up))],
                          is_endless ? UINT64_MAX : rand_below(r, 2 * MIB));
    else
        prepare_call(f, &s->call, down[rand_below(r, ARRAY_LEN(down))]);
    if (!is_up)
        s->call.http.on_data = stream_on_data;
    if (is_up && !is_endless && rand_below(r, 2) == 0)
        s->call.http.body_size = (int64_t) s->size;
    s->is_pausing = rand_below(r, 2) == 0;
    start_call(&s->call, rand_between(r, 0, 600));
    if (is_up)
        stream_push(&s->call.http);
    if (rand_below(r, 3) == 0)
        rt_timer_set(&f->loop.rt, &s->call.cancel,
                     rt_now(&f->loop.rt) + rand_below(r, 60 * NS_PER_MS), stream_on_cancel_time);
}

static void test_random(void **state)
{
    enum { COUNT = 300, AT_ONCE = 12 };
    struct fixture *f = *state;
    struct stream *all = test_calloc(COUNT, sizeof(*all));
    struct rand r;
    size_t started = 0;

    rand_seed(&r, 7);
    atomic_store(&f->server.counts->gate, 1);
    while (started < COUNT || f->want > 0) {
        while (started < COUNT && f->want < AT_ONCE && rand_below(&r, 8) != 0) {
            start_random(f, &all[started], &r);
            started++;
        }
        (void) loop_run_once(&f->loop);
    }
    for (int i = 0; i < 10; i++)
        (void) loop_run_once(&f->loop);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(all[i].call.done, 1);
        httpc_request_fini(&all[i].call.http);
    }
    test_free(all);
}

#define STREAM_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STREAM_TEST(test_header_and_pieces_are_reported),
        STREAM_TEST(test_bound_is_for_what_is_left),
        STREAM_TEST(test_headers),
        STREAM_TEST(test_slow_reader),
        STREAM_TEST(test_slow_reader_of_chunks),
        STREAM_TEST(test_deadline_and_cancel_while_paused),
        STREAM_TEST(test_whole_answer_ends_in_spite_of_a_pause),
        STREAM_TEST(test_random),
    };

    return cmocka_run_group_tests(tests, set_up_process, NULL);
}
