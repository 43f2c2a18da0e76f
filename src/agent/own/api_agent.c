/* api_agent.c - /v1/agent: the agent itself, and whether it requires the token; /healthz. */
#include <string.h>
#include <unistd.h>

#include "agent/core/agent.h"
#include "agent/own/body.h"
#include "agent/own/routes.h"
#include "base/str.h"
#include "sandpool/version.h"

static void handle_agent(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "version", SANDPOOL_VERSION);
    json_put_i64(&o, "pid", getpid());
    json_put_bool(&o, "is_init", a->is_init);
    json_put_bool(&o, "open", a->is_open);
    json_put_str(&o, "user", a->user.name);
    json_put_u64(&o, "uptime_ms", (rt_now(&a->loop.rt) - a->started_ns) / NS_PER_MS);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

/* For a caller that cannot send the token. From then on everybody who can reach the port can use
 * the box. */
static void handle_access(struct http_exchange *ex)
{
    static const char *const known[] = {"open", NULL};
    struct agent *a = http_server_ctx(ex);
    struct json_doc *doc = agent_read_body(ex);
    bool is_open = a->is_open;
    struct json_out o;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = str_is_empty(a->token) ? err_set(&err, SP_UNSUPPORTED,
                                         "this box has no token: it was started open and stays so")
                               : json_only_fields(json_root(doc), known, &err);
    if (r == SP_OK)
        r = json_field_bool(json_root(doc), "open", &is_open, &err);
    (void) json_doc_free(doc);
    if (r != SP_OK) {
        http_reply_err(ex, &err);
        return;
    }
    a->is_open = is_open;
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "open", a->is_open);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static void handle_health(struct http_exchange *ex)
{
    static const char body[] = "{\"status\":\"ok\"}";

    http_reply(ex, 200, "application/json", body, strlen(body));
}

const struct http_route own_agent_routes[] = {
    {HTTP_METHOD_GET, "/healthz", handle_health, HTTP_OPEN | HTTP_QUIET, 0, "the agent runs"},
    {HTTP_METHOD_GET, "/v1/agent", handle_agent, HTTP_QUIET, 0, "the agent itself"},
    {HTTP_METHOD_POST, "/v1/agent/access", handle_access, HTTP_OPERATOR | HTTP_QUIET, 0,
     "whether the token is asked for"},
    {.pattern = NULL},
};
