/* http_call.c - see http_call.h. */
#include "tests/unit/loop/http_call.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "tests/lib/unit.h"

static const struct httpc_limits limits = {
    .connections = 16, .connections_per_host = 16, .connect_timeout_ms = 2000};

static void on_limit(struct rt_timer *timer)
{
    (void) timer;
    fail_msg("the test hangs");
}

static int set_up_with(void **state, const struct httpc_limits *lim)
{
    struct fixture *f = test_calloc(1, sizeof(*f));

    bad_server_start(&f->server, 0);
    f->fds = bad_server_count_fds();
    assert_int_equal(loop_init(&f->loop, NULL), SP_OK);
    assert_int_equal(httpc_new(&f->loop, lim, &f->client, NULL), SP_OK);
    rt_timer_set(&f->loop.rt, &f->limit, rt_after(rt_now(&f->loop.rt), 100 * NS_PER_S), on_limit);
    *state = f;
    return 0;
}

int set_up(void **state)
{
    return set_up_with(state, &limits);
}

int set_up_narrow(void **state)
{
    static const struct httpc_limits narrow = {
        .connections = 3, .connections_per_host = 2, .connect_timeout_ms = 150};

    return set_up_with(state, &narrow);
}

/* The first loop of a process opens libuv's signal pipe for good: not a leak of a test. */
int set_up_process(void **state)
{
    struct loop loop;

    (void) state;
    if (loop_init(&loop, NULL) != SP_OK)
        return -1;
    loop_fini(&loop);
    return 0;
}

void on_client_closed(void *ctx)
{
    struct fixture *f = ctx;

    f->is_closed = true;
    loop_stop(&f->loop);
}

static void close_client(struct fixture *f)
{
    httpc_close(f->client, on_client_closed, f);
    f->client = NULL;
    assert_false(f->is_closed);
    loop_run(&f->loop);
    assert_true(f->is_closed);
}

int tear_down(void **state)
{
    struct fixture *f = *state;

    if (f->client != NULL)
        close_client(f);
    rt_timer_cancel(&f->loop.rt, &f->limit);
    loop_fini(&f->loop);
    assert_int_equal(bad_server_count_fds(), f->fds);
    bad_server_stop(&f->server);
    test_free(f);
    return 0;
}

static void on_done(struct op *op)
{
    struct httpc_request *r = container_of(op, struct httpc_request, op);
    struct call *call = container_of(r, struct call, http);
    struct fixture *f = call->f;

    assert_false(f->is_calling);
    assert_false(op_is_active(op));
    assert_null(r->easy);
    call->done++;
    call->result = op->result;
    rt_timer_cancel(&f->loop.rt, &call->cancel);
    if (op->result != SP_OK) {
        assert_int_equal(op->err.code, op->result);
        assert_true(op->err.msg[0] != '\0');
    }
    f->want--;
    if (f->want == 0)
        loop_stop(&f->loop);
}

void prepare_call(struct fixture *f, struct call *call, const char *path)
{
    call->f = f;
    snprintf(call->url, sizeof(call->url), "http://127.0.0.1:%u%s", f->server.port, path);
    call->http.method = "GET";
    call->http.url = call->url;
    call->http.response_max = 65536;
}

void start_call(struct call *call, uint64_t timeout_ms)
{
    struct fixture *f = call->f;
    uint64_t deadline_ns = rt_after(rt_now(&f->loop.rt), timeout_ms * NS_PER_MS);

    f->want++;
    f->is_calling = true;
    httpc_start(f->client, &call->http, deadline_ns, on_done);
    f->is_calling = false;
    assert_int_equal(call->done, 0);
}

void cancel_call(struct call *call)
{
    call->f->is_calling = true;
    op_cancel(&call->http.op);
    call->f->is_calling = false;
}

/* Runs one prepared request to its end. */
int run_call(struct call *call)
{
    call->done = 0;
    start_call(call, 10000);
    loop_run(&call->f->loop);
    assert_int_equal(call->done, 1);
    return call->result;
}
