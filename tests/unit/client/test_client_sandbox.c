/* Sandboxes, snapshots, forks and costs: what is sent, what is made of the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "sandpool/sandbox.h"
#include "script_server.h"
#include "tests/lib/unit.h"

#define BOX                                                                                      \
    "{\"sandbox_id\":\"s1\",\"generation\":2,\"box_id\":\"00000000000000b1\",\"state\":"         \
    "\"leased\",\"profile\":\"p\",\"user_id\":\"ana\",\"thread_id\":\"t\",\"sandbox_url\":null," \
    "\"created_at\":\"2026-01-02T03:04:05.678Z\",\"expires_at\":null,\"ends_in_s\":1.5,"         \
    "\"ends_by\":\"idle\",\"paused\":true,\"alive\":false}"
#define SNAPSHOT                                                                                \
    "{\"snapshot_id\":\"00000000000000a1\",\"name\":\"n\",\"profile\":\"p\",\"parent\":null,"   \
    "\"sandbox_id\":\"s1\",\"user_id\":null,\"thread_id\":null,\"created_at\":\"2026\",\"size_" \
    "bytes\":7,\"layers\":null,\"digest\":\"d\"}"

enum { STEPS_MAX = 8 };

struct fixture {
    struct step steps[STEPS_MAX];
    char texts[STEPS_MAX][2048];
    struct script_server *server;
    struct sp_client *client;
    struct sp_failure failure;
};

/* One answer for each text. */
static void start(struct fixture *f, const char *const *bodies, size_t count)
{
    memset(f, 0, sizeof(*f));
    assert_true(count <= STEPS_MAX);
    for (size_t i = 0; i < count; i++) {
        int n = snprintf(f->texts[i], sizeof(f->texts[i]),
                         "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(bodies[i]),
                         bodies[i]);

        assert_true(n > 0 && (size_t) n < sizeof(f->texts[i]));
        f->steps[i].answer = f->texts[i];
    }
    f->server = script_server_start(f->steps, count);
    f->client = sp_client_new(script_server_path(f->server));
    sp_client_set_timeout(f->client, 4000);
}

static void stop(struct fixture *f)
{
    sp_client_free(f->client);
    script_server_stop(f->server);
}

static void expect(const struct fixture *f, unsigned n, const char *text)
{
    if (strstr(script_server_request(f->server, n), text) == NULL)
        fail_msg("not in it: %s\n%s", text, script_server_request(f->server, n));
}

static void test_one(void **state)
{
    static const char *const bodies[] = {BOX, BOX, BOX, BOX, BOX, "{\"box_id\":7}", "[]"};
    struct fixture f;
    struct sp_sandbox s;

    (void) state;
    start(&f, bodies, ARRAY_LEN(bodies));
    assert_int_equal(sp_sandbox_get(f.client, "thread:a@b/c d", true, &s, &f.failure), SP_OK);
    assert_string_equal(s.sandbox_id, "s1");
    assert_int_equal(s.generation, 2);
    assert_string_equal(s.box_id, "00000000000000b1");
    assert_string_equal(s.user_id, "ana");
    assert_string_equal(s.sandbox_url, "");
    assert_string_equal(s.ends_by, "idle");
    assert_true(s.ends_in_s > 1.4 && s.ends_in_s < 1.6);
    assert_true(s.is_paused && s.is_alive_known && !s.is_alive);
    assert_int_equal(sp_renew(f.client, "s1", 2, 60, NULL, &f.failure), SP_OK);
    assert_int_equal(sp_pause(f.client, "s1", 0, &s, &f.failure), SP_OK);
    assert_int_equal(sp_resume(f.client, "../a?b#c", 3, &s, NULL), SP_OK);
    assert_int_equal(sp_destroy(f.client, "box:00000000000000b1", 2, true, &f.failure), SP_OK);
    assert_int_equal(sp_sandbox_get(f.client, "s1", false, &s, &f.failure), SP_PROTOCOL);
    assert_int_equal(sp_sandbox_get(f.client, "s1", false, &s, &f.failure), SP_PROTOCOL);
    stop(&f);
    expect(&f, 0, "GET /v1/sandboxes/thread%3Aa%40b%2Fc%20d?alive=1 HTTP/1.1\r\n");
    expect(&f, 1, "POST /v1/sandboxes/s1/renew HTTP/1.1\r\n");
    expect(&f, 1, "\r\n\r\n{\"generation\":2,\"ttl_s\":60}");
    expect(&f, 2, "POST /v1/sandboxes/s1/pause HTTP/1.1\r\n");
    expect(&f, 2, "\r\n\r\n{}");
    expect(&f, 3, "POST /v1/sandboxes/..%2Fa%3Fb%23c/resume HTTP/1.1\r\n");
    expect(&f, 4, "DELETE /v1/sandboxes/box%3A00000000000000b1?generation=2&quick=1 HTTP/1.1\r\n");
    expect(&f, 5, "GET /v1/sandboxes/s1 HTTP/1.1\r\n");
    script_server_free(f.server);
}

static bool count_three(void *ctx, const struct sp_sandbox *s)
{
    unsigned *count = ctx;

    assert_string_equal(s->sandbox_id, "s1");
    return ++*count < 3;
}

static bool count_snapshot(void *ctx, const struct sp_snapshot *s)
{
    unsigned *count = ctx;

    assert_string_equal(s->snapshot_id, "00000000000000a1");
    return ++*count > 0;
}

static void test_lists(void **state)
{
    static const char *const bodies[] = {
        "{\"sandboxes\":[" BOX "],\"next_cursor\":\"a&b\"}",
        "{\"sandboxes\":[" BOX "," BOX "," BOX "],\"next_cursor\":\"never asked for\"}",
        "{\"sandboxes\":[{}],\"next_cursor\":null}",
        "{\"sandboxes\":{},\"next_cursor\":null}",
        "{\"snapshots\":[" SNAPSHOT "],\"next\":\"00000000000000a1\"}",
        "{\"snapshots\":[" SNAPSHOT "],\"next\":null}",
        "{\"snapshots\":[7]}"};
    struct sp_sandbox_filter by = {.state = "leased", .thread_id = "a b"};
    struct fixture f;
    unsigned count = 0;

    (void) state;
    start(&f, bodies, ARRAY_LEN(bodies));
    assert_int_equal(sp_sandbox_list(f.client, &by, count_three, &count, &f.failure), SP_OK);
    assert_int_equal(count, 3);
    assert_int_equal(sp_sandbox_list(f.client, NULL, count_three, &count, &f.failure), SP_PROTOCOL);
    assert_int_equal(sp_sandbox_list(f.client, NULL, count_three, &count, &f.failure), SP_PROTOCOL);
    assert_int_equal(count, 3);
    count = 0;
    assert_int_equal(sp_snapshot_list(f.client, count_snapshot, &count, &f.failure), SP_OK);
    assert_int_equal(count, 2);
    assert_int_equal(sp_snapshot_list(f.client, count_snapshot, &count, &f.failure), SP_PROTOCOL);
    stop(&f);
    expect(&f, 0, "GET /v1/sandboxes?limit=1000&state=leased&thread_id=a%20b HTTP/1.1\r\n");
    expect(&f, 1,
           "GET /v1/sandboxes?limit=1000&state=leased&thread_id=a%20b&cursor=a%26b HTTP/1.1\r\n");
    expect(&f, 4, "GET /v1/snapshots HTTP/1.1\r\n");
    expect(&f, 5, "GET /v1/snapshots?after=00000000000000a1 HTTP/1.1\r\n");
    script_server_free(f.server);
}

static void test_snapshots_and_forks(void **state)
{
    static const char *const bodies[] = {
        SNAPSHOT,
        SNAPSHOT,
        SNAPSHOT,
        "{\"sandboxes\":[" BOX ",{\"error\":{\"code\":\"pool_exhausted\",\"message\":\"all\","
        "\"retry_after_ms\":7}}]}",
        "{\"sandboxes\":[" BOX "]}", /* one is missing */
        "{\"sandboxes\":[{},{}]}"};
    static const char *const threads[] = {"a", "b"};
    struct sp_fork fork = {.count = 2,
                           .threads = threads,
                           .ttl_s = 9,
                           .envs = &(struct sp_env){"A", "1"},
                           .env_count = 1};
    struct sp_branch made[2];
    struct sp_snapshot s;
    struct fixture f;

    (void) state;
    start(&f, bodies, ARRAY_LEN(bodies));
    assert_int_equal(sp_snapshot_create(f.client, "s1", "n", "{\"k\":1}", &s, &f.failure), SP_OK);
    assert_string_equal(s.snapshot_id, "00000000000000a1");
    assert_int_equal(s.size_bytes, 7);
    assert_int_equal(s.layers, 0);
    assert_string_equal(s.parent, "");
    assert_int_equal(sp_snapshot_get(f.client, s.snapshot_id, &s, &f.failure), SP_OK);
    assert_int_equal(sp_snapshot_delete(f.client, s.snapshot_id, &f.failure), SP_OK);
    if (sp_fork(f.client, "s1", &fork, made, &f.failure) != SP_OK)
        fail_msg("%s", f.failure.message);
    assert_int_equal(made[0].failure.code, SP_OK);
    assert_string_equal(made[0].lease.box_id, "00000000000000b1");
    assert_int_equal(made[1].failure.code, SP_POOL_EXHAUSTED);
    assert_string_equal(made[1].failure.message, "all");
    assert_int_equal(made[1].failure.retry_after_ms, 7);
    assert_int_equal(sp_fork(f.client, "s1", &fork, made, &f.failure), SP_PROTOCOL);
    assert_int_equal(sp_fork(f.client, "s1", &fork, made, &f.failure), SP_PROTOCOL);
    fork.count = 0;
    assert_int_equal(sp_fork(f.client, "s1", &fork, made, &f.failure), SP_INVALID_FIELD);
    stop(&f);
    expect(&f, 0, "POST /v1/sandboxes/s1/snapshots HTTP/1.1\r\n");
    expect(&f, 0, "\r\n\r\n{\"name\":\"n\",\"metadata\":{\"k\":1}}");
    expect(&f, 1, "GET /v1/snapshots/00000000000000a1 HTTP/1.1\r\n");
    expect(&f, 2, "DELETE /v1/snapshots/00000000000000a1 HTTP/1.1\r\n");
    expect(&f, 3, "POST /v1/sandboxes/s1/fork HTTP/1.1\r\n");
    expect(&f, 3,
           "\r\n\r\n{\"count\":2,\"threads\":[\"a\",\"b\"],\"ttl_s\":9,\"envs\":{\"A\":\"1\"}}");
    script_server_free(f.server);
}

static void test_costs(void **state)
{
    static const char *const bodies[] = {"{\"total\":\"1\"}", "{}", "{\"usage\":[]}", "{}"};
    struct sp_usage all = {.group_by = "user,profile",
                           .want_intervals = true,
                           .user_id = "a@b",
                           .since_ms = 5,
                           .limit = 10,
                           .cursor = "x y"};
    struct fixture f;
    char *text = NULL;

    (void) state;
    start(&f, bodies, ARRAY_LEN(bodies));
    assert_int_equal(sp_quote(f.client, "big one", 3600, &text, &f.failure), SP_OK);
    assert_string_equal(text, "{\"total\":\"1\"}");
    free(text);
    assert_int_equal(sp_quote(f.client, NULL, 0, &text, &f.failure), SP_OK);
    free(text);
    assert_int_equal(sp_usage(f.client, NULL, &text, &f.failure), SP_OK);
    assert_string_equal(text, "{\"usage\":[]}");
    free(text);
    assert_int_equal(sp_usage(f.client, &all, &text, &f.failure), SP_OK);
    free(text);
    stop(&f);
    expect(&f, 0, "GET /v1/quote?profile=big%20one&duration_s=3600 HTTP/1.1\r\n");
    expect(&f, 1, "GET /v1/quote HTTP/1.1\r\n");
    expect(&f, 2, "GET /v1/usage HTTP/1.1\r\n");
    expect(&f, 3,
           "GET /v1/usage?group_by=user%2Cprofile&intervals=1&user_id=a%40b&since_ms=5&limit=10&"
           "cursor=x%20y HTTP/1.1\r\n");
    script_server_free(f.server);
}

static void test_refusals(void **state)
{
    static const struct step steps[] = {
        {.answer = "HTTP/1.1 409 x\r\nContent-Length: 61\r\n\r\n"
                   "{\"error\":{\"code\":\"stale_generation\",\"message\":\"a newer one\"}}"},
        {.answer = "HTTP/1.1 429 x\r\nRetry-After: 2\r\nContent-Length: 60\r\n\r\n"
                   "{\"error\":{\"code\":\"too_many_snapshots\",\"message\":\"enough\"}}  "},
    };
    struct script_server *server = script_server_start(steps, ARRAY_LEN(steps));
    struct sp_client *c = sp_client_new(script_server_path(server));
    char *huge = malloc(20000);
    struct sp_failure failure;
    struct sp_snapshot s;

    (void) state;
    assert_non_null(huge);
    memset(huge, 'x', 20000);
    huge[19999] = '\0';
    sp_client_set_timeout(c, 4000);
    assert_int_equal(sp_renew(c, "s1", 1, 0, NULL, &failure), SP_STALE_GENERATION);
    assert_string_equal(failure.message, "a newer one");
    assert_int_equal(failure.http_status, 409);
    assert_int_equal(sp_snapshot_create(c, "s1", NULL, NULL, &s, &failure), SP_TOO_MANY_SNAPSHOTS);
    assert_int_equal(failure.retry_after_ms, 2000);
    /* too long for any request: nothing is sent */
    assert_int_equal(sp_pause(c, huge, 0, NULL, &failure), SP_TOO_BIG);
    assert_int_equal(sp_snapshot_get(c, huge, &s, &failure), SP_TOO_BIG);
    assert_int_equal(
        sp_sandbox_list(c, &(struct sp_sandbox_filter){.user_id = huge}, NULL, NULL, &failure),
        SP_TOO_BIG);
    assert_int_equal(sp_usage(c, &(struct sp_usage){.cursor = huge}, NULL, &failure), SP_TOO_BIG);
    sp_client_free(c);
    script_server_stop(server);
    assert_int_equal(script_server_requests(server), 2);
    script_server_free(server);
    free(huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),      cmocka_unit_test(test_lists),
        cmocka_unit_test(test_costs),    cmocka_unit_test(test_snapshots_and_forks),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
