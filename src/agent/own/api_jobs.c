/* api_jobs.c - /v1/agent/jobs: commands that run on when their caller goes. A job is a process of the
 * process table, seen from outside. Answers are plain objects; errors have the same form as the
 * daemon's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/own/body.h"
#include "agent/own/process_view.h"
#include "agent/own/routes.h"
#include "agent/process/launch.h"
#include "base/mem.h"
#include "base/str.h"

enum {
    TAG_MAX = 128,
    STDIN_BODY_MAX = 1024 * 1024,
    TIMEOUT_S_MAX = 7 * 24 * 3600,
    WAIT_S_MAX = 3600
};

#define WAIT_DEFAULT_NS (60 * NS_PER_S)

struct waiter {
    struct agent *agent;
    struct http_exchange *ex;
    struct process_watch watch;
    struct rt_timer timer;
};

struct process *process_of(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct process *p = NULL;
    uint64_t id;

    if (str_parse_u64(http_path_param(ex, "job"), 1, UINT64_MAX, &id))
        p = process_find(a->processes, id);
    if (p == NULL)
        http_reply_error(ex, SP_NOT_FOUND, "no such job", 0);
    return p;
}

static void put_stream(struct json_out *o, const char *key, const struct process *p, unsigned i)
{
    const struct output *output = &p->streams[i].output;

    json_begin_obj(o, key);
    json_put_u64(o, "size", output->end);
    json_put_u64(o, "head", output->head.len);
    json_put_u64(o, "tail_from", output_seek(output, output->head.len));
    json_put_bool(o, "open", process_is_open(p, i));
    json_end(o);
}

void process_put(struct json_out *o, const struct process *p)
{
    const struct rt *rt = &p->table->loop->rt;
    bool is_running = process_is_running(p);
    char text[32];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) p->id);
    json_put_str(o, "job", text);
    json_put_i64(o, "pid", p->pid);
    json_put_str(o, "command", p->command);
    json_put_str(o, "tag", p->tag);
    json_put_bool(o, "pty", p->is_pty);
    json_put_str(o, "outcome", process_outcome_name(p->outcome));
    if (p->outcome == PROCESS_EXITED)
        json_put_i64(o, "exit_code", p->exit_code);
    else
        json_put_null(o, "exit_code");
    json_put_str(o, "signal", p->signum != 0 ? process_signal_name(p->signum) : NULL);
    str_iso8601(text, rt_wall_at(rt, p->started_ns));
    json_put_str(o, "started_at", text);
    json_put_u64(o, "duration_ms",
                 ((is_running ? rt_now(rt) : p->ended_ns) - p->started_ns) / NS_PER_MS);
    json_put_u64(o, "stdout_bytes", p->streams[PROCESS_STDOUT].output.end);
    json_put_u64(o, "stderr_bytes", p->streams[PROCESS_STDERR].output.end);
    put_stream(o, "stdout", p, PROCESS_STDOUT);
    put_stream(o, "stderr", p, PROCESS_STDERR);
}

static void reply_process(struct http_exchange *ex, int status, const struct process *p)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    process_put(&o, p);
    json_end(&o);
    http_reply_json(ex, status, &o);
}

static int read_size(const struct json *obj, uint16_t *cols, uint16_t *rows, struct err *err)
{
    uint64_t c = *cols;
    uint64_t l = *rows;
    int r = json_field_u64(obj, "cols", 1, 4096, &c, err);

    if (r == SP_OK)
        r = json_field_u64(obj, "rows", 1, 4096, &l, err);
    *cols = (uint16_t) c;
    *rows = (uint16_t) l;
    return r;
}

static int read_program(const struct json *root, struct launch *l, struct err *err)
{
    const struct json *argv = json_get(root, "argv");
    const char *command = NULL;
    int r = json_field_str(root, "command", LAUNCH_COMMAND_MAX, &command, err);

    if (r != SP_OK)
        return r;
    if ((argv == NULL) == (command == NULL))
        return err_set(err, SP_INVALID_FIELD, "either 'argv' or 'command' is required");
    if (argv != NULL)
        return launch_set_argv(l, argv, err);
    launch_set_shell(l, command);
    return SP_OK;
}

static int read_start(const struct json *root, struct launch *l, struct err *err)
{
    static const char *const known[] = {"argv", "command", "cwd",       "env",  "stdin",
                                        "pty",  "tag",     "timeout_s", "user", NULL};
    struct spawn_request *s = &l->request.spawn;
    const struct json *env = NULL;
    const struct json *pty = NULL;
    const char *cwd = NULL;
    const char *user = NULL;
    int r = json_only_fields(root, known, err);

    if (r == SP_OK)
        r = read_program(root, l, err);
    if (r == SP_OK)
        r = json_field_str(root, "cwd", 1000, &cwd, err);
    if (r == SP_OK)
        r = json_field_str(root, "user", IDENTITY_NAME_MAX, &user, err);
    if (r == SP_OK && user != NULL)
        r = launch_set_user(l, user, err);
    if (r == SP_OK)
        r = launch_set_cwd(l, cwd, err);
    if (r == SP_OK)
        r = json_field_str(root, "tag", TAG_MAX, &l->request.tag, err);
    if (r == SP_OK)
        r = json_field_bool(root, "stdin", &s->want_stdin, err);
    if (r == SP_OK)
        r = agent_field_seconds(root, "timeout_s", TIMEOUT_S_MAX, &l->request.timeout_ns, err);
    if (r == SP_OK)
        r = json_field_obj(root, "pty", &pty, err);
    if (r == SP_OK && pty != NULL)
        r = read_size(pty, &s->cols, &s->rows, err);
    if (r == SP_OK)
        r = json_field_obj(root, "env", &env, err);
    s->want_pty = pty != NULL;
    return r == SP_OK ? launch_set_env(l, env, err) : r;
}

static void handle_start(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct json_doc *doc = agent_read_body(ex);
    struct launch l;
    struct process *p;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    launch_init(&l, a);
    r = read_start(json_root(doc), &l, &err);
    if (r == SP_OK)
        r = process_start(a->processes, &l.request, &p, &err);
    if (r == SP_OK)
        reply_process(ex, 200, p);
    else
        http_reply_err(ex, &err);
    launch_fini(&l);
    (void) json_doc_free(doc);
}

static void put_list(struct json_out *o, const struct list *l)
{
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        json_begin_obj(o, NULL);
        process_put(o, container_of(n, struct process, link));
        json_end(o);
    }
}

static void handle_list(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "jobs");
    put_list(&o, &a->processes->finished);
    put_list(&o, &a->processes->running);
    json_end(&o);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static void handle_get(struct http_exchange *ex)
{
    const struct process *p = process_of(ex);

    if (p != NULL)
        reply_process(ex, 200, p);
}

static void handle_stdin(struct http_exchange *ex)
{
    struct process *p = process_of(ex);
    char eof[8];
    struct err err;
    size_t len = 0;
    const char *body = http_body(ex, &len);

    if (p == NULL)
        return;
    if (len > 0 && process_write(p, body, len, &err) != SP_OK) {
        http_reply_err(ex, &err);
        return;
    }
    if (http_query(ex, "eof", eof, sizeof(eof)) && strcmp(eof, "0") != 0 &&
        process_close_stdin(p, &err) != SP_OK) {
        http_reply_err(ex, &err);
        return;
    }
    reply_process(ex, 200, p);
}

static void handle_resize(struct http_exchange *ex)
{
    struct process *p = process_of(ex);
    struct json_doc *doc = p != NULL ? agent_read_body(ex) : NULL;
    uint16_t cols = 80;
    uint16_t rows = 24;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = read_size(json_root(doc), &cols, &rows, &err);
    if (r == SP_OK)
        r = process_resize(p, cols, rows, &err);
    if (r == SP_OK)
        reply_process(ex, 200, p);
    else
        http_reply_err(ex, &err);
    (void) json_doc_free(doc);
}

static void handle_signal(struct http_exchange *ex)
{
    struct process *p = process_of(ex);
    struct json_doc *doc = p != NULL ? agent_read_body(ex) : NULL;
    int signum = SIGTERM;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = process_signal_field(json_root(doc), &signum, &err);
    if (r == SP_OK)
        r = process_signal(p, signum, &err);
    if (r == SP_OK)
        reply_process(ex, 200, p);
    else
        http_reply_err(ex, &err);
    (void) json_doc_free(doc);
}

static void waiter_free(struct waiter *w)
{
    rt_timer_cancel(&w->agent->loop.rt, &w->timer);
    process_unwatch(&w->watch);
    free(w);
}

static void on_gone(void *ctx)
{
    waiter_free(ctx);
}

static void finish_wait(struct waiter *w)
{
    reply_process(w->ex, 200, w->watch.process);
    waiter_free(w);
}

static void on_change(struct process_watch *watch)
{
    if (!process_is_running(watch->process))
        finish_wait(container_of(watch, struct waiter, watch));
}

static void on_timer(struct rt_timer *timer)
{
    finish_wait(container_of(timer, struct waiter, timer));
}

/* Answers when it has ended, at the latest after timeout_ns (RT_NEVER: no limit). */
static void wait_for(struct http_exchange *ex, struct process *p, uint64_t timeout_ns)
{
    struct agent *a = http_server_ctx(ex);
    struct rt *rt = &a->loop.rt;
    struct waiter *w;

    if (!process_is_running(p) || timeout_ns == 0) {
        reply_process(ex, 200, p);
        return;
    }
    w = xcalloc(1, sizeof(*w));
    w->agent = a;
    w->ex = ex;
    http_set_ctx(ex, w, on_gone);
    process_watch(p, &w->watch, on_change);
    if (timeout_ns != RT_NEVER)
        rt_timer_set(rt, &w->timer, rt_after(rt_now(rt), timeout_ns), on_timer);
}

static void handle_wait(struct http_exchange *ex)
{
    static const char *const known[] = {"timeout_s", NULL};
    struct process *p = process_of(ex);
    struct json_doc *doc = p != NULL ? agent_read_body(ex) : NULL;
    uint64_t timeout_ns = WAIT_DEFAULT_NS;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = json_only_fields(json_root(doc), known, &err);
    if (r == SP_OK)
        r = agent_field_seconds(json_root(doc), "timeout_s", WAIT_S_MAX, &timeout_ns, &err);
    if (r != SP_OK)
        http_reply_err(ex, &err);
    else
        wait_for(ex, p, timeout_ns);
    (void) json_doc_free(doc);
}

static void handle_delete(struct http_exchange *ex)
{
    struct process *p = process_of(ex);

    if (p == NULL)
        return;
    process_kill(p);
    wait_for(ex, p, RT_NEVER);
}

const struct http_route own_job_routes[] = {
    {HTTP_METHOD_POST, "/v1/agent/jobs", handle_start, 0, 0, "start a job"},
    {HTTP_METHOD_GET, "/v1/agent/jobs", handle_list, 0, 0, "running and kept jobs"},
    {HTTP_METHOD_GET, "/v1/agent/jobs/{job}", handle_get, 0, 0, "one job"},
    {HTTP_METHOD_GET, "/v1/agent/jobs/{job}/output", process_stream_output, 0, 0,
     "its output from an offset, as bytes or events"},
    {HTTP_METHOD_POST, "/v1/agent/jobs/{job}/stdin", handle_stdin, 0, STDIN_BODY_MAX,
     "bytes for its input"},
    {HTTP_METHOD_POST, "/v1/agent/jobs/{job}/resize", handle_resize, 0, 0, "size of its terminal"},
    {HTTP_METHOD_POST, "/v1/agent/jobs/{job}/signal", handle_signal, 0, 0, "a signal to its group"},
    {HTTP_METHOD_POST, "/v1/agent/jobs/{job}/wait", handle_wait, 0, 0, "wait for its end"},
    {HTTP_METHOD_DELETE, "/v1/agent/jobs/{job}", handle_delete, 0, 0,
     "end it with its descendants"},
    {.pattern = NULL},
};
