/* api_shell.c - /v1/shell/...: commands in shells that stay open between requests. A waiting
 * request holds a watch on its session. Its timeouts end the waiting; only the hard timeout ends
 * the command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/aio/envelope.h"
#include "agent/aio/routes.h"
#include "agent/process/launch.h"
#include "agent/shell/dir.h"
#include "agent/shell/shell_session.h"
#include "base/mem.h"
#include "base/str.h"

enum { TRUNCATED_MAX = 30000, WHOLE_MAX = 8 * 1024 * 1024 };
static const char default_id[] = "default";

enum call_kind { CALL_EXEC, CALL_WAIT, CALL_KILL, CALL_KIND_COUNT };

struct call {
    enum call_kind kind;
    struct agent *agent;
    struct http_exchange *ex;
    struct shell_watch watch;
    struct rt_timer timeout;
    struct rt_timer no_change;
    uint64_t no_change_ns;
    uint64_t seen; /* end of the output when it last changed */
    uint64_t sent; /* events: output already sent to the client */
    size_t max_output;
    bool is_events;
    bool is_full; /* the reader of the events is slow: it gets the start and the end of what it
                   * missed */
};

static void call_free(struct call *c)
{
    rt_timer_cancel(&c->agent->loop.rt, &c->timeout);
    rt_timer_cancel(&c->agent->loop.rt, &c->no_change);
    shell_unwatch(&c->watch);
    free(c);
}

static void on_gone(void *ctx)
{
    call_free(ctx);
}

static void put_console(struct json_out *o, const struct shell_session *s, const char *text)
{
    char ps1[1100];

    (void) snprintf(ps1, sizeof(ps1), "%s $", s->cwd);
    json_begin_arr(o, "console");
    json_begin_obj(o, NULL);
    json_put_str(o, "ps1", ps1);
    json_put_str(o, "command", s->command != NULL ? s->command : "");
    json_put_str(o, "output", text);
    json_end(o);
    json_end(o);
}

static void put_result(struct json_out *o, const struct shell_session *s, const char *status,
                       size_t max_output)
{
    struct buf text;

    buf_init(&text, 3 * (size_t) WHOLE_MAX + 256);
    shell_session_text(s, s->from, max_output, &text);
    json_put_str(o, "session_id", s->session.id);
    json_put_str(o, "command", s->command != NULL ? s->command : "");
    json_put_str(o, "status", status);
    json_put_str(o, "output", buf_str(&text));
    put_console(o, s, buf_str(&text));
    if (s->status == SHELL_RUNNING || s->status == SHELL_IDLE)
        json_put_null(o, "exit_code");
    else
        json_put_i64(o, "exit_code", s->exit_code);
    buf_fini(&text);
}

static void put_ended(struct json_out *o, const struct shell_session *s, const char *status)
{
    json_put_str(o, "session_id", s->session.id);
    json_put_str(o, "status", status);
    if (s->status == SHELL_RUNNING || s->status == SHELL_IDLE) {
        json_put_null(o, "exit_code");
        json_put_null(o, "returncode");
    } else {
        json_put_i64(o, "exit_code", s->exit_code);
        json_put_i64(o, "returncode", s->exit_code);
    }
}

static void write_event(struct call *c, const char *name, struct json_out *o)
{
    struct buf text;

    buf_init(&text, 8 * (size_t) WHOLE_MAX);
    buf_printf(&text, "event: %s\ndata: ", name);
    json_out_finish(o, &text);
    buf_puts(&text, "\n\n");
    if (http_write(c->ex, buf_str(&text), text.len) > HTTP_HIGH_WATER)
        c->is_full = true;
    buf_fini(&text);
}

/* Sends new output as an event; no more than the reader accepts. */
static void write_output(struct call *c)
{
    const struct shell_session *s = c->watch.session;
    uint64_t end = shell_session_end(s);
    struct json_out o;
    struct buf text;

    if (!c->is_events || c->is_full || end <= c->sent)
        return;
    buf_init(&text, 3 * (size_t) WHOLE_MAX + 256);
    shell_session_text(s, c->sent, TRUNCATED_MAX, &text);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "session_id", s->session.id);
    json_put_str(&o, "output", buf_str(&text));
    json_end(&o);
    write_event(c, "output", &o);
    c->sent = end;
    buf_fini(&text);
}

static void on_drain(struct http_exchange *ex)
{
    struct call *c = http_ctx(ex);

    c->is_full = false;
    write_output(c);
}

static void finish(struct call *c, const char *status)
{
    const struct shell_session *s = c->watch.session;
    struct json_out o;

    c->is_full = false; /* the last output is bounded */
    write_output(c);
    envelope_ok_begin(&o, NULL);
    if (c->kind == CALL_EXEC)
        put_result(&o, s, status, c->max_output);
    else
        put_ended(&o, s, status);
    if (c->is_events) {
        envelope_ok_close(&o);
        write_event(c, "result", &o);
        http_end(c->ex);
    } else {
        envelope_ok_end(c->ex, &o);
    }
    call_free(c);
}

static void on_timeout(struct rt_timer *timer)
{
    finish(container_of(timer, struct call, timeout), "running");
}

static void on_no_change(struct rt_timer *timer)
{
    finish(container_of(timer, struct call, no_change), "no_change_timeout");
}

static void arm_no_change(struct call *c)
{
    struct rt *rt = &c->agent->loop.rt;

    if (c->no_change_ns > 0)
        rt_timer_set(rt, &c->no_change, rt_after(rt_now(rt), c->no_change_ns), on_no_change);
}

static void on_change(struct shell_watch *w)
{
    struct call *c = container_of(w, struct call, watch);
    uint64_t end = shell_session_end(w->session);

    if (w->session->status != SHELL_RUNNING) {
        finish(c, shell_status_name(w->session->status));
        return;
    }
    if (end == c->seen)
        return;
    c->seen = end;
    arm_no_change(c);
    write_output(c);
}

static struct call *wait_for(struct http_exchange *ex, struct shell_session *s, enum call_kind kind,
                             uint64_t timeout_ns)
{
    struct call *c = xcalloc(1, sizeof(*c));
    struct rt *rt;

    c->kind = kind;
    c->agent = http_server_ctx(ex);
    c->ex = ex;
    c->seen = s->from;
    c->sent = s->from;
    rt = &c->agent->loop.rt;
    http_set_ctx(ex, c, on_gone);
    shell_watch(s, &c->watch, on_change);
    if (timeout_ns > 0)
        rt_timer_set(rt, &c->timeout, rt_after(rt_now(rt), timeout_ns), on_timeout);
    return c;
}

struct exec_fields {
    const char *command;
    const char *id;
    const char *exec_dir;
    bool is_async;
    bool want_truncate;
    bool want_strict;
    bool keep_links;
    uint64_t timeout_ns;
    uint64_t no_change_ns;
    uint64_t hard_timeout_ns;
};

static int read_exec(const struct json *root, struct exec_fields *f, struct err *err)
{
    const struct envelope_field fields[] = {
        {"command", .text = &f->command, .max = LAUNCH_COMMAND_MAX, .is_needed = true},
        {"id", .text = &f->id, .max = SESSION_ID_MAX},
        {"exec_dir", .text = &f->exec_dir, .max = 1000},
        {"async_mode", .flag = &f->is_async},
        {"truncate", .flag = &f->want_truncate},
        {"strict", .flag = &f->want_strict},
        {"preserve_symlinks", .flag = &f->keep_links},
        {"timeout", .seconds_ns = &f->timeout_ns},
        {"no_change_timeout", .seconds_ns = &f->no_change_ns},
        {"hard_timeout", .seconds_ns = &f->hard_timeout_ns},
        {.key = NULL},
    };

    f->want_truncate = true;
    f->want_strict = true;
    return envelope_fields(root, fields, err);
}

/* The session that is named; without a name the default one, or a new one while that is busy. */
static int pick_session(struct agent *a, const char *id, struct shell_session **ret,
                        struct err *err)
{
    *ret = shell_session_find(a, id != NULL ? id : default_id);
    if (id != NULL)
        return *ret != NULL ? SP_OK : err_set(err, SP_NOT_FOUND, "Session not found");
    if (*ret == NULL)
        return shell_session_open(a, default_id, NULL, ret, err);
    if ((*ret)->status == SHELL_RUNNING)
        return shell_session_open(a, NULL, NULL, ret, err);
    return SP_OK;
}

static void start_waiting(struct http_exchange *ex, struct shell_session *s,
                          const struct exec_fields *f)
{
    const char *accept = http_header(ex, "accept");
    struct call *c = wait_for(ex, s, CALL_EXEC, f->timeout_ns);

    c->max_output = f->want_truncate ? TRUNCATED_MAX : WHOLE_MAX;
    c->no_change_ns = f->no_change_ns > 0 ? f->no_change_ns : s->no_change_ns;
    arm_no_change(c);
    if (accept == NULL || strstr(accept, "text/event-stream") == NULL)
        return;
    c->is_events = true;
    http_set_drain(ex, on_drain);
    http_add_header(ex, "Cache-Control", "no-cache");
    http_begin(ex, 200, "text/event-stream");
}

static int run_exec(struct http_exchange *ex, const struct json *root, struct err *err)
{
    struct exec_fields f = {0};
    struct shell_session *s = NULL;
    struct json_out o;
    char dir[SHELL_DIR_MAX];
    int r = read_exec(root, &f, err);

    if (r == SP_OK && f.exec_dir != NULL) {
        r = shell_dir_pick(http_server_ctx(ex), f.exec_dir, f.keep_links, dir, err);
        f.exec_dir = r == SP_OK ? dir : NULL;
        r = f.want_strict ? r : SP_OK; /* otherwise the directory of the session */
    }
    if (r == SP_OK)
        r = pick_session(http_server_ctx(ex), f.id, &s, err);
    if (r == SP_OK)
        r = shell_session_run(s, f.command, f.exec_dir, f.hard_timeout_ns, err);
    if (r == SP_OK && f.is_async) {
        envelope_ok_begin(&o, NULL);
        put_result(&o, s, "running", TRUNCATED_MAX);
        envelope_ok_end(ex, &o);
    } else if (r == SP_OK) {
        start_waiting(ex, s, &f);
    }
    return r;
}

static void handle_exec(struct http_exchange *ex)
{
    envelope_call(ex, run_exec);
}

/* The session that the body names. */
static int find_session(struct http_exchange *ex, const struct json *root,
                        struct shell_session **ret, struct err *err)
{
    const char *id;
    int r = envelope_need_str(root, "id", SESSION_ID_MAX, &id, err);

    if (r != SP_OK)
        return r;
    *ret = shell_session_find(http_server_ctx(ex), id);
    return *ret != NULL ? SP_OK : err_set(err, SP_NOT_FOUND, "Session not found");
}

static int run_view(struct http_exchange *ex, const struct json *root, struct err *err)
{
    struct shell_session *s;
    struct json_out o;
    int r = find_session(ex, root, &s, err);

    if (r != SP_OK)
        return r;
    envelope_ok_begin(&o, NULL);
    put_result(&o, s, shell_status_name(s->status), WHOLE_MAX);
    envelope_ok_end(ex, &o);
    return SP_OK;
}

static void handle_view(struct http_exchange *ex)
{
    envelope_call(ex, run_view);
}

static void reply_ended(struct http_exchange *ex, const struct shell_session *s)
{
    struct json_out o;

    envelope_ok_begin(&o, NULL);
    put_ended(&o, s, shell_status_name(s->status));
    envelope_ok_end(ex, &o);
}

static int run_wait(struct http_exchange *ex, const struct json *root, struct err *err)
{
    uint64_t wait_ns = 30 * NS_PER_S;
    const struct envelope_field fields[] = {
        {"max_wait_seconds", .seconds_ns = &wait_ns},
        {"seconds", .seconds_ns = &wait_ns},
        {.key = NULL},
    };
    struct shell_session *s;
    int r = find_session(ex, root, &s, err);

    if (r == SP_OK)
        r = envelope_fields(root, fields, err);
    if (r != SP_OK)
        return r;
    if (s->status != SHELL_RUNNING || wait_ns == 0)
        reply_ended(ex, s);
    else
        (void) wait_for(ex, s, CALL_WAIT, wait_ns);
    return SP_OK;
}

static void handle_wait(struct http_exchange *ex)
{
    envelope_call(ex, run_wait);
}

static int run_write(struct http_exchange *ex, const struct json *root, struct err *err)
{
    const char *input = "";
    bool want_enter = false;
    const struct envelope_field fields[] = {
        {"input", .text = &input, .max = LAUNCH_COMMAND_MAX},
        {"press_enter", .flag = &want_enter},
        {.key = NULL},
    };
    struct shell_session *s;
    int r = find_session(ex, root, &s, err);

    if (r == SP_OK)
        r = envelope_fields(root, fields, err);
    if (r == SP_OK)
        r = shell_session_write(s, input, strlen(input), err);
    if (r == SP_OK && want_enter)
        r = shell_session_write(s, "\n", 1, err);
    if (r == SP_OK)
        reply_ended(ex, s);
    return r;
}

static void handle_write(struct http_exchange *ex)
{
    envelope_call(ex, run_write);
}

static int run_kill(struct http_exchange *ex, const struct json *root, struct err *err)
{
    struct shell_session *s;
    int r = find_session(ex, root, &s, err);

    if (r != SP_OK)
        return r;
    if (s->status != SHELL_RUNNING) {
        reply_ended(ex, s);
        return SP_OK;
    }
    shell_session_kill(s);
    (void) wait_for(ex, s, CALL_KILL, 0);
    return SP_OK;
}

static void handle_kill(struct http_exchange *ex)
{
    envelope_call(ex, run_kill);
}

static void handle_terminal(struct http_exchange *ex)
{
    envelope_fail(ex, 501, "there is no terminal for browsers: start a process with a pty");
}

const struct http_route aio_shell_routes[] = {
    {HTTP_METHOD_GET, "/v1/shell/terminal-url", handle_terminal, 0, 0, "not here"},
    {HTTP_METHOD_POST, "/v1/shell/exec", handle_exec, 0, 0, "run a command in a session"},
    {HTTP_METHOD_POST, "/v1/shell/view", handle_view, 0, 0, "the last command and its output"},
    {HTTP_METHOD_POST, "/v1/shell/wait", handle_wait, 0, 0, "wait for the command's end"},
    {HTTP_METHOD_POST, "/v1/shell/write", handle_write, 0, 0, "input for the terminal"},
    {HTTP_METHOD_POST, "/v1/shell/kill", handle_kill, 0, 0, "kill the command"},
    {.pattern = NULL},
};
