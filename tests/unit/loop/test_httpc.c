/* What the HTTP client sends, and what it makes of every kind of answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "tests/lib/at_most.h"
#include "tests/lib/unit.h"
#include "tests/unit/loop/http_call.h"

static int get(struct fixture *f, const char *path)
{
    struct call call = {0};
    int result;

    prepare_call(f, &call, path);
    result = run_call(&call);
    httpc_request_fini(&call.http);
    return result;
}

static void test_answers(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};

    prepare_call(f, &call, "/ok");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(run_call(&call), SP_OK);
        assert_int_equal(call.http.status, 200);
        assert_string_equal(buf_str(&call.http.response), "hello");
    }
    assert_int_equal(atomic_load(&f->server.counts->connections), 1); /* reused */
    prepare_call(f, &call, "/status/404");
    assert_int_equal(run_call(&call), SP_OK);
    assert_int_equal(call.http.status, 404);
    prepare_call(f, &call, "/status/503");
    call.http.method = "HEAD";
    assert_int_equal(run_call(&call), SP_OK);
    assert_int_equal(call.http.status, 503);
    assert_int_equal(call.http.response.len, 0);
    prepare_call(f, &call, "/redirect");
    assert_int_equal(run_call(&call), SP_OK);
    assert_int_equal(call.http.status, 302); /* not followed */
    prepare_call(f, &call, "/slow");
    assert_int_equal(run_call(&call), SP_OK);
    assert_string_equal(buf_str(&call.http.response), "ssssssss");
    httpc_request_fini(&call.http);
}

static void test_request_as_sent(void **state)
{
    static const char *const headers[] = {"Authorization: Bearer abc", "X-Id: 7", NULL};
    struct fixture *f = *state;
    struct call call = {0};
    const char *text;
    char body[3000];

    memset(body, 'b', sizeof(body));
    prepare_call(f, &call, "/echo/../x?q=1");
    call.http.method = "POST";
    call.http.headers = headers;
    call.http.body = body;
    call.http.body_len = sizeof(body); /* more than libcurl's limit for "Expect" */
    assert_int_equal(run_call(&call), SP_OK);
    text = buf_str(&call.http.response);
    assert_ptr_equal(strstr(text, "POST /echo/../x?q=1 HTTP/1.1\r\n"), text);
    assert_non_null(strstr(text, "\r\nAuthorization: Bearer abc\r\n"));
    assert_non_null(strstr(text, "\r\nX-Id: 7\r\n"));
    assert_non_null(strstr(text, "\r\nContent-Length: 3000\r\n"));
    assert_null(strcasestr(text, "\r\nexpect:"));
    assert_null(strcasestr(text, "\r\ncontent-type:"));
    assert_non_null(strstr(text, "\r\n\r\nbbbb"));
    call.http.body_len = 0;
    assert_int_equal(run_call(&call), SP_OK);
    assert_non_null(strstr(buf_str(&call.http.response), "\r\nContent-Length: 0\r\n"));
    prepare_call(f, &call, "/echo");
    call.http.method = "DELETE";
    call.http.headers = NULL;
    assert_int_equal(run_call(&call), SP_OK);
    text = buf_str(&call.http.response);
    assert_ptr_equal(strstr(text, "DELETE /echo HTTP/1.1\r\n"), text);
    assert_null(strcasestr(text, "authorization")); /* nothing stays in a reused handle */
    assert_null(strcasestr(text, "content-length"));
    httpc_request_fini(&call.http);
}

static void test_places(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};

    setenv("http_proxy", "http://127.0.0.1:1/", 1);
    prepare_call(f, &call, "/echo");
    snprintf(call.url, sizeof(call.url), "http://localhost:%u/echo", f->server.port);
    assert_int_equal(run_call(&call), SP_OK);
    assert_non_null(strstr(buf_str(&call.http.response), "Host: localhost"));
    unsetenv("http_proxy");
    snprintf(call.url, sizeof(call.url), "http://engine/echo");
    call.http.unix_socket = f->server.unix_path;
    assert_int_equal(run_call(&call), SP_OK);
    assert_non_null(strstr(buf_str(&call.http.response), "Host: engine"));
    call.http.unix_socket = "/nonexistent/socket";
    assert_int_equal(run_call(&call), SP_CONNECT_FAILED);
    httpc_request_fini(&call.http);
}

static void test_broken_answers(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(get(f, "/half"), SP_IO);
    assert_int_equal(get(f, "/reset"), SP_IO);
    assert_int_equal(get(f, "/empty"), SP_IO);
    assert_int_equal(get(f, "/garbage"), SP_PROTOCOL);
    assert_int_equal(get(f, "/huge"), SP_TOO_BIG);
    assert_int_equal(get(f, "/length"), SP_TOO_BIG);
    assert_int_equal(get(f, "/headers"), SP_TOO_BIG);
    assert_int_equal(get(f, "/coded"), SP_PROTOCOL);
    assert_int_equal(get(f, "/ok"), SP_OK);
}

/* libcurl looks for the header before, also in what is left of another answer. */
static void test_answer_that_begins_with_a_folded_line(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(get(f, "/ok"), SP_OK);
        (void) get(f, "/folded"); /* good or bad: some versions drop the line */
    }
    assert_int_equal(get(f, "/ok"), SP_OK);
}

static void test_body_of_exactly_the_limit(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};

    prepare_call(f, &call, "/ok");
    call.http.response_max = 5;
    assert_int_equal(run_call(&call), SP_OK);
    assert_int_equal(call.http.response.len, 5);
    call.http.response_max = 4;
    assert_int_equal(run_call(&call), SP_TOO_BIG);
    assert_int_equal(call.http.response.len, 0);
    call.http.response_max = 0;
    assert_int_equal(run_call(&call), SP_TOO_BIG);
    httpc_request_fini(&call.http);
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};

    prepare_call(f, &call, "");
    snprintf(call.url, sizeof(call.url), "http://127.0.0.1:%u/", bad_server_free_port());
    assert_int_equal(run_call(&call), SP_CONNECT_FAILED);
    assert_true(call.http.op.err.sys != 0);
}

static void test_bad_requests(void **state)
{
    static const char *const urls[] = {"",
                                       "nonsense url",
                                       "http://",
                                       "ftp://127.0.0.1/",
                                       "file:///x",
                                       "http://[::1/",
                                       "http://na,me/",
                                       "http://a%20b/",
                                       "http://127.0.0.1/a\r\nb: c"};
    static const char *const headers[] = {"X: a\r\nEvil: b", NULL};
    struct fixture *f = *state;
    struct call call = {0};

    prepare_call(f, &call, "/ok");
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        call.http.url = urls[i];
        assert_int_equal(run_call(&call), SP_BAD_REQUEST);
    }
    call.http.url = call.url;
    call.http.headers = headers;
    assert_int_equal(run_call(&call), SP_BAD_REQUEST);
    call.http.headers = NULL;
    call.http.method = "GET /x HTTP/1.1\r\n";
    assert_int_equal(run_call(&call), SP_BAD_REQUEST);
    assert_int_equal(atomic_load(&f->server.counts->connections), 0);
}

static void test_deadline(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};
    uint64_t start_ns = rt_now(&f->loop.rt);
    uint64_t took_ns;

    prepare_call(f, &call, "/never");
    start_call(&call, 100);
    loop_run(&f->loop);
    took_ns = rt_now(&f->loop.rt) - start_ns;
    assert_int_equal(call.result, SP_TIMEOUT);
    assert_in_range(took_ns, 100 * NS_PER_MS, at_most(2 * NS_PER_S));
    assert_int_equal(get(f, "/ok"), SP_OK);
}

static void test_cancel(void **state)
{
    struct fixture *f = *state;
    struct call calls[2] = {0};

    for (size_t i = 0; i < 2; i++) {
        prepare_call(f, &calls[i], "/never");
        start_call(&calls[i], 10000);
    }
    cancel_call(&calls[0]); /* before it was sent */
    while (calls[0].done == 0 || atomic_load(&f->server.counts->requests) < 1)
        (void) loop_run_once(&f->loop);
    cancel_call(&calls[1]); /* while it waits */
    cancel_call(&calls[1]); /* twice is once */
    loop_run(&f->loop);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(calls[i].done, 1);
        assert_int_equal(calls[i].result, SP_CANCELLED);
    }
}

/* libcurl resends on a reused connection that dies; a request that creates something must not. */
static void test_fresh_request_arrives_once(void **state)
{
    struct fixture *f = *state;
    struct call call = {0};

    assert_int_equal(get(f, "/ok"), SP_OK); /* leaves a connection to reuse */
    prepare_call(f, &call, "/die");
    call.http.method = "POST";
    call.http.want_fresh = true;
    assert_int_equal(run_call(&call), SP_IO);
    assert_int_equal(atomic_load(&f->server.counts->deaths), 1);
    assert_int_equal(atomic_load(&f->server.counts->connections), 2);
    assert_int_equal(get(f, "/ok"), SP_OK);
    assert_int_equal(atomic_load(&f->server.counts->connections), 2);
}

#define HTTPC_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTPC_TEST(test_answers),
        HTTPC_TEST(test_request_as_sent),
        HTTPC_TEST(test_places),
        HTTPC_TEST(test_broken_answers),
        HTTPC_TEST(test_answer_that_begins_with_a_folded_line),
        HTTPC_TEST(test_body_of_exactly_the_limit),
        HTTPC_TEST(test_refused),
        HTTPC_TEST(test_bad_requests),
        HTTPC_TEST(test_deadline),
        HTTPC_TEST(test_cancel),
        HTTPC_TEST(test_fresh_request_arrives_once),
    };

    return cmocka_run_group_tests(tests, set_up_process, NULL);
}
