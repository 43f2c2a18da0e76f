/* Host names: looked up off the loop, every address tried, never mixed up. getaddrinfo() is this file's own,
 * so that a name means what a test needs. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "tests/unit/loop/http_call.h"

static atomic_uint lookups;
static atomic_uint moved; /* where moves.test is */
static sem_t stuck;       /* a look-up of stuck.test waits for it */

static struct addrinfo *make_addr(const char *text, struct addrinfo *next)
{
    struct addrinfo *ai = calloc(1, sizeof(*ai) + sizeof(struct sockaddr_in6));
    struct sockaddr_in *four;
    struct sockaddr_in6 *six;

    if (ai == NULL)
        abort();
    ai->ai_addr = (struct sockaddr *) (void *) (ai + 1);
    four = (struct sockaddr_in *) (void *) ai->ai_addr;
    six = (struct sockaddr_in6 *) (void *) ai->ai_addr;
    ai->ai_next = next;
    ai->ai_socktype = SOCK_STREAM;
    ai->ai_family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
    ai->ai_addr->sa_family = (sa_family_t) ai->ai_family;
    ai->ai_addrlen = ai->ai_family == AF_INET6 ? sizeof(*six) : sizeof(*four);
    if (inet_pton(ai->ai_family, text,
                  ai->ai_family == AF_INET6 ? (void *) &six->sin6_addr
                                            : (void *) &four->sin_addr) != 1)
        abort();
    return ai;
}

/* On a thread of the loop's. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    (void) service;
    (void) hints;
    atomic_fetch_add(&lookups, 1);
    *ret = NULL;
    if (strcmp(node, "one.test") == 0 || strcmp(node, "uno.test") == 0)
        *ret = make_addr("127.0.0.1", NULL);
    else if (strcmp(node, "moves.test") == 0)
        *ret = make_addr(atomic_load(&moved) == 0 ? "127.0.0.1" : "127.0.0.2", NULL);
    else if (strcmp(node, "many.test") == 0) /* only the last one listens */
        *ret = make_addr(
            "::1", make_addr("127.0.0.3", make_addr("127.0.0.4", make_addr("127.0.0.1", NULL))));
    else if (strcmp(node, "refused.test") == 0)
        *ret = make_addr("127.0.0.5", make_addr("::1", NULL));
    else if (strcmp(node, "stuck.test") == 0)
        (void) sem_wait(&stuck);
    return *ret != NULL ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *ai)
{
    while (ai != NULL) {
        struct addrinfo *next = ai->ai_next;

        free(ai);
        ai = next;
    }
}

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
    assert_int_equal(atomic_load(&lookups), 1);                       /* remembered */
    assert_int_equal(atomic_load(&f->server.counts->connections), 1); /* reused */
    assert_int_equal(get(f, &call, "ONE.test", f->server.port), SP_OK);
    assert_int_equal(atomic_load(&lookups), 1);
    assert_int_equal(get(f, &call, "uno.test", f->server.port), SP_OK); /* another name */
    assert_non_null(strstr(buf_str(&call.http.response), "Host: uno.test:"));
    assert_int_equal(atomic_load(&lookups), 2);
    assert_int_equal(get(f, &call, "127.0.0.1", f->server.port), SP_OK);
    assert_int_equal(get(f, &call, "localhost", f->server.port), SP_OK);
    assert_int_equal(atomic_load(&lookups), 2); /* not for these */
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
    atomic_store(&moved, 1);
    assert_int_equal(get(f, &call, "moves.test", f->server.port), SP_OK); /* remembered */
    assert_int_equal(get(f, &call, "moves.test", bad_server_free_port()), SP_CONNECT_FAILED);
    assert_int_equal(get(f, &call, "moves.test", f->server.port), SP_CONNECT_FAILED);
    atomic_store(&moved, 0);
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
        assert_int_equal(sem_post(&stuck), 0);
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
    assert_int_equal(sem_post(&stuck), 0);
}

static int set_up_names(void **state)
{
    atomic_store(&lookups, 0);
    atomic_store(&moved, 0);
    return sem_init(&stuck, 0, 0) != 0 ? -1 : set_up(state);
}

#define NAMES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_names, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NAMES_TEST(test_name),         NAMES_TEST(test_every_address_is_tried),
        NAMES_TEST(test_unknown_name), NAMES_TEST(test_name_that_moves),
        NAMES_TEST(test_stuck_lookup), NAMES_TEST(test_close_while_looking_up),
    };

    return cmocka_run_group_tests(tests, set_up_process, NULL);
}
