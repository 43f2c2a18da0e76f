/* Many requests at once: queues, cancels at random times, closing the client under load. */

#include "base/compiler.h"
#include "base/rand.h"
#include "tests/lib/unit.h"
#include "tests/unit/loop/http_call.h"

/* More requests than connections: they wait their turn, and the wait does not count as connecting. */
static void test_queue(void **state)
{
    enum { COUNT = 12 };
    struct fixture *f = *state;
    struct call *calls = test_calloc(COUNT, sizeof(*calls));

    for (size_t i = 0; i < COUNT; i++) {
        prepare_call(f, &calls[i], "/wait/60");
        start_call(&calls[i], 20000);
    }
    loop_run(&f->loop);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(calls[i].result, SP_OK);
        httpc_request_fini(&calls[i].http);
    }
    assert_in_range(atomic_load(&f->server.counts->connections), 1, 2);
    test_free(calls);
}

/* The queue moves on when those at its head are cancelled. */
static void test_queue_after_cancel(void **state)
{
    enum { COUNT = 8 };
    struct fixture *f = *state;
    struct call *calls = test_calloc(COUNT, sizeof(*calls));

    for (size_t i = 0; i < COUNT; i++) {
        prepare_call(f, &calls[i], i < 4 ? "/never" : "/ok");
        start_call(&calls[i], 20000);
    }
    while (atomic_load(&f->server.counts->requests) < 2)
        (void) loop_run_once(&f->loop);
    for (size_t i = 0; i < 4; i++)
        cancel_call(&calls[i]);
    loop_run(&f->loop);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(calls[i].result, i < 4 ? SP_CANCELLED : SP_OK);
        httpc_request_fini(&calls[i].http);
    }
    test_free(calls);
}

static void on_cancel_time(struct rt_timer *timer)
{
    cancel_call(container_of(timer, struct call, cancel));
}

static void start_random(struct fixture *f, struct call *call, struct rand *r)
{
    static const char *const paths[] = {"/ok",    "/ok",     "/echo",    "/slow",      "/half",
                                        "/reset", "/empty",  "/never",   "/huge",      "/garbage",
                                        "/die",   "/length", "/wait/20", "/status/500"};

    prepare_call(f, call, paths[rand_below(r, ARRAY_LEN(paths))]);
    call->http.want_fresh = rand_below(r, 3) == 0;
    if (rand_below(r, 4) == 0)
        call->http.unix_socket = f->server.unix_path;
    if (rand_below(r, 20) == 0)
        call->http.url = "ftp://example.com/";
    start_call(call, rand_between(r, 0, 400));
    if (rand_below(r, 8) == 0)
        cancel_call(call);
    else if (rand_below(r, 2) == 0)
        rt_timer_set(&f->loop.rt, &call->cancel,
                     rt_now(&f->loop.rt) + rand_below(r, 60 * NS_PER_MS), on_cancel_time);
}

static void run_random(struct fixture *f, uint64_t seed)
{
    enum { COUNT = 500, AT_ONCE = 50 };
    struct call *calls = test_calloc(COUNT, sizeof(*calls));
    struct rand r;
    size_t started = 0;

    rand_seed(&r, seed);
    while (started < COUNT || f->want > 0) {
        while (started < COUNT && f->want < AT_ONCE && rand_below(&r, 8) != 0) {
            start_random(f, &calls[started], &r);
            started++;
        }
        (void) loop_run_once(&f->loop);
    }
    for (int i = 0; i < 10; i++)
        (void) loop_run_once(&f->loop); /* time for a second completion to show */
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(calls[i].done, 1);
        httpc_request_fini(&calls[i].http);
    }
    test_free(calls);
}

static void test_random(void **state)
{
    run_random(*state, 1);
}

static void test_random_narrow(void **state)
{
    run_random(*state, 2);
}

static void on_done_restart(struct op *op)
{
    struct httpc_request *r = container_of(op, struct httpc_request, op);
    struct call *call = container_of(r, struct call, http);

    assert_false(call->f->is_closed);
    assert_int_equal(op->result, SP_CANCELLED);
    call->done++;
    if (call->done == 1) /* an owner that retries while the client closes gets an error */
        httpc_start(call->f->client, r, RT_NEVER, on_done_restart);
}

static void test_close_in_flight(void **state)
{
    enum { COUNT = 20 };
    struct fixture *f = *state;
    struct call *calls = test_calloc(COUNT, sizeof(*calls));

    for (size_t i = 0; i < COUNT; i++) {
        prepare_call(f, &calls[i], i % 2 == 0 ? "/never" : "/slow");
        httpc_start(f->client, &calls[i].http, RT_NEVER, on_done_restart);
    }
    while (atomic_load(&f->server.counts->requests) < 8)
        (void) loop_run_once(&f->loop);
    f->is_closed = false;
    httpc_close(f->client, on_client_closed, f);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(calls[i].done, 0);
    loop_run(&f->loop);
    f->client = NULL;
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(calls[i].done, 2);
    assert_true(f->is_closed);
    test_free(calls);
}

#define HTTPC_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define NARROW_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_narrow, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NARROW_TEST(test_queue),          NARROW_TEST(test_queue_after_cancel),
        HTTPC_TEST(test_random),          NARROW_TEST(test_random_narrow),
        HTTPC_TEST(test_close_in_flight),
    };

    return cmocka_run_group_tests(tests, set_up_process, NULL);
}
