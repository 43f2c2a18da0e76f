/* api_bash.c - /v1/bash/...: commands with separate stdout and stderr. Each command is a process; a
 * request that waits for one holds only a watch on it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/aio/envelope.h"
#include "agent/aio/routes.h"
#include "agent/aio/session_view.h"
#include "agent/process/launch.h"
#include "agent/shell/bash_session.h"
#include "base/mem.h"
#include "base/str.h"

enum { OUTPUT_DEFAULT = 50000, OUTPUT_MAX = 8 * 1024 * 1024, POLL_MAX = 1024 * 1024 };

/* A waiting request: an exec waits for the end, an output request for anything new. */
struct call {
    struct agent *agent;
    struct http_exchange *ex;
    struct process_watch watch;
    struct rt_timer timer;
    uint64_t max_output;
    uint64_t from[PROCESS_STREAM_COUNT];
    bool is_poll;
    bool is_implicit; /* the session was made for this request only, and ends with it */
};

static void call_free(struct call *c)
{
    rt_timer_cancel(&c->agent->loop.rt, &c->timer);
    process_unwatch(&c->watch);
    free(c);
}

static void on_gone(void *ctx)
{
    struct call *c = ctx;

    if (c->is_implicit)
        process_kill(c->watch.process);
    call_free(c);
}

static const char *status_name(const struct process *p)
{
    switch (p->outcome) {
    case PROCESS_RUNNING:
        return "running";
    case PROCESS_TIMED_OUT:
        return "timed_out";
    case PROCESS_KILLED:
        return "killed";
    case PROCESS_EXITED:
    case PROCESS_SIGNALLED:
    case PROCESS_OOM:
    case PROCESS_OUTCOME_COUNT:
        break;
    }
    return "completed";
}

static void put_command(struct json_out *o, const struct process *p)
{
    char id[24];

    (void) snprintf(id, sizeof(id), "%llu", (unsigned long long) p->id);
    json_put_str(o, "command_id", id);
    json_put_str(o, "command", p->command);
    json_put_str(o, "status", status_name(p));
    json_put_str(o, "outcome", process_outcome_name(p->outcome));
    if (process_is_running(p))
        json_put_null(o, "exit_code");
    else
        json_put_i64(o, "exit_code", p->exit_code);
}

static void put_summary(struct json_out *o, const char *key, const struct output *output,
                        uint64_t max)
{
    struct buf text;

    buf_init(&text, 3 * (size_t) max + 256);
    output_summary(output, 0, output->end, (size_t) max, &text);
    json_put_str(o, key, buf_str(&text));
    buf_fini(&text);
}

static void reply_exec(struct http_exchange *ex, const struct process *p, uint64_t max_output)
{
    struct json_out o;

    envelope_ok_begin(&o, process_is_running(p) ? "the command runs" : "the command has ended");
    json_put_str(&o, "session_id", p->session);
    put_command(&o, p);
    put_summary(&o, "stdout", &p->streams[PROCESS_STDOUT].output, max_output);
    put_summary(&o, "stderr", &p->streams[PROCESS_STDERR].output, max_output);
    json_put_u64(&o, "offset", p->streams[PROCESS_STDOUT].output.end);
    json_put_u64(&o, "stderr_offset", p->streams[PROCESS_STDERR].output.end);
    envelope_ok_end(ex, &o);
}

static uint64_t put_part(struct json_out *o, const char *key, const struct process *p,
                         unsigned stream, uint64_t from)
{
    struct buf text;

    buf_init(&text, 3 * (size_t) POLL_MAX + 256);
    from = output_text(&p->streams[stream].output, from, POLL_MAX, process_is_running(p), &text);
    json_put_str(o, key, buf_str(&text));
    buf_fini(&text);
    return from;
}

static void reply_poll(struct http_exchange *ex, const struct process *p, const uint64_t *from)
{
    struct json_out o;
    uint64_t out_end;
    uint64_t err_end;

    envelope_ok_begin(&o, NULL);
    json_put_str(&o, "session_id", p->session);
    out_end = put_part(&o, "stdout", p, PROCESS_STDOUT, from[PROCESS_STDOUT]);
    err_end = put_part(&o, "stderr", p, PROCESS_STDERR, from[PROCESS_STDERR]);
    json_put_u64(&o, "offset", out_end);
    json_put_u64(&o, "stderr_offset", err_end);
    json_begin_obj(&o, "command");
    put_command(&o, p);
    json_end(&o);
    envelope_ok_end(ex, &o);
}

static void finish_call(struct call *c)
{
    const struct process *p = c->watch.process;

    if (c->is_poll)
        reply_poll(c->ex, p, c->from);
    else
        reply_exec(c->ex, p, c->max_output);
    call_free(c);
}

static bool has_news(const struct process *p, const uint64_t *from)
{
    return !process_is_running(p) || p->streams[PROCESS_STDOUT].output.end > from[PROCESS_STDOUT] ||
           p->streams[PROCESS_STDERR].output.end > from[PROCESS_STDERR];
}

static void on_change(struct process_watch *w)
{
    struct call *c = container_of(w, struct call, watch);

    if (c->is_poll ? has_news(w->process, c->from) : !process_is_running(w->process))
        finish_call(c);
}

static void on_timer(struct rt_timer *timer)
{
    finish_call(container_of(timer, struct call, timer));
}

static struct call *wait_for(struct http_exchange *ex, struct process *p, uint64_t timeout_ns)
{
    struct call *c = xcalloc(1, sizeof(*c));
    struct rt *rt;

    c->agent = http_server_ctx(ex);
    c->ex = ex;
    rt = &c->agent->loop.rt;
    http_set_ctx(ex, c, on_gone);
    process_watch(p, &c->watch, on_change);
    if (timeout_ns > 0)
        rt_timer_set(rt, &c->timer, rt_after(rt_now(rt), timeout_ns), on_timer);
    return c;
}

struct exec_fields {
    const char *command;
    const char *session_id;
    const char *exec_dir;
    const struct json *env;
    bool is_async;
    uint64_t timeout_ns;
    uint64_t hard_timeout_ns;
    uint64_t max_output;
};

static int read_exec(const struct json *root, struct exec_fields *f, struct err *err)
{
    const struct envelope_field fields[] = {
        {"command", .text = &f->command, .max = LAUNCH_COMMAND_MAX, .is_needed = true},
        {"session_id", .text = &f->session_id, .max = SESSION_ID_MAX},
        {"exec_dir", .text = &f->exec_dir, .max = 1000},
        {"env", .object = &f->env},
        {"async_mode", .flag = &f->is_async},
        {"timeout", .seconds_ns = &f->timeout_ns},
        {"hard_timeout", .seconds_ns = &f->hard_timeout_ns},
        {"max_output_length", .number = &f->max_output, .max = OUTPUT_MAX},
        {.key = NULL},
    };

    int r = envelope_fields(root, fields, err);

    if (r == SP_OK && f->max_output == 0)
        f->max_output = OUTPUT_MAX; /* 0 means all of it */
    return r;
}

static int start_command(struct agent *a, const struct exec_fields *f, struct bash_session *s,
                         struct process **ret, struct err *err)
{
    const char *exec_dir = f->exec_dir;
    struct launch l;
    int r;

    launch_init(&l, a);
    launch_set_shell(&l, f->command);
    l.request.session = s->session.id;
    l.request.timeout_ns = f->hard_timeout_ns;
    /* Input can be written only when the caller receives the command's id before it ends. */
    l.request.spawn.want_stdin = f->is_async || f->timeout_ns > 0 || f->session_id != NULL;
    if (exec_dir == NULL && !str_is_empty(s->exec_dir))
        exec_dir = s->exec_dir;
    r = launch_set_cwd(&l, exec_dir, err);
    if (r == SP_OK)
        r = launch_set_env(&l, f->env, err);
    if (r == SP_OK)
        r = process_start(a->processes, &l.request, ret, err);
    launch_fini(&l);
    if (r == SP_OK) {
        s->last_command = (*ret)->id;
        s->command_count++;
    }
    return r;
}

/* The session that is named, or a new one. */
static int pick_session(struct agent *a, const struct exec_fields *f, struct bash_session **ret,
                        struct err *err)
{
    if (f->session_id == NULL)
        return bash_session_open(a, NULL, NULL, ret, err);
    *ret = bash_session_find(a, f->session_id);
    return *ret != NULL ? SP_OK : err_set(err, SP_NOT_FOUND, "Session not found");
}

static int run_exec(struct http_exchange *ex, const struct json *root, struct err *err)
{
    struct agent *a = http_server_ctx(ex);
    struct exec_fields f = {.max_output = OUTPUT_DEFAULT};
    struct bash_session *s = NULL;
    struct process *p = NULL;
    int r = read_exec(root, &f, err);

    if (r == SP_OK)
        r = pick_session(a, &f, &s, err);
    if (r == SP_OK)
        r = start_command(a, &f, s, &p, err);
    if (r != SP_OK) {
        if (s != NULL && f.session_id == NULL)
            bash_session_close(a, s);
    } else if (f.is_async) {
        reply_exec(ex, p, f.max_output);
    } else {
        struct call *c = wait_for(ex, p, f.timeout_ns);

        c->max_output = f.max_output;
        c->is_implicit = f.session_id == NULL;
    }
    return r;
}

static void handle_exec(struct http_exchange *ex)
{
    envelope_call(ex, run_exec);
}

/* The session and the command that a body names. */
static int find_command(struct agent *a, const struct json *root, struct process **ret,
                        struct err *err)
{
    const char *session_id;
    const char *command_id = NULL;
    const struct bash_session *s;
    uint64_t id = 0;
    const struct envelope_field fields[] = {
        {"session_id", .text = &session_id, .max = SESSION_ID_MAX, .is_needed = true},
        {"command_id", .text = &command_id, .max = 20},
        {.key = NULL},
    };
    int r = envelope_fields(root, fields, err);

    if (r != SP_OK)
        return r;
    s = bash_session_find(a, session_id);
    if (s == NULL)
        return err_set(err, SP_NOT_FOUND, "Session not found");
    if (command_id != NULL && !str_parse_u64(command_id, 1, UINT64_MAX, &id))
        return err_set(err, SP_NOT_FOUND, "Command not found");
    *ret = bash_session_command(a, s, id);
    return *ret != NULL ? SP_OK : err_set(err, SP_NOT_FOUND, "Command not found");
}

static int run_output(struct http_exchange *ex, const struct json *root, struct err *err)
{
    struct process *p = NULL;
    uint64_t from[PROCESS_STREAM_COUNT] = {0, 0};
    uint64_t wait_ns = 30 * NS_PER_S;
    bool want_wait = false;
    const struct envelope_field fields[] = {
        {"offset", .number = &from[PROCESS_STDOUT], .max = INT64_MAX},
        {"stderr_offset", .number = &from[PROCESS_STDERR], .max = INT64_MAX},
        {"wait", .flag = &want_wait},
        {"wait_timeout", .seconds_ns = &wait_ns},
        {.key = NULL},
    };
    int r = envelope_fields(root, fields, err);

    if (r == SP_OK)
        r = find_command(http_server_ctx(ex), root, &p, err);
    if (r != SP_OK)
        return r;
    if (want_wait && wait_ns > 0 && !has_news(p, from)) {
        struct call *c = wait_for(ex, p, wait_ns);

        c->is_poll = true;
        memcpy(c->from, from, sizeof(from));
    } else {
        reply_poll(ex, p, from);
    }
    return SP_OK;
}

static void handle_output(struct http_exchange *ex)
{
    envelope_call(ex, run_output);
}

static int run_write(struct http_exchange *ex, const struct json *root, struct err *err)
{
    const char *input = NULL;
    struct process *p = NULL;
    bool want_enter = false;
    bool want_end = false;
    const struct envelope_field fields[] = {
        {"input", .text = &input, .max = LAUNCH_COMMAND_MAX},
        {"press_enter", .flag = &want_enter},
        {"eof", .flag = &want_end},
        {.key = NULL},
    };
    int r = envelope_fields(root, fields, err);

    if (r == SP_OK)
        r = find_command(http_server_ctx(ex), root, &p, err);
    if (r == SP_OK && input != NULL)
        r = process_write(p, input, strlen(input), err);
    if (r == SP_OK && want_enter)
        r = process_write(p, "\n", 1, err);
    if (r == SP_OK && want_end)
        r = process_close_stdin(p, err);
    if (r == SP_OK)
        envelope_ok_empty(ex, "written");
    return r;
}

static void handle_write(struct http_exchange *ex)
{
    envelope_call(ex, run_write);
}

static int run_kill(struct http_exchange *ex, const struct json *root, struct err *err)
{
    int signum = SIGTERM;
    struct process *p = NULL;
    struct json_out o;
    int r = process_signal_field(root, &signum, err);

    if (r == SP_OK)
        r = find_command(http_server_ctx(ex), root, &p, err);
    if (r == SP_OK && process_is_running(p))
        r = process_signal(p, signum, err);
    if (r != SP_OK)
        return r;
    envelope_ok_begin(&o, "signalled");
    json_put_str(&o, "session_id", p->session);
    put_command(&o, p);
    envelope_ok_end(ex, &o);
    return SP_OK;
}

static void handle_kill(struct http_exchange *ex)
{
    envelope_call(ex, run_kill);
}

static void put_session(struct json_out *o, struct agent *a, const struct bash_session *s)
{
    const struct process *p = bash_session_command(a, s, 0);

    aio_put_session(o, &s->session, &a->loop.rt,
                    str_is_empty(s->exec_dir) ? agent_directory(a, &a->user) : s->exec_dir,
                    p != NULL && process_is_running(p) ? p->command : NULL);
    json_put_str(o, "status", "ready"); /* a closed session is not in the table any more */
    json_put_u64(o, "command_count", s->command_count);
}

static void handle_list(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct list *l = &a->bash_sessions;
    struct json_out o;

    envelope_ok_begin_list(&o, NULL);
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        const struct bash_session *s = container_of(n, struct bash_session, session.link);

        json_begin_obj(&o, NULL);
        put_session(&o, a, s);
        json_end(&o);
    }
    envelope_ok_end(ex, &o);
}

static int run_create(struct http_exchange *ex, const struct json *root, struct err *err)
{
    struct agent *a = http_server_ctx(ex);
    struct bash_session *s = NULL;
    const char *id = NULL;
    const char *exec_dir = NULL;
    const struct envelope_field fields[] = {
        {"session_id", .text = &id, .max = SESSION_ID_MAX},
        {"exec_dir", .text = &exec_dir, .max = 1000},
        {.key = NULL},
    };
    struct json_out o;
    int r = envelope_fields(root, fields, err);

    if (r == SP_OK && id != NULL)
        s = bash_session_find(a, id);
    if (r == SP_OK && s == NULL)
        r = bash_session_open(a, id, exec_dir, &s, err);
    if (r != SP_OK)
        return r;
    envelope_ok_begin(&o, NULL);
    put_session(&o, a, s);
    envelope_ok_end(ex, &o);
    return SP_OK;
}

static void handle_create(struct http_exchange *ex)
{
    envelope_call(ex, run_create);
}

static void handle_close(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct bash_session *s = bash_session_find(a, http_path_param(ex, "id"));

    if (s == NULL) {
        envelope_fail(ex, 404, "Session not found");
        return;
    }
    bash_session_close(a, s);
    envelope_ok_empty(ex, "closed");
}

const struct http_route aio_bash_routes[] = {
    {HTTP_METHOD_POST, "/v1/bash/exec", handle_exec, 0, 0, "run a command"},
    {HTTP_METHOD_POST, "/v1/bash/output", handle_output, 0, 0, "output from offsets on"},
    {HTTP_METHOD_POST, "/v1/bash/write", handle_write, 0, 0, "input for a command"},
    {HTTP_METHOD_POST, "/v1/bash/kill", handle_kill, 0, 0, "signal a command's group"},
    {HTTP_METHOD_GET, "/v1/bash/sessions", handle_list, 0, 0, "the sessions"},
    {HTTP_METHOD_POST, "/v1/bash/sessions/create", handle_create, 0, 0, "open a session"},
    {HTTP_METHOD_POST, "/v1/bash/sessions/{id}/close", handle_close, 0, 0, "close a session"},
    {.pattern = NULL},
};
