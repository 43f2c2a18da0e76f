/* api_env.c - /v1/agent/env: the environment of what is started from now on. What runs already,
 * living shells included, keeps its own.
 *
 * GET answers {"env": {"NAME": "value", ...}}; with ?set=1 only what callers have set, and "set_only": true. POST takes {"set": {"NAME": "value"}, "unset":
 * ["NAME"]}, does both or nothing, and answers as GET. Names are those of the shell; 256 of them and
 * 128 KiB in all are the limit. A request's own `env` goes before these, and these before the HOME,
 * USER and LOGNAME of the user who runs it. */
#include <string.h>

#include "agent/core/agent.h"
#include "agent/own/body.h"
#include "agent/own/routes.h"

static void reply_env(struct http_exchange *ex, const struct env_table *t, bool is_set_only)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_obj(&o, "env");
    for (size_t i = 0; i < t->count; i++) {
        char *equals = strchr(t->vars[i].pair, '=');

        if (is_set_only && !t->vars[i].is_set)
            continue;
        *equals = '\0';
        json_put_str(&o, t->vars[i].pair, equals + 1);
        *equals = '=';
    }
    json_end(&o);
    if (is_set_only)
        json_put_bool(&o, "set_only", true);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static void handle_get(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);

    char set[8];

    reply_env(ex, &a->env, http_query(ex, "set", set, sizeof(set)) && strcmp(set, "1") == 0);
}

static int read_change(struct agent *a, const struct json *root, struct err *err)
{
    static const char *const known[] = {"set", "unset", NULL};
    const struct json *set = NULL;
    const struct json *unset = json_get(root, "unset");
    int r = json_only_fields(root, known, err);

    if (r == SP_OK)
        r = json_field_obj(root, "set", &set, err);
    if (unset != NULL && json_is_null(unset))
        unset = NULL;
    if (r == SP_OK && unset != NULL && !json_is_arr(unset))
        r = err_set(err, SP_INVALID_FIELD, "'unset' must be a list of names");
    return r == SP_OK ? env_table_change(&a->env, set, unset, err) : r;
}

static void handle_post(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct json_doc *doc = agent_read_body(ex);
    struct err err;

    if (doc == NULL)
        return;
    if (read_change(a, json_root(doc), &err) == SP_OK)
        reply_env(ex, &a->env, false);
    else
        http_reply_err(ex, &err);
    (void) json_doc_free(doc);
}

const struct http_route own_env_routes[] = {
    {HTTP_METHOD_GET, "/v1/agent/env", handle_get, HTTP_OPERATOR | HTTP_QUIET, 0,
     "environment of what is started"},
    {HTTP_METHOD_POST, "/v1/agent/env", handle_post, HTTP_OPERATOR | HTTP_QUIET, 0,
     "set and unset variables"},
    {.pattern = NULL},
};
