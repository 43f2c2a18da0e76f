/* api_bash.c - /v1/bash/...: commands with stdout and stderr apart. A command is a process of its
 * own; a request that waits for one holds a watch on it and nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/bash_session.h"
#include "agent/envelope.h"
#include "agent/launch.h"
#include "base/mem.h"
#include "base/str.h"

enum { OUTPUT_DEFAULT = 50000, OUTPUT_MAX = 8 * 1024 * 1024, POLL_MAX = 1024 * 1024 };

/* A request that waits: an exec for the end, an output for anything new. */
struct call {
    struct agent *agent;
    struct http_exchange *ex;
    struct process_watch watch;
    struct rt_timer timer;
    uint64_t max_output;
    uint64_t from[PROCESS_STREAM_COUNT];
    bool is_poll;
    bool is_implicit; /* nobody else knows the session: it goes with its caller */
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
    int r = envelope_need_str(root, "command", LAUNCH_COMMAND_MAX, &f->command, err);

    if (r == SP_OK)
        r = json_field_str(root, "session_id", BASH_ID_MAX, &f->session_id, err);
    if (r == SP_OK)
        r = json_field_str(root, "exec_dir", 1000, &f->exec_dir, err);
    if (r == SP_OK)
        r = json_field_obj(root, "env", &f->env, err);
    if (r == SP_OK)
        r = json_field_bool(root, "async_mode", &f->is_async, err);
    if (r == SP_OK)
        r = envelope_field_seconds(root, "timeout", &f->timeout_ns, err);
    if (r == SP_OK)
        r = envelope_field_seconds(root, "hard_timeout", &f->hard_timeout_ns, err);
    if (r == SP_OK)
        r = json_field_u64(root, "max_output_length", 0, OUTPUT_MAX, &f->max_output, err);
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
    l.request.session = s->id;
    l.request.timeout_ns = f->hard_timeout_ns;
    /* Input can be written only by a caller who learns of the command before it ends. */
    l.request.spawn.want_stdin = f->is_async || f->timeout_ns > 0 || f->session_id != NULL;
    if (exec_dir == NULL && !str_is_empty(s->exec_dir))
        exec_dir = s->exec_dir;
    r = launch_set_cwd(&l, exec_dir, err);
    if (r == SP_OK)
        r = launch_set_env(&l, f->env, err);
    if (r == SP_OK)
        r = process_start(&a->processes, &l.request, ret, err);
    launch_fini(&l);
    if (r == SP_OK)
        s->last_command = (*ret)->id;
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

static void handle_exec(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct exec_fields f = {.max_output = OUTPUT_DEFAULT};
    struct json_doc *doc = envelope_read(ex);
    struct bash_session *s = NULL;
    struct process *p = NULL;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = read_exec(json_root(doc), &f, &err);
    if (r == SP_OK)
        r = pick_session(a, &f, &s, &err);
    if (r == SP_OK)
        r = start_command(a, &f, s, &p, &err);
    if (r != SP_OK) {
        if (s != NULL && f.session_id == NULL)
            bash_session_close(a, s);
        envelope_fail_err(ex, &err);
    } else if (f.is_async) {
        reply_exec(ex, p, f.max_output);
    } else {
        struct call *c = wait_for(ex, p, f.timeout_ns);

        c->max_output = f.max_output;
        c->is_implicit = f.session_id == NULL;
    }
    (void) json_doc_free(doc);
}

/* The session and the command that a body names. */
static int find_command(struct agent *a, const struct json *root, struct bash_session **ret_session,
                        struct process **ret, struct err *err)
{
    const char *session_id;
    const char *command_id = NULL;
    uint64_t id = 0;
    int r = envelope_need_str(root, "session_id", BASH_ID_MAX, &session_id, err);

    if (r == SP_OK)
        r = json_field_str(root, "command_id", 20, &command_id, err);
    if (r != SP_OK)
        return r;
    *ret_session = bash_session_find(a, session_id);
    if (*ret_session == NULL)
        return err_set(err, SP_NOT_FOUND, "Session not found");
    if (command_id != NULL && !str_parse_u64(command_id, 1, UINT64_MAX, &id))
        return err_set(err, SP_NOT_FOUND, "Command not found");
    *ret = bash_session_command(a, *ret_session, id);
    if (*ret == NULL)
        return err_set(err, SP_NOT_FOUND, "Command not found");
    return SP_OK;
}

static void handle_output(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct json_doc *doc = envelope_read(ex);
    const struct json *root;
    struct bash_session *s;
    struct process *p = NULL;
    uint64_t from[PROCESS_STREAM_COUNT] = {0, 0};
    uint64_t wait_ns = 30 * NS_PER_S;
    bool want_wait = false;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    root = json_root(doc);
    r = json_field_u64(root, "offset", 0, INT64_MAX, &from[PROCESS_STDOUT], &err);
    if (r == SP_OK)
        r = json_field_u64(root, "stderr_offset", 0, INT64_MAX, &from[PROCESS_STDERR], &err);
    if (r == SP_OK)
        r = json_field_bool(root, "wait", &want_wait, &err);
    if (r == SP_OK)
        r = envelope_field_seconds(root, "wait_timeout", &wait_ns, &err);
    if (r == SP_OK)
        r = find_command(a, root, &s, &p, &err);
    (void) json_doc_free(doc);
    if (r != SP_OK) {
        envelope_fail_err(ex, &err);
    } else if (want_wait && wait_ns > 0 && !has_news(p, from)) {
        struct call *c = wait_for(ex, p, wait_ns);

        c->is_poll = true;
        memcpy(c->from, from, sizeof(from));
    } else {
        reply_poll(ex, p, from);
    }
}

static void handle_write(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct json_doc *doc = envelope_read(ex);
    const char *input = NULL;
    struct bash_session *s;
    struct process *p = NULL;
    bool want_enter = false;
    bool want_end = false;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = json_field_str(json_root(doc), "input", LAUNCH_COMMAND_MAX, &input, &err);
    if (r == SP_OK)
        r = json_field_bool(json_root(doc), "press_enter", &want_enter, &err);
    if (r == SP_OK)
        r = json_field_bool(json_root(doc), "eof", &want_end, &err);
    if (r == SP_OK)
        r = find_command(a, json_root(doc), &s, &p, &err);
    if (r == SP_OK && input != NULL)
        r = process_write(p, input, strlen(input), &err);
    if (r == SP_OK && want_enter)
        r = process_write(p, "\n", 1, &err);
    if (r == SP_OK && want_end)
        r = process_close_stdin(p, &err);
    if (r == SP_OK)
        envelope_ok_empty(ex, "written");
    else
        envelope_fail_err(ex, &err);
    (void) json_doc_free(doc);
}

static void handle_kill(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct json_doc *doc = envelope_read(ex);
    const char *name = "SIGTERM";
    struct bash_session *s;
    struct process *p = NULL;
    struct json_out o;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = json_field_str(json_root(doc), "signal", 16, &name, &err);
    if (r == SP_OK && process_signal_number(name) == 0)
        r = err_set(&err, SP_INVALID_FIELD, "'signal' is not known");
    if (r == SP_OK)
        r = find_command(a, json_root(doc), &s, &p, &err);
    if (r == SP_OK && process_is_running(p))
        r = process_signal(p, process_signal_number(name), &err);
    (void) json_doc_free(doc);
    if (r != SP_OK) {
        envelope_fail_err(ex, &err);
        return;
    }
    envelope_ok_begin(&o, "signalled");
    json_put_str(&o, "session_id", p->session);
    put_command(&o, p);
    envelope_ok_end(ex, &o);
}

static void put_session(struct json_out *o, struct agent *a, const struct bash_session *s)
{
    const struct process *p = bash_session_command(a, s, 0);
    bool is_active = p != NULL && process_is_running(p);
    const struct rt *rt = &a->loop.rt;
    char at[32];

    json_put_str(o, "session_id", s->id);
    json_put_str(o, "working_dir",
                 str_is_empty(s->exec_dir) ? agent_directory(a, &a->user) : s->exec_dir);
    str_iso8601(at, rt_wall_at(rt, s->created_ns));
    json_put_str(o, "created_at", at);
    str_iso8601(at, rt_wall_at(rt, s->used_ns));
    json_put_str(o, "last_used_at", at);
    json_put_u64(o, "age_seconds", (rt_now(rt) - s->created_ns) / NS_PER_S);
    json_put_str(o, "status", is_active ? "active" : "idle");
    json_put_str(o, "current_command", is_active ? p->command : NULL);
}

static void handle_list(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct list *l = &a->bash_sessions;
    struct json_out o;

    envelope_ok_begin(&o, NULL);
    json_begin_obj(&o, "sessions");
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        const struct bash_session *s = container_of(n, struct bash_session, link);

        json_begin_obj(&o, s->id);
        put_session(&o, a, s);
        json_end(&o);
    }
    json_end(&o);
    envelope_ok_end(ex, &o);
}

static void handle_create(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct json_doc *doc = envelope_read(ex);
    struct bash_session *s = NULL;
    const char *id = NULL;
    const char *exec_dir = NULL;
    struct json_out o;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = json_field_str(json_root(doc), "session_id", BASH_ID_MAX, &id, &err);
    if (r == SP_OK)
        r = json_field_str(json_root(doc), "exec_dir", 1000, &exec_dir, &err);
    if (r == SP_OK && id != NULL)
        s = bash_session_find(a, id);
    if (r == SP_OK && s == NULL)
        r = bash_session_open(a, id, exec_dir, &s, &err);
    (void) json_doc_free(doc);
    if (r != SP_OK) {
        envelope_fail_err(ex, &err);
        return;
    }
    envelope_ok_begin(&o, NULL);
    put_session(&o, a, s);
    envelope_ok_end(ex, &o);
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

const struct http_route agent_bash_routes[] = {
    {HTTP_METHOD_POST, "/v1/bash/exec", handle_exec, 0, 0, "run a command"},
    {HTTP_METHOD_POST, "/v1/bash/output", handle_output, 0, 0, "output from offsets on"},
    {HTTP_METHOD_POST, "/v1/bash/write", handle_write, 0, 0, "input for a command"},
    {HTTP_METHOD_POST, "/v1/bash/kill", handle_kill, 0, 0, "signal a command's group"},
    {HTTP_METHOD_GET, "/v1/bash/sessions", handle_list, 0, 0, "the sessions"},
    {HTTP_METHOD_POST, "/v1/bash/sessions/create", handle_create, 0, 0, "open a session"},
    {HTTP_METHOD_POST, "/v1/bash/sessions/{id}/close", handle_close, 0, 0, "close a session"},
    {.pattern = NULL},
};
