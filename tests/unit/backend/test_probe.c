/* Readiness probes against a server that refuses, fails, keeps silent or answers late. */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "box/probe.h"
#include "tests/lib/at_most.h"
#include "tests/lib/unit.h"
#include "tests/unit/loop/bad_server.h"

struct fixture {
    struct loop loop;
    struct httpc *http;
    struct bad_server server;
    unsigned port;
    bool has_server;
    struct probe probe;
    struct list owner;
    struct rt_timer limit;
    struct rt_timer later;
    unsigned done;
    uint64_t start_ns;
    uint64_t took_ns;
};

static void on_limit(struct rt_timer *timer)
{
    (void) timer;
    fail_msg("the test hangs");
}

static int set_up(void **state)
{
    static const struct httpc_limits limits = {
        .connections = 8, .connections_per_host = 8, .connect_timeout_ms = 2000};
    struct fixture *f = test_calloc(1, sizeof(*f));

    f->port = bad_server_free_port();
    assert_int_equal(loop_init(&f->loop, NULL), SP_OK);
    assert_int_equal(httpc_new(&f->loop, &limits, &f->http, NULL), SP_OK);
    list_init(&f->owner);
    rt_timer_set(&f->loop.rt, &f->limit, rt_after(rt_now(&f->loop.rt), 20 * NS_PER_S), on_limit);
    *state = f;
    return 0;
}

static void on_closed(void *ctx)
{
    struct fixture *f = ctx;

    loop_stop(&f->loop);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    httpc_close(f->http, on_closed, f);
    loop_run(&f->loop);
    rt_timer_cancel(&f->loop.rt, &f->limit);
    assert_int_equal(f->loop.rt.timers.len, 0);
    loop_fini(&f->loop);
    if (f->has_server)
        bad_server_stop(&f->server);
    test_free(f);
    return 0;
}

static void start_server(struct fixture *f)
{
    bad_server_start(&f->server, f->port);
    f->has_server = true;
}

static void on_done(struct op *op)
{
    struct fixture *f = container_of(container_of(op, struct probe, op), struct fixture, probe);

    f->done++;
    f->took_ns = rt_now(&f->loop.rt) - f->start_ns;
    assert_true(list_is_empty(&f->owner));
    assert_int_equal(f->probe.request.op.state, OP_IDLE);
    loop_stop(&f->loop);
}

static void start_probe(struct fixture *f, const char *path, uint64_t timeout_ms)
{
    f->done = 0;
    snprintf(f->probe.url, sizeof(f->probe.url), "http://127.0.0.1:%u%s", f->port, path);
    rt_refresh(&f->loop.rt);
    f->start_ns = rt_now(&f->loop.rt);
    probe_start(f->http, &f->loop.rt, &f->probe, &f->owner,
                rt_after(f->start_ns, timeout_ms * NS_PER_MS), on_done);
    assert_int_equal(f->done, 0);
    assert_int_equal(f->owner.len, 1);
}

static int run_probe(struct fixture *f, const char *path, uint64_t timeout_ms)
{
    start_probe(f, path, timeout_ms);
    loop_run(&f->loop);
    assert_int_equal(f->done, 1);
    return f->probe.op.result;
}

static void test_ready_at_once(void **state)
{
    struct fixture *f = *state;

    start_server(f);
    assert_int_equal(run_probe(f, "/ok", 5000), SP_OK);
    assert_int_equal(f->probe.attempts, 1);
    assert_int_equal(run_probe(f, "/ok", 5000), SP_OK); /* the struct is used again */
}

static void on_time_to_listen(struct rt_timer *timer)
{
    start_server(container_of(timer, struct fixture, later));
}

static void test_refused_then_failing_then_ready(void **state)
{
    struct fixture *f = *state;

    rt_timer_set(&f->loop.rt, &f->later, rt_now(&f->loop.rt) + 60 * NS_PER_MS, on_time_to_listen);
    assert_int_equal(run_probe(f, "/probe/3", 10000), SP_OK);
    assert_int_equal(atomic_load(&f->server.counts->probes), 4);
    assert_true(f->probe.attempts > 4); /* some were refused */
}

static void test_pauses_grow(void **state)
{
    struct fixture *f = *state;

    start_server(f);
    assert_int_equal(run_probe(f, "/status/503", 900), SP_TIMEOUT);
    /* 2 + 4 + ... + 128 are 254 ms, then every 250: at most 8 + 3 and a late one. */
    assert_in_range(f->probe.attempts, 5, 12);
    assert_non_null(strstr(f->probe.op.err.msg, "answered 503"));
}

static void test_never_ready(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(run_probe(f, "/ok", 800), SP_TIMEOUT); /* nobody listens */
    assert_in_range(f->took_ns, 800 * NS_PER_MS, at_most(960 * NS_PER_MS));
    assert_non_null(strstr(f->probe.op.err.msg, "connect"));
    start_server(f);
    assert_int_equal(run_probe(f, "/never", 800), SP_TIMEOUT); /* accepts and keeps silent */
    assert_in_range(f->took_ns, 800 * NS_PER_MS, at_most(960 * NS_PER_MS));
    assert_int_equal(f->probe.attempts, 1);
    assert_non_null(strstr(f->probe.op.err.msg, "no answer in time"));
}

static void test_deadline_in_the_past(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(run_probe(f, "/ok", 0), SP_TIMEOUT);
}

static void test_broken_answers_are_not_ready(void **state)
{
    static const char *const paths[] = {"/half",  "/reset", "/garbage",
                                        "/empty", "/huge",  "/status/404"};
    struct fixture *f = *state;

    start_server(f);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        assert_int_equal(run_probe(f, paths[i], 150), SP_TIMEOUT);
}

static void on_time_to_cancel(struct rt_timer *timer)
{
    struct fixture *f = container_of(timer, struct fixture, later);

    op_cancel(&f->probe.op);
    op_cancel(&f->probe.op);
    assert_int_equal(f->done, 0);
}

static void test_cancel(void **state)
{
    struct fixture *f = *state;
    static const char *const paths[] = {"/never", "/status/503"}; /* in a request, in a pause */

    start_server(f);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        start_probe(f, paths[i], 10000);
        rt_timer_set(&f->loop.rt, &f->later, f->start_ns + 400 * NS_PER_MS, on_time_to_cancel);
        loop_run(&f->loop);
        assert_int_equal(f->done, 1);
        assert_int_equal(f->probe.op.result, SP_CANCELLED);
        assert_true(f->took_ns < at_most(2 * NS_PER_S));
    }
    start_probe(f, "/never", 10000);
    op_cancel(&f->probe.op); /* before anything was sent */
    assert_int_equal(f->done, 0);
    loop_run(&f->loop);
    assert_int_equal(f->probe.op.result, SP_CANCELLED);
}

static void on_time_to_hurry(struct rt_timer *timer)
{
    struct fixture *f = container_of(timer, struct fixture, later);
    unsigned before = f->probe.attempts;

    if (!heap_has(&f->probe.pause.node)) { /* it asks just now */
        rt_timer_set(&f->loop.rt, timer, rt_now(&f->loop.rt) + NS_PER_MS, on_time_to_hurry);
        return;
    }
    probe_hurry(&f->probe);
    assert_int_equal(f->probe.attempts, before + 1);
    probe_hurry(&f->probe); /* a request is in flight: no second one */
    assert_int_equal(f->probe.attempts, before + 1);
    assert_true(f->probe.pause_ns <= 2 * NS_PER_MS);
    op_cancel(&f->probe.op);
}

static void test_hurry(void **state)
{
    struct fixture *f = *state;

    probe_hurry(&f->probe); /* not started: nothing happens */
    start_server(f);
    start_probe(f, "/status/503", 20000);
    rt_timer_set(&f->loop.rt, &f->later, f->start_ns + 100 * NS_PER_MS, on_time_to_hurry);
    loop_run(&f->loop);
    assert_int_equal(f->probe.op.result, SP_CANCELLED);
}

static void test_token_is_sent(void **state)
{
    struct fixture *f = *state;

    start_server(f);
    snprintf(f->probe.token, sizeof(f->probe.token), "abc123");
    assert_int_equal(run_probe(f, "/auth/abc123", 5000), SP_OK);
    assert_int_equal(run_probe(f, "/auth/other", 100), SP_TIMEOUT);
    assert_non_null(strstr(f->probe.op.err.msg, "answered 401"));
    assert_null(strstr(f->probe.op.err.msg, "abc123"));
}

#define PROBE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROBE_TEST(test_ready_at_once),
        PROBE_TEST(test_refused_then_failing_then_ready),
        PROBE_TEST(test_pauses_grow),
        PROBE_TEST(test_never_ready),
        PROBE_TEST(test_deadline_in_the_past),
        PROBE_TEST(test_broken_answers_are_not_ready),
        PROBE_TEST(test_cancel),
        PROBE_TEST(test_hurry),
        PROBE_TEST(test_token_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
