/* The agent as a program: what it serves, to whom, and how it behaves as the init of a box. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "loop/httpc.h"
#include "tests/lib/process.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"

struct fixture {
    struct loop loop;
    struct httpc *http;
    struct process agent;
    char dir[64];
    unsigned port;
};

static const struct httpc_limits limits = {
    .connections = 4, .connections_per_host = 4, .connect_timeout_ms = 5000};

static int set_up(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));

    assert_int_equal(loop_init(&f->loop, NULL), SP_OK);
    assert_int_equal(httpc_new(&f->loop, &limits, &f->http, NULL), SP_OK);
    tmpdir_make(f->dir);
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

    if (f->agent.pid > 0)
        assert_int_equal(process_stop(&f->agent, SIGTERM), 0);
    tmpdir_remove(f->dir);
    httpc_close(f->http, on_closed, f);
    loop_run(&f->loop);
    loop_fini(&f->loop);
    test_free(f);
    return 0;
}

static void start(struct fixture *f, const char *token_file)
{
    const char *const argv[] = {
        "sandpool-agent", "--port", "0", token_file != NULL ? "--token-file" : NULL,
        token_file,       NULL};
    const char *colon;

    process_start(&f->agent, argv);
    colon = strrchr(f->agent.line, ':');
    assert_non_null(colon);
    f->port = (unsigned) strtoul(colon + 1, NULL, 10);
    assert_in_range(f->port, 1, 65535);
}

static void on_done(struct op *op)
{
    loop_stop(container_of(op->rt, struct loop, rt));
}

/* The status; the body goes to ret_body (may be NULL), which is then the caller's. */
static int get(struct fixture *f, const char *path, const char *token, struct buf *ret_body)
{
    char url[128];
    char header[200];
    const char *const headers[] = {header, NULL};
    struct httpc_request r = {.method = "GET", .url = url, .response_max = 65536};

    (void) snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", f->port, path);
    if (token != NULL) {
        (void) snprintf(header, sizeof(header), "Authorization: Bearer %s", token);
        r.headers = headers;
    }
    rt_refresh(&f->loop.rt);
    httpc_start(f->http, &r, rt_after(rt_now(&f->loop.rt), 10 * NS_PER_S), on_done);
    loop_run(&f->loop);
    assert_int_equal(r.op.result, SP_OK);
    if (ret_body != NULL) {
        *ret_body = r.response;
        memset(&r.response, 0, sizeof(r.response));
    }
    httpc_request_fini(&r);
    return r.status;
}

static void test_health_is_open(void **state)
{
    struct fixture *f = *state;
    struct json_doc *doc;
    struct buf body;

    start(f, NULL);
    assert_int_equal(get(f, "/healthz", NULL, NULL), 200);
    assert_int_equal(get(f, "/v1/sandbox", NULL, &body), 200);
    doc = json_parse(body.data, body.len, 65536, NULL);
    assert_non_null(doc);
    assert_true(json_bool(json_get(json_root(doc), "success")));
    assert_non_null(json_str(json_get(json_root(doc), "home_dir")));
    assert_non_null(json_str(json_get(json_root(doc), "version")));
    assert_true(json_is_obj(json_get(json_get(json_root(doc), "detail"), "system")));
    (void) json_doc_free(doc);
    buf_fini(&body);
}

static void test_no_token_refuses_all_else(void **state)
{
    struct fixture *f = *state;

    start(f, NULL);
    assert_int_equal(get(f, "/v1/agent", NULL, NULL), 401);
    assert_int_equal(get(f, "/v1/agent", "", NULL), 401);
    assert_int_equal(get(f, "/v1/agent", "guess", NULL), 401);
}

static void test_token_of_the_environment(void **state)
{
    struct fixture *f = *state;
    char path[64];
    char env[8192] = {0};
    ssize_t len;
    int fd;

    assert_int_equal(setenv("SANDPOOL_AGENT_TOKEN", "s3cret-token", 1), 0);
    start(f, NULL);
    assert_int_equal(unsetenv("SANDPOOL_AGENT_TOKEN"), 0);
    assert_int_equal(get(f, "/v1/agent", "s3cret-token", NULL), 200);
    assert_int_equal(get(f, "/v1/agent", "s3cret-toke", NULL), 401);
    assert_int_equal(get(f, "/v1/agent", "s3cret-tokens", NULL), 401);
    assert_int_equal(get(f, "/v1/sandbox", NULL, NULL), 200);

    /* No other process in the box can read it there. */
    (void) snprintf(path, sizeof(path), "/proc/%d/environ", (int) f->agent.pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fd >= 0, geteuid() == 0); /* it is hidden from its own user */
    if (fd < 0)
        return;
    len = read(fd, env, sizeof(env));
    (void) close(fd);
    assert_true(len > 0);
    assert_null(memmem(env, (size_t) len, "s3cret", 6));
}

static void test_token_of_a_file(void **state)
{
    struct fixture *f = *state;
    char path[96];
    FILE *file;

    (void) snprintf(path, sizeof(path), "%s/token", f->dir);
    file = fopen(path, "we");
    assert_non_null(file);
    (void) fputs("from-a-file\n", file);
    assert_int_equal(fclose(file), 0);
    start(f, path);
    assert_int_equal(get(f, "/v1/agent", "from-a-file", NULL), 200);
    assert_int_equal(get(f, "/v1/agent", NULL, NULL), 401);
}

static void test_missing_token_file_is_fatal(void **state)
{
    const char *const argv[] = {"sandpool-agent", "--port",         "0",
                                "--token-file",   "/nonexistent/t", NULL};
    struct process p;

    (void) state;
    process_spawn(&p, argv);
    assert_int_equal(process_stop(&p, 0), 1);
}

static void test_bad_options(void **state)
{
    static const char *const bad[][4] = {{"sandpool-agent", "--port", "70000", NULL},
                                         {"sandpool-agent", "--channel-fd", "x", NULL},
                                         {"sandpool-agent", "--what", NULL, NULL},
                                         {"sandpool-agent", "extra", NULL, NULL}};

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct process p;

        process_spawn(&p, bad[i]);
        assert_int_equal(process_stop(&p, 0), 2);
    }
}

/* --- as the init of a box --- */

static size_t read_children(pid_t pid, char *dst, size_t cap)
{
    char path[96];
    ssize_t len;
    int fd;

    (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) pid, (int) pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    len = read(fd, dst, cap - 1);
    (void) close(fd);
    dst[len > 0 ? len : 0] = '\0';
    return strlen(dst);
}

/* Leaves a process behind that has no parent but the init, and ends a little later. */
static void leave_orphan(void)
{
    pid_t child = fork();

    if (child != 0) {
        assert_true(child > 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        return;
    }
    if (fork() == 0)
        (void) usleep(300 * 1000);
    _exit(0);
}

static void test_init_reaps_orphans(void **state)
{
    struct fixture *f = *state;
    int own_ns = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    char children[64];
    bool was_seen = false;

    assert_true(own_ns >= 0);
    if (unshare(CLONE_NEWPID) != 0) {
        (void) close(own_ns);
        skip(); /* not root */
    }
    start(f, NULL); /* the first child: process 1 in there */
    leave_orphan();
    assert_int_equal(setns(own_ns, CLONE_NEWPID), 0);
    (void) close(own_ns);
    for (int i = 0; i < 500; i++) {
        if (read_children(f->agent.pid, children, sizeof(children)) > 0)
            was_seen = true;
        else if (was_seen)
            break;
        (void) usleep(10000);
    }
    assert_true(was_seen);
    assert_string_equal(children, "");
    assert_int_equal(get(f, "/healthz", NULL, NULL), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_health_is_open, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_token_refuses_all_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_token_of_the_environment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_token_of_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_token_file_is_fatal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_init_reaps_orphans, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
