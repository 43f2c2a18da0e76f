/* The client against a server with odd answers: what is kept, what is sent again, what never is. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "client/box_internal.h"
#include "sandpool/exec.h"
#include "tests/lib/at_most.h"
#include "tests/lib/unit.h"
#include "tests/unit/client/fixture.h"

#define OK_BODY OK_HEAD "Content-Length: 8\r\n\r\n{\"a\": 1}"

/* Ends the client first: the server waits for it. */
static void stop(struct fixture *f, unsigned connections, unsigned requests)
{
    sp_client_free(f->client);
    script_server_stop(f->server);
    assert_int_equal(script_server_connections(f->server), connections);
    assert_int_equal(script_server_requests(f->server), requests);
    script_server_free(f->server);
}

static void get_ok(struct fixture *f, const char *want)
{
    struct sp_failure failure = {0};
    char *body = NULL;
    int r = sp_call(f->client, "GET", "/x", NULL, &body, &failure);

    if (r != SP_OK)
        fail_msg("%d %s", r, failure.message);
    assert_string_equal(body, want);
    free(body);
}

static void expect_failure(struct fixture *f, const char *method, const char *body, int code,
                           const char *part)
{
    struct sp_failure failure = {0};
    char *answer = NULL;

    assert_int_equal(sp_call(f->client, method, "/x", body, &answer, &failure), code);
    assert_int_equal(failure.code, code);
    assert_null(answer);
    if (strstr(failure.message, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, failure.message);
}

static void test_kept_connection(void **state)
{
    (void) state;
    static const struct step steps[] = {
        {.answer = OK_BODY}, {.answer = OK_BODY}, {.answer = OK_BODY}};
    struct fixture f = start(steps, 3);
    char *body = NULL;

    get_ok(&f, "{\"a\": 1}");
    assert_int_equal(sp_call(f.client, "POST", "/v1/x", "{\"b\":2}", &body, NULL), SP_OK);
    free(body);
    assert_int_equal(sp_call(f.client, "POST", "/v1/y", NULL, NULL, NULL), SP_OK);
    sp_client_free(f.client);
    f.client = NULL;
    script_server_stop(f.server);
    assert_int_equal(script_server_connections(f.server), 1);
    assert_string_equal(script_server_request(f.server, 0),
                        "GET /x HTTP/1.1\r\nHost: sandpool\r\n\r\n");
    assert_string_equal(
        script_server_request(f.server, 1),
        "POST /v1/x HTTP/1.1\r\nHost: sandpool\r\nContent-Type: application/json\r\n"
        "Content-Length: 7\r\n\r\n{\"b\":2}");
    assert_string_equal(script_server_request(f.server, 2),
                        "POST /v1/y HTTP/1.1\r\nHost: sandpool\r\nContent-Length: 0\r\n\r\n");
    script_server_free(f.server);
}

static void test_shapes_of_answers(void **state)
{
    (void) state;
    static const struct step steps[] = {
        /* chunked, with an extension and a trailer */
        {.answer = OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3;q=1\r\nabc\r\n2\r\nde\r\n0\r\nT: "
                           "v\r\n\r\n"},
        /* in pieces, after an interim answer */
        {.answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 O",
         .later = "K\r\nContent-Length: 2\r\n\r\nhi"},
        {.answer = "HTTP/1.1 204 No Content\r\n\r\n"},
        {.answer = OK_HEAD "Content-Length: 0\r\n\r\n"},
        /* until the end of the connection */
        {.answer = OK_HEAD "\r\nall ", .later = "of it", .want_close = true},
        {.answer = "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold", .want_close = true},
        {.answer = OK_HEAD "Connection: close\r\nContent-Length: 3\r\n\r\nbye", .want_close = true},
        {.answer = OK_BODY},
    };
    struct fixture f = start(steps, ARRAY_LEN(steps));

    get_ok(&f, "abcde");
    get_ok(&f, "hi");
    get_ok(&f, "");
    get_ok(&f, "");
    get_ok(&f, "all of it");
    get_ok(&f, "old");
    get_ok(&f, "bye");
    get_ok(&f, "{\"a\": 1}");
    stop(&f, 4, 8);
}

static void test_head(void **state)
{
    (void) state;
    static const struct step steps[] = {{.answer = OK_HEAD "Content-Length: 10\r\n\r\n"},
                                        {.answer = OK_BODY}};
    struct fixture f = start(steps, 2);
    char *body = NULL;

    assert_int_equal(sp_call(f.client, "HEAD", "/x", NULL, &body, NULL), SP_OK);
    assert_string_equal(body, "");
    free(body);
    get_ok(&f, "{\"a\": 1}");
    stop(&f, 1, 2);
}

static void test_errors_of_the_daemon(void **state)
{
    (void) state;
    static const struct step steps[] = {
        {.answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: "
                   "85\r\n\r\n{\"error\":{\"code\":\"pool_exhausted\",\"message\":\"all in "
                   "use\",\"retry_after_ms\":1200}}     "},
        {.answer = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 3\r\nContent-Length: "
                   "32\r\n\r\n{\"error\":{\"code\":\"store_down?\"}}"},
        {.answer = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops"},
        {.answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 31\r\n\r\n"
                   "{\"error\":{\"code\":\"not_found\"}} "},
        {.answer = OK_BODY},
    };
    struct fixture f = start(steps, ARRAY_LEN(steps));
    struct sp_failure failure = {0};

    assert_int_equal(sp_call(f.client, "POST", "/x", "{}", NULL, &failure), SP_POOL_EXHAUSTED);
    assert_int_equal(failure.http_status, 429);
    assert_int_equal(failure.retry_after_ms, 1200);
    assert_string_equal(failure.message, "all in use");
    assert_int_equal(sp_call(f.client, "POST", "/x", "{}", NULL, &failure), SP_INTERNAL);
    assert_int_equal(failure.http_status, 503);
    assert_int_equal(failure.retry_after_ms, 3000);
    assert_int_equal(sp_call(f.client, "POST", "/x", "{}", NULL, &failure), SP_PROTOCOL);
    assert_int_equal(failure.http_status, 502);
    assert_string_equal(failure.message, "the daemon answered 502 and gave no reason");
    assert_int_equal(sp_call(f.client, "GET", "/x", NULL, NULL, &failure), SP_NOT_FOUND);
    assert_string_equal(failure.message, "no such sandbox");
    get_ok(&f, "{\"a\": 1}");
    stop(&f, 1, 5);
}

static void test_closed_while_idle(void **state)
{
    (void) state;
    static const struct step steps[] = {{.answer = OK_BODY, .want_close = true},
                                        {.answer = OK_BODY}};
    struct fixture f = start(steps, 2);

    get_ok(&f, "{\"a\": 1}");
    (void) poll(NULL, 0, 50); /* the close has arrived */
    /* noticed before sending, so a POST is safe */
    assert_int_equal(sp_call(f.client, "POST", "/x", "{}", NULL, NULL), SP_OK);
    stop(&f, 2, 2);
}

static void test_unasked_bytes(void **state)
{
    (void) state;
    static const struct step steps[] = {
        {.answer = OK_BODY "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"},
        {.answer = OK_BODY, .later = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"},
        {.answer = OK_BODY},
    };
    struct fixture f = start(steps, 3);

    get_ok(&f, "{\"a\": 1}");
    get_ok(&f, "{\"a\": 1}");
    (void) poll(NULL, 0, 100);
    get_ok(&f, "{\"a\": 1}");
    stop(&f, 3, 3);
}

static void test_get_is_sent_again(void **state)
{
    (void) state;
    static const struct step steps[] = {
        {.answer = OK_BODY}, {.want_close = true}, {.answer = OK_BODY}};
    struct fixture f = start(steps, 3);

    get_ok(&f, "{\"a\": 1}");
    get_ok(&f, "{\"a\": 1}");
    stop(&f, 2, 3);
}

static void test_post_is_not_sent_again(void **state)
{
    (void) state;
    static const struct step steps[] = {
        {.answer = OK_BODY}, {.want_close = true}, {.answer = OK_BODY}};
    struct fixture f = start(steps, 3);

    get_ok(&f, "{\"a\": 1}");
    expect_failure(&f, "POST", "{}", SP_IO, "may or may not have been carried out");
    get_ok(&f, "{\"a\": 1}");
    stop(&f, 2, 3);
}

/* A fresh connection that dies is no reason to try again: the daemon is in trouble. */
static void test_fresh_connection_dies(void **state)
{
    (void) state;
    static const struct step steps[] = {{.want_close = true}, {.answer = OK_BODY}};
    struct fixture f = start(steps, 2);

    expect_failure(&f, "GET", NULL, SP_IO, "without an answer");
    get_ok(&f, "{\"a\": 1}");
    stop(&f, 2, 2);
}

static void test_half_answers(void **state)
{
    (void) state;
    static const struct step steps[] = {
        {.answer = OK_HEAD "Content-Length: 100\r\n\r\nhalf", .want_close = true},
        {.answer = OK_HEAD "Content-Le", .want_close = true},
        {.answer = OK_HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nab", .want_close = true},
        {.answer = "SSH-2.0-OpenSSH\r\n", .want_close = true},
        {.answer = OK_HEAD "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
         .want_close = true},
        {.answer = OK_BODY},
    };
    struct fixture f = start(steps, ARRAY_LEN(steps));

    expect_failure(&f, "GET", NULL, SP_IO, "in the middle of its answer");
    expect_failure(&f, "GET", NULL, SP_IO, "in the middle of its answer");
    expect_failure(&f, "GET", NULL, SP_IO, "in the middle of its answer");
    expect_failure(&f, "GET", NULL, SP_PROTOCOL, "no HTTP");
    expect_failure(&f, "GET", NULL, SP_PROTOCOL, "no HTTP");
    get_ok(&f, "{\"a\": 1}");
    stop(&f, 6, 6);
}

static uint64_t now_ms(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

static void test_deadline(void **state)
{
    (void) state;
    static const struct step steps[] = {
        {.want_silence = true, .want_close = true},
        {.answer = OK_HEAD "Content-Length: 5\r\n\r\nab", .want_silence = true, .want_close = true},
        {.answer = OK_BODY},
    };
    struct fixture f = start(steps, 3);
    uint64_t before = now_ms();

    sp_client_set_timeout(f.client, 100);
    expect_failure(&f, "GET", NULL, SP_TIMEOUT, "did not answer in time");
    expect_failure(&f, "POST", "{}", SP_TIMEOUT, "did not answer in time");
    assert_in_range(now_ms() - before, 200, at_most(3000));
    sp_client_set_timeout(f.client, 4000);
    get_ok(&f, "{\"a\": 1}");
    stop(&f, 3, 3);
}

static void test_too_large(void **state)
{
    (void) state;
    static const struct step steps[] = {
        {.answer = OK_HEAD "\r\n", .filler = 65 * 1024 * 1024, .want_close = true},
        {.answer = OK_BODY},
    };
    struct fixture f = start(steps, 2);

    expect_failure(&f, "GET", NULL, SP_TOO_BIG, "larger than 64 MB");
    get_ok(&f, "{\"a\": 1}");
    stop(&f, 2, 2);
}

static void test_nobody_there(void **state)
{
    (void) state;
    struct sp_failure failure = {0};
    struct sp_client *c = sp_client_new("/tmp/no-such-directory/s");

    assert_int_equal(sp_call(c, "GET", "/x", NULL, NULL, &failure), SP_CONNECT_FAILED);
    assert_int_equal(failure.http_status, 0);
    assert_non_null(strstr(failure.message, "/tmp/no-such-directory/s"));
    assert_non_null(strstr(failure.message, "start sandpoold"));
    sp_client_free(c);

    char longest[200];
    memset(longest, 'a', sizeof(longest));
    longest[199] = '\0';
    c = sp_client_new(longest);
    assert_int_equal(sp_call(c, "GET", "/x", NULL, NULL, &failure), SP_CONNECT_FAILED);
    assert_int_equal(sp_call(c, "GET", "/x", NULL, NULL, NULL), SP_CONNECT_FAILED);
    sp_client_free(c);
    sp_client_free(NULL);
}

static void test_which_socket(void **state)
{
    (void) state;
    struct sp_client *c;

    assert_int_equal(unsetenv("SANDPOOL_SOCKET"), 0);
    c = sp_client_new(NULL);
    assert_string_equal(sp_client_socket(c), SP_DEFAULT_SOCKET);
    sp_client_free(c);
    assert_int_equal(setenv("SANDPOOL_SOCKET", "/tmp/other", 1), 0);
    c = sp_client_new(NULL);
    assert_string_equal(sp_client_socket(c), "/tmp/other");
    sp_client_free(c);
    c = sp_client_new("/tmp/given");
    assert_string_equal(sp_client_socket(c), "/tmp/given");
    sp_client_free(c);
    assert_int_equal(unsetenv("SANDPOOL_SOCKET"), 0);
}

static void test_bad_arguments(void **state)
{
    (void) state;
    struct sp_client *c = sp_client_new("/tmp/none");

    assert_int_equal(sp_call(c, "GET", "/a b", NULL, NULL, NULL), SP_BAD_REQUEST);
    assert_int_equal(sp_call(c, "GET", "/a\r\nX: y", NULL, NULL, NULL), SP_BAD_REQUEST);
    assert_int_equal(sp_call(c, "", "/a", NULL, NULL, NULL), SP_BAD_REQUEST);
    sp_client_free(c);
}

struct collected {
    char text[256];
    size_t len;
    unsigned pieces;
    unsigned stop_after; /* 0: never */
};

static bool collect(void *ctx, const char *data, size_t len)
{
    struct collected *c = ctx;

    assert_true(c->len + len < sizeof(c->text));
    memcpy(c->text + c->len, data, len);
    c->len += len;
    c->text[c->len] = '\0';
    c->pieces++;
    return c->stop_after == 0 || c->pieces < c->stop_after;
}

static void test_stream(void **state)
{
    (void) state;
    static const struct step steps[] = {
        {.answer = OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n",
         .later = "3\r\ntwo\r\n0\r\n\r\n"},
        {.answer = OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n",
         .later = "3\r\ntwo\r\n",
         .want_silence = true,
         .want_close = true},
        {.answer = OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n", .want_close = true},
        {.answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 46\r\n\r\n"
                   "{\"error\":{\"code\":\"forbidden\",\"message\":\"no\"}} "},
        {.answer = OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n",
         .want_silence = true,
         .want_close = true},
    };
    struct fixture f = start(steps, ARRAY_LEN(steps));
    struct sp_failure failure = {0};
    struct collected got = {0};

    assert_int_equal(sp_stream(f.client, "/v1/events", "17", collect, &got, &failure), SP_OK);
    assert_string_equal(got.text, "onetwo");
    got = (struct collected){.stop_after = 2};
    assert_int_equal(sp_stream(f.client, "/v1/events", NULL, collect, &got, &failure), SP_OK);
    assert_string_equal(got.text, "onetwo");
    got = (struct collected){0};
    assert_int_equal(sp_stream(f.client, "/v1/events", NULL, collect, &got, &failure), SP_IO);
    assert_string_equal(got.text, "one");
    got = (struct collected){0};
    assert_int_equal(sp_stream(f.client, "/v1/events", NULL, collect, &got, &failure),
                     SP_FORBIDDEN);
    assert_string_equal(failure.message, "no");
    assert_int_equal(got.pieces, 0);
    sp_client_set_timeout(f.client, 100);
    assert_int_equal(sp_stream(f.client, "/v1/events", NULL, collect, &got, &failure), SP_TIMEOUT);

    sp_client_free(f.client);
    script_server_stop(f.server);
    assert_non_null(strstr(script_server_request(f.server, 0), "\r\nLast-Event-ID: 17\r\n"));
    assert_null(strstr(script_server_request(f.server, 1), "Last-Event-ID"));
    script_server_free(f.server);
}

#define EVENTS_HEAD \
    OK_HEAD "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CHUNK(size, text) size "\r\n" text "\r\n"

/* A box that says all is well, and never ends the command. */
static void test_a_command_that_is_never_ended(void **state)
{
    static const struct step steps[] = {
        {.answer = EVENTS_HEAD CHUNK("1c", "{\"event\":\"start\",\"job\":\"7\"}\n")
             CHUNK("2c", "{\"event\":\"stdout\",\"offset\":0,\"data\":\"b25l\"}\n"),
         .later = CHUNK("16", "{\"event\":\"keepalive\"}\n"),
         .want_silence = true,
         .want_close = true},
    };
    struct fixture f = start(steps, ARRAY_LEN(steps));
    struct sp_box *box = sp_box_new(f.client, "s");
    struct sp_exec e = {.command = "x", .timeout_ms = 100};
    struct sp_exec_result ret;
    struct sp_failure failure = {0};

    (void) state;
    box->grace_ms = 100;
    assert_int_equal(sp_exec(box, &e, &ret, &failure), SP_OK);
    assert_int_equal(ret.outcome, SP_OUTCOME_TRANSPORT_LOST);
    assert_int_equal(ret.exit_code, -1);
    assert_string_equal(ret.out, "one");
    assert_non_null(strstr(failure.message, "does not end it"));
    sp_exec_result_fini(&ret);
    sp_box_free(box);
    stop(&f, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_connection),
        cmocka_unit_test(test_shapes_of_answers),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_errors_of_the_daemon),
        cmocka_unit_test(test_closed_while_idle),
        cmocka_unit_test(test_unasked_bytes),
        cmocka_unit_test(test_get_is_sent_again),
        cmocka_unit_test(test_post_is_not_sent_again),
        cmocka_unit_test(test_fresh_connection_dies),
        cmocka_unit_test(test_half_answers),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_which_socket),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_a_command_that_is_never_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
