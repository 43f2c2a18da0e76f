/* Host names: looked up off the loop, every address tried, never mixed up. */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "tests/lib/unit.h"
#include "tests/unit/loop/fake_names.h"
#include "tests/unit/loop/http_call.h"

static int get(struct fixture *f, struct call *call, const char *host, unsigned port)
{
    prepare_call(f, call, "/echo");
    snprintf(call->url, sizeof(call->url), "http://%s:%u/echo", host, port);
    return run_call(call);
}

static void test_name(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};
    char line[100];

    for (int i = 0; i < 3; i++) {
        assert_int_equal(get(f, &call, "one.test", f->server.port), SP_OK);
        snprintf(line, sizeof(line), "\r\nHost: one.test:%u\r\n", f->server.port);
        assert_non_null(strstr(buf_str(&call.http.response), line));
    }
    assert_int_equal(atomic_load(&fake_lookups), 1);                  /* remembered */
    assert_int_equal(atomic_load(&f->server.counts->connections), 1); /* reused */
    assert_int_equal(get(f, &call, "ONE.test", f->server.port), SP_OK);
    assert_int_equal(atomic_load(&fake_lookups), 1);
    assert_int_equal(get(f, &call, "uno.test", f->server.port), SP_OK); /* another name */
    assert_non_null(strstr(buf_str(&call.http.response), "Host: uno.test:"));
    assert_int_equal(atomic_load(&fake_lookups), 2);
    assert_int_equal(get(f, &call, "127.0.0.1", f->server.port), SP_OK);
    assert_int_equal(get(f, &call, "localhost", f->server.port), SP_OK);
    assert_int_equal(atomic_load(&fake_lookups), 2); /* not for these */
    httpc_request_fini(&call.http);
}

static void test_every_address_is_tried(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};

    assert_int_equal(get(f, &call, "many.test", f->server.port), SP_OK);
    assert_int_equal(get(f, &call, "refused.test", f->server.port), SP_CONNECT_FAILED);
    assert_non_null(strstr(call.http.op.err.msg, "refused.test"));
    httpc_request_fini(&call.http);
}

static void test_unknown_name(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};

    assert_int_equal(get(f, &call, "nobody.test", f->server.port), SP_CONNECT_FAILED);
    assert_non_null(strstr(call.http.op.err.msg, "host 'nobody.test' is not found"));
}

/* A name that moves: the next request goes to the new place, though a connection to the old one is open;
 * and addresses that did not help are not remembered. */
static void test_name_that_moves(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};
    struct call other = {0};

    assert_int_equal(get(f, &call, "moves.test", f->server.port), SP_OK);
    atomic_store(&fake_moved, 1);
    assert_int_equal(get(f, &call, "moves.test", f->server.port), SP_OK); /* remembered */
    assert_int_equal(get(f, &call, "moves.test", bad_server_free_port()), SP_CONNECT_FAILED);
    assert_int_equal(get(f, &call, "moves.test", f->server.port), SP_CONNECT_FAILED);
    atomic_store(&fake_moved, 0);
    assert_int_equal(get(f, &call, "moves.test", f->server.port), SP_OK);
    assert_int_equal(atomic_load(&f->server.counts->connections), 1); /* the old one was kept */
    prepare_call(f, &other, "/ok");
    assert_int_equal(run_call(&other), SP_OK);
    httpc_request_fini(&call.http);
    httpc_request_fini(&other.http);
}

static void test_stuck_lookup(void **state)
{
    struct fixture *f = *state;
    struct call calls[6] = {0};
    struct call other = {0};
    struct call last = {0};

    for (size_t i = 0; i < ARRAY_LEN(calls); i++) { /* more than there are threads */
        prepare_call(f, &calls[i], "/ok");
        snprintf(calls[i].url, sizeof(calls[i].url), "http://stuck.test:%u/ok", f->server.port);
        start_call(&calls[i], i == 0 ? 100 : 30000);
    }
    while (calls[0].done == 0)
        (void) loop_run_once(&f->loop);
    assert_int_equal(calls[0].result, SP_TIMEOUT);
    for (size_t i = 1; i < 4; i++)
        cancel_call(&calls[i]);
    prepare_call(f, &other, "/ok"); /* what needs no look-up is not held up */
    start_call(&other, 10000);
    while (other.done == 0 || calls[3].done == 0)
        (void) loop_run_once(&f->loop);
    assert_int_equal(other.result, SP_OK);
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(calls[i].result, SP_CANCELLED);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        assert_int_equal(sem_post(&fake_stuck), 0);
    loop_run(&f->loop); /* the last two hear that there is no such name */
    assert_int_equal(calls[4].result, SP_CONNECT_FAILED);
    assert_int_equal(calls[5].result, SP_CONNECT_FAILED);
    assert_int_equal(get(f, &last, "one.test", f->server.port), SP_OK);
    httpc_request_fini(&other.http);
    httpc_request_fini(&last.http);
}

static void test_close_while_looking_up(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};

    prepare_call(f, &call, "/ok");
    call.http.is_body_streamed = true;
    call.http.body_size = -1;
    snprintf(call.url, sizeof(call.url), "http://stuck.test:%u/ok", f->server.port);
    start_call(&call, 30000);
    assert_int_equal(httpc_body_write(&call.http, "abc", 3), 3); /* waits with it */
    httpc_close(f->client, on_client_closed, f);
    f->client = NULL;
    while (!f->is_closed)
        (void) loop_run_once(&f->loop);
    assert_int_equal(call.done, 1);
    assert_int_equal(call.result, SP_CANCELLED);
    assert_int_equal(sem_post(&fake_stuck), 0);
}

/* Whatever ends a request ends its look-up, too: its memory is the caller's again. */
static void test_end_while_looking_up(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};
    struct call last = {0};

    prepare_call(f, &call, "/ok");
    call.http.is_body_streamed = true;
    call.http.body_size = 2;
    snprintf(call.url, sizeof(call.url), "http://stuck.test:%u/ok", f->server.port);
    start_call(&call, 30000);
    (void) httpc_body_write(&call.http, "abc", 3); /* more than announced */
    while (call.done == 0)
        (void) loop_run_once(&f->loop);
    assert_int_equal(call.result, SP_BAD_REQUEST);
    memset(&call, 0xa5, sizeof(call));
    assert_int_equal(sem_post(&fake_stuck), 0);
    assert_int_equal(sem_post(&fake_stuck), 0);
    assert_int_equal(get(f, &last, "stuck.test", f->server.port), SP_CONNECT_FAILED);
    httpc_request_fini(&last.http);
}

static int set_up_names(void **state)
{
    atomic_store(&fake_lookups, 0);
    atomic_store(&fake_moved, 0);
    return sem_init(&fake_stuck, 0, 0) != 0 ? -1 : set_up(state);
}

#define NAMES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_names, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NAMES_TEST(test_name),
        NAMES_TEST(test_every_address_is_tried),
        NAMES_TEST(test_unknown_name),
        NAMES_TEST(test_name_that_moves),
        NAMES_TEST(test_stuck_lookup),
        NAMES_TEST(test_close_while_looking_up),
        NAMES_TEST(test_end_while_looking_up),
    };

    return cmocka_run_group_tests(tests, set_up_process, NULL);
}
