/* sandpool-sim as a program: its API on the socket, the watch for deaths, and its end. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "loop/httpc.h"
#include "sim/deaths.h"
#include "tests/lib/process.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"

struct fixture {
    struct loop loop;
    struct httpc *http;
    struct process sim;
    char dir[64];
    char socket[96];
    size_t pending;
};

static const struct httpc_limits limits = {
    .connections = 32, .connections_per_host = 32, .connect_timeout_ms = 5000};

static int set_up(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    const char *const argv[] = {"sandpool-sim", "--socket", f->socket, NULL};

    assert_int_equal(loop_init(&f->loop, NULL), SP_OK);
    assert_int_equal(httpc_new(&f->loop, &limits, &f->http, NULL), SP_OK);
    tmpdir_make(f->dir);
    (void) snprintf(f->socket, sizeof(f->socket), "%s/sim.sock", f->dir);
    process_start(&f->sim, argv);
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

    if (f->sim.pid > 0)
        assert_int_equal(process_stop(&f->sim, SIGTERM), 0);
    tmpdir_remove(f->dir);
    httpc_close(f->http, on_closed, f);
    loop_run(&f->loop);
    loop_fini(&f->loop);
    test_free(f);
    return 0;
}

static void on_done(struct op *op)
{
    struct fixture *f = container_of(container_of(op->rt, struct loop, rt), struct fixture, loop);

    f->pending--;
    loop_stop(&f->loop);
}

struct ask {
    struct httpc_request http;
    char url[256];
};

static void start(struct fixture *f, struct ask *a, const char *method, const char *path,
                  const char *body)
{
    memset(a, 0, sizeof(*a));
    (void) snprintf(a->url, sizeof(a->url), "http://localhost%s", path);
    a->http.method = method;
    a->http.url = a->url;
    a->http.unix_socket = f->socket;
    a->http.body = body;
    a->http.body_len = body != NULL ? strlen(body) : 0;
    a->http.response_max = 1024 * 1024;
    rt_refresh(&f->loop.rt);
    f->pending++;
    httpc_start(f->http, &a->http, rt_after(rt_now(&f->loop.rt), 20 * NS_PER_S), on_done);
}

static void wait_until_left(struct fixture *f, size_t left)
{
    while (f->pending > left)
        loop_run(&f->loop);
}

static int status_of(struct fixture *f, const char *method, const char *path, const char *body)
{
    struct ask a;

    start(f, &a, method, path, body);
    wait_until_left(f, 0);
    assert_int_equal(a.http.op.result, SP_OK);
    httpc_request_fini(&a.http);
    return a.http.status;
}

struct watched {
    char epoch[17];
    uint64_t since;
    bool want_resync;
    size_t count;
};

static void read_watched(struct ask *a, struct watched *ret)
{
    struct json_doc *doc;
    const struct json *root;

    assert_int_equal(a->http.op.result, SP_OK);
    assert_int_equal(a->http.status, 200);
    doc = json_parse(a->http.response.data, a->http.response.len, 1024 * 1024, NULL);
    assert_non_null(doc);
    root = json_root(doc);
    str_copy_cut(ret->epoch, sizeof(ret->epoch), json_str(json_get(root, "epoch")));
    assert_true(json_u64(json_get(root, "since"), &ret->since));
    ret->want_resync = json_bool(json_get(root, "resync"));
    ret->count = json_len(json_get(root, "deaths"));
    (void) json_doc_free(doc);
    httpc_request_fini(&a->http);
}

static void watch(struct fixture *f, const char *path, struct watched *ret)
{
    struct ask a;

    start(f, &a, "GET", path, NULL);
    wait_until_left(f, 0);
    read_watched(&a, ret);
}

static void make_and_kill(struct fixture *f, unsigned from, unsigned count)
{
    char path[64];
    char body[128];

    for (unsigned i = from; i < from + count; i++) {
        (void) snprintf(body, sizeof(body), "{\"box_id\":\"%016x\",\"instance\":\"t\"}", i + 1);
        assert_int_equal(status_of(f, "POST", "/boxes", body), 201);
        (void) snprintf(path, sizeof(path), "/boxes/%016x/kill", i + 1);
        assert_int_equal(status_of(f, "POST", path, NULL), 204);
    }
}

static void test_watch_waits_for_a_death(void **state)
{
    struct fixture *f = *state;
    struct watched got;
    struct watched next;
    struct ask a;
    char path[128];

    watch(f, "/watch?wait_ms=0", &got);
    assert_int_equal(got.count, 0);
    assert_int_equal(got.since, 0);
    assert_false(got.want_resync);
    (void) snprintf(path, sizeof(path), "/watch?wait_ms=15000&since=0&epoch=%s", got.epoch);
    start(f, &a, "GET", path, NULL);
    {
        struct ask create;
        struct ask death;

        start(f, &create, "POST", "/boxes", "{\"box_id\":\"00000000000000aa\"}");
        wait_until_left(f, 1);
        assert_int_equal(create.http.status, 201);
        httpc_request_fini(&create.http);
        start(f, &death, "POST", "/boxes/00000000000000aa/kill", NULL);
        wait_until_left(f, 0);
        assert_int_equal(death.http.status, 204);
        httpc_request_fini(&death.http);
    }
    read_watched(&a, &next);
    assert_int_equal(next.count, 1);
    assert_int_equal(next.since, 1);
    assert_string_equal(next.epoch, got.epoch);

    /* Nothing new: it answers when its time is over. */
    (void) snprintf(path, sizeof(path), "/watch?wait_ms=30&since=1&epoch=%s", got.epoch);
    watch(f, path, &next);
    assert_int_equal(next.count, 0);
    assert_false(next.want_resync);
}

static void test_watch_of_another_life_is_a_resync(void **state)
{
    struct fixture *f = *state;
    struct watched got;

    make_and_kill(f, 0, 3);
    watch(f, "/watch?wait_ms=15000&since=1&epoch=00000000deadbeef", &got);
    assert_true(got.want_resync);
    assert_int_equal(got.since, 3);
    assert_int_equal(got.count, 0);
    watch(f, "/watch?wait_ms=15000&since=99", &got); /* more than ever happened */
    assert_true(got.want_resync);
    watch(f, "/watch?wait_ms=15000&since=1", &got);
    assert_false(got.want_resync);
    assert_int_equal(got.count, 2);
}

static void test_watch_that_missed_too_much(void **state)
{
    struct fixture *f = *state;
    struct watched got;
    char path[64];

    make_and_kill(f, 0, DEATHS_KEPT + 10);
    watch(f, "/watch?wait_ms=0&since=0", &got);
    assert_true(got.want_resync);
    assert_int_equal(got.since, DEATHS_KEPT + 10);
    /* What the ring still has comes in parts. */
    (void) snprintf(path, sizeof(path), "/watch?wait_ms=0&since=%d", 10);
    watch(f, path, &got);
    assert_false(got.want_resync);
    assert_int_equal(got.count, DEATHS_ANSWER);
    assert_int_equal(got.since, 10 + DEATHS_ANSWER);
}

static void test_bad_requests(void **state)
{
    static const struct {
        const char *method;
        const char *path;
        const char *body;
        int status;
    } bad[] = {
        {"POST", "/boxes", "{", 400},
        {"POST", "/boxes", "[]", 422},
        {"POST", "/boxes", "{}", 422},
        {"POST", "/boxes", "{\"box_id\":\"zz\"}", 422},
        {"POST", "/boxes", "{\"box_id\":\"00000000000000aa\",\"fail_percent\":101}", 422},
        {"POST", "/boxes/00000000000000aa/bind", "{}", 404},
        {"POST", "/boxes/00000000000000aa/kill", NULL, 404},
        {"GET", "/boxes/nonsense", NULL, 404},
        {"GET", "/boxes?cursor=x", NULL, 422},
        {"DELETE", "/boxes/nonsense", NULL, 404},
        {"DELETE", "/boxes/00000000000000aa?destroy_ms=x", NULL, 422},
        {"GET", "/watch?epoch=x", NULL, 422},
        {"GET", "/no/such/path", NULL, 404},
        {"PUT", "/boxes", NULL, 405},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(status_of(f, bad[i].method, bad[i].path, bad[i].body), bad[i].status);
    assert_int_equal(status_of(f, "GET", "/stats", NULL), 200);
}

/* Answers under way at the end: a create that hangs, a slow destroy, a watch. */
static void test_ends_with_answers_under_way(void **state)
{
    struct fixture *f = *state;
    struct ask hanging;
    struct ask destroying;
    struct ask watching;

    assert_int_equal(status_of(f, "POST", "/boxes", "{\"box_id\":\"00000000000000aa\"}"), 201);
    start(f, &hanging, "POST", "/boxes", "{\"box_id\":\"00000000000000bb\",\"hang_percent\":100}");
    start(f, &destroying, "DELETE", "/boxes/00000000000000aa?destroy_ms=60000", NULL);
    start(f, &watching, "GET", "/watch?wait_ms=60000", NULL);
    while (f->pending == 3 && watching.http.op.state == OP_RUNNING) {
        struct ask stats;
        const char *is_watching;

        start(f, &stats, "GET", "/stats", NULL);
        wait_until_left(f, 3);
        is_watching = strstr(buf_str(&stats.http.response), "\"watching\":1");
        httpc_request_fini(&stats.http);
        if (is_watching != NULL)
            break;
    }
    assert_int_equal(process_stop(&f->sim, SIGTERM), 0);
    wait_until_left(f, 0);
    assert_int_not_equal(hanging.http.op.result, SP_OK);
    assert_int_not_equal(destroying.http.op.result, SP_OK);
    assert_int_not_equal(watching.http.op.result, SP_OK);
    httpc_request_fini(&hanging.http);
    httpc_request_fini(&destroying.http);
    httpc_request_fini(&watching.http);
}

static void test_bad_options(void **state)
{
    static const char *const bad[][6] = {{"sandpool-sim", NULL},
                                         {"sandpool-sim", "--socket", "s", "--port", "x", NULL},
                                         {"sandpool-sim", "--socket", "s", "more", NULL}};
    const char *const nowhere[] = {"sandpool-sim", "--socket", "/nonexistent/dir/s", NULL};
    struct process p;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        process_spawn(&p, bad[i]);
        assert_int_equal(process_stop(&p, 0), 2);
    }
    process_spawn(&p, nowhere);
    assert_int_equal(process_stop(&p, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_watch_waits_for_a_death, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_watch_of_another_life_is_a_resync, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_watch_that_missed_too_much, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_requests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_with_answers_under_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_options, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
