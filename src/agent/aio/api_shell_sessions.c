/* api_shell_sessions.c - /v1/shell/sessions: opens, shows and closes shell sessions. */
#include <stdio.h>

#include "agent/aio/envelope.h"
#include "agent/aio/routes.h"
#include "agent/aio/session_view.h"
#include "agent/shell/dir.h"
#include "agent/shell/shell_session.h"
#include "base/str.h"

static void put_session(struct json_out *o, const struct shell_session *s)
{
    aio_put_session(o, &s->session, &s->agent->loop.rt, s->cwd,
                    s->status == SHELL_RUNNING ? s->command : NULL);
    json_put_str(o, "status", s->status == SHELL_RUNNING ? "active" : "idle");
}

static void handle_list(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    const struct list *l = &a->shell_sessions;
    struct json_out o;

    envelope_ok_begin(&o, NULL);
    json_begin_obj(&o, "sessions");
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        const struct shell_session *s = container_of(n, struct shell_session, session.link);

        json_begin_obj(&o, s->session.id);
        put_session(&o, s);
        json_end(&o);
    }
    json_end(&o);
    envelope_ok_end(ex, &o);
}

static void handle_stats(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    const struct list *l = &a->shell_sessions;
    size_t active = 0;
    struct json_out o;

    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n))
        active += container_of(n, struct shell_session, session.link)->status == SHELL_RUNNING;
    envelope_ok_begin(&o, NULL);
    json_put_u64(&o, "total_sessions", l->len);
    json_put_u64(&o, "active_sessions", active);
    json_put_u64(&o, "idle_sessions", l->len - active);
    json_put_u64(&o, "max_sessions", a->shell_sessions_max);
    json_put_u64(&o, "session_timeout", 0); /* they stay */
    json_put_num(&o, "usage_ratio", (double) l->len / (double) a->shell_sessions_max);
    envelope_ok_end(ex, &o);
}

static void reply_session(struct http_exchange *ex, const struct shell_session *s)
{
    struct json_out o;

    envelope_ok_begin(&o, NULL);
    put_session(&o, s);
    envelope_ok_end(ex, &o);
}

static int run_create(struct http_exchange *ex, const struct json *root, struct err *err)
{
    struct agent *a = http_server_ctx(ex);
    struct shell_session *s = NULL;
    const char *id = NULL;
    const char *exec_dir = NULL;
    uint64_t no_change_ns = 0;
    bool keep_links = false;
    char dir[SHELL_DIR_MAX];
    const struct envelope_field fields[] = {
        {"id", .text = &id, .max = SESSION_ID_MAX},
        {"exec_dir", .text = &exec_dir, .max = 1000},
        {"no_change_timeout", .seconds_ns = &no_change_ns},
        {"preserve_symlinks", .flag = &keep_links},
        {.key = NULL},
    };
    int r = envelope_fields(root, fields, err);

    if (r == SP_OK && id != NULL)
        s = shell_session_find(a, id);
    if (r == SP_OK && s == NULL && exec_dir != NULL)
        r = shell_dir_pick(a, exec_dir, keep_links, dir, err);
    if (r == SP_OK && s == NULL) {
        r = shell_session_open(a, id, exec_dir != NULL ? dir : NULL, &s, err);
        if (r == SP_OK) {
            s->no_change_ns = no_change_ns;
            s->keep_links = keep_links;
        }
    }
    if (r == SP_OK)
        reply_session(ex, s);
    return r;
}

static void handle_create(struct http_exchange *ex)
{
    envelope_call(ex, run_create);
}

static int run_update(struct http_exchange *ex, const struct json *root, struct err *err)
{
    struct shell_session *s;
    const char *id;
    int r = envelope_need_str(root, "id", SESSION_ID_MAX, &id, err);

    if (r != SP_OK)
        return r;
    s = shell_session_find(http_server_ctx(ex), id);
    if (s == NULL)
        return err_set(err, SP_NOT_FOUND, "Session not found");
    r = envelope_field_seconds(root, "no_change_timeout", &s->no_change_ns, err);
    if (r == SP_OK)
        reply_session(ex, s);
    return r;
}

static void handle_update(struct http_exchange *ex)
{
    envelope_call(ex, run_update);
}

static void handle_delete(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct shell_session *s = shell_session_find(a, http_path_param(ex, "id"));

    if (s == NULL) {
        envelope_fail(ex, 404, "Session not found");
        return;
    }
    shell_session_remove(s);
    envelope_ok_empty(ex, "closed");
}

static void handle_delete_all(struct http_exchange *ex)
{
    shell_sessions_free(http_server_ctx(ex));
    envelope_ok_empty(ex, "closed");
}

const struct http_route aio_shell_session_routes[] = {
    {HTTP_METHOD_GET, "/v1/shell/sessions", handle_list, 0, 0, "the sessions"},
    {HTTP_METHOD_GET, "/v1/shell/sessions/stats", handle_stats, 0, 0, "how many there are"},
    {HTTP_METHOD_POST, "/v1/shell/sessions/create", handle_create, 0, 0, "open a session"},
    {HTTP_METHOD_POST, "/v1/shell/sessions/update", handle_update, 0, 0, "change a session"},
    {HTTP_METHOD_DELETE, "/v1/shell/sessions/{id}", handle_delete, 0, 0, "close a session"},
    {HTTP_METHOD_DELETE, "/v1/shell/sessions", handle_delete_all, 0, 0, "close all sessions"},
    {.pattern = NULL},
};
