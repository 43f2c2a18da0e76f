/* api_shell_sessions.c - /v1/shell/sessions: opening, showing and closing living shells. */
#include <stdio.h>

#include "agent/envelope.h"
#include "agent/shell_session.h"
#include "base/str.h"

static void put_session(struct json_out *o, const struct shell_session *s)
{
    const struct rt *rt = &s->agent->loop.rt;
    bool is_active = s->status == SHELL_RUNNING;
    char at[32];

    json_put_str(o, "session_id", s->id);
    json_put_str(o, "working_dir", s->cwd);
    str_iso8601(at, rt_wall_at(rt, s->created_ns));
    json_put_str(o, "created_at", at);
    str_iso8601(at, rt_wall_at(rt, s->used_ns));
    json_put_str(o, "last_used_at", at);
    json_put_u64(o, "age_seconds", (rt_now(rt) - s->created_ns) / NS_PER_S);
    json_put_str(o, "status", is_active ? "active" : "idle");
    json_put_str(o, "current_command", is_active ? s->command : NULL);
}

static void handle_list(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    const struct list *l = &a->shell_sessions;
    struct json_out o;

    envelope_ok_begin(&o, NULL);
    json_begin_obj(&o, "sessions");
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        const struct shell_session *s = container_of(n, struct shell_session, link);

        json_begin_obj(&o, s->id);
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
        active += container_of(n, struct shell_session, link)->status == SHELL_RUNNING;
    envelope_ok_begin(&o, NULL);
    json_put_u64(&o, "total_sessions", l->len);
    json_put_u64(&o, "active_sessions", active);
    json_put_u64(&o, "idle_sessions", l->len - active);
    json_put_u64(&o, "max_sessions", a->shell_sessions_max);
    json_put_null(&o, "session_timeout");
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

static void handle_create(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct json_doc *doc = envelope_read(ex);
    struct shell_session *s = NULL;
    const char *id = NULL;
    const char *exec_dir = NULL;
    uint64_t no_change_ns = 0;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = json_field_str(json_root(doc), "id", SHELL_ID_MAX, &id, &err);
    if (r == SP_OK)
        r = json_field_str(json_root(doc), "exec_dir", 1000, &exec_dir, &err);
    if (r == SP_OK)
        r = envelope_field_seconds(json_root(doc), "no_change_timeout", &no_change_ns, &err);
    if (r == SP_OK && id != NULL)
        s = shell_session_find(a, id);
    if (r == SP_OK && s == NULL) {
        r = shell_session_open(a, id, exec_dir, &s, &err);
        if (r == SP_OK)
            s->no_change_ns = no_change_ns;
    }
    (void) json_doc_free(doc);
    if (r == SP_OK)
        reply_session(ex, s);
    else
        envelope_fail_err(ex, &err);
}

static void handle_update(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct json_doc *doc = envelope_read(ex);
    struct shell_session *s = NULL;
    const char *id = NULL;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = envelope_need_str(json_root(doc), "id", SHELL_ID_MAX, &id, &err);
    if (r == SP_OK) {
        s = shell_session_find(a, id);
        if (s == NULL)
            r = err_set(&err, SP_NOT_FOUND, "Session not found");
    }
    if (r == SP_OK)
        r = envelope_field_seconds(json_root(doc), "no_change_timeout", &s->no_change_ns, &err);
    (void) json_doc_free(doc);
    if (r == SP_OK)
        reply_session(ex, s);
    else
        envelope_fail_err(ex, &err);
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

const struct http_route agent_shell_session_routes[] = {
    {HTTP_METHOD_GET, "/v1/shell/sessions", handle_list, 0, 0, "the sessions"},
    {HTTP_METHOD_GET, "/v1/shell/sessions/stats", handle_stats, 0, 0, "how many there are"},
    {HTTP_METHOD_POST, "/v1/shell/sessions/create", handle_create, 0, 0, "open a session"},
    {HTTP_METHOD_POST, "/v1/shell/sessions/update", handle_update, 0, 0, "change a session"},
    {HTTP_METHOD_DELETE, "/v1/shell/sessions/{id}", handle_delete, 0, 0, "close a session"},
    {HTTP_METHOD_DELETE, "/v1/shell/sessions", handle_delete_all, 0, 0, "close all sessions"},
    {.pattern = NULL},
};
