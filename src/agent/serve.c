/* serve.c - the agent's routes. The form of /v1/sandbox is fixed by the clients that exist:
 * success, message, data, and what the box is like. */
#include "agent/serve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/about.h"
#include "agent/api_file.h"
#include "agent/bash_session.h"
#include "agent/file_job.h"
#include "agent/shell_session.h"
#include "base/mem.h"
#include "base/str.h"
#include "sandpool/version.h"

void agent_init_sessions(struct agent *a)
{
    const char *max = getenv("MAX_SHELL_SESSIONS");
    uint64_t n = SHELL_SESSIONS_DEFAULT;

    if (max != NULL && !str_parse_u64(max, 1, 1000, &n))
        n = SHELL_SESSIONS_DEFAULT;
    a->shell_sessions_max = (size_t) n;
    file_lanes_init(&a->files);
    list_init(&a->bash_sessions);
    list_init(&a->shell_sessions);
}

void agent_fini_sessions(struct agent *a)
{
    bash_sessions_free(a);
    shell_sessions_free(a);
}

static bool has_token(const struct agent *a, struct http_exchange *ex)
{
    static const char scheme[] = "Bearer ";
    const char *given = http_header(ex, "authorization");
    const char *key = http_header(ex, "x-aio-api-key");

    if (str_is_empty(a->token))
        return false;
    if (key != NULL && str_equal_secret(key, a->token))
        return true;
    return given != NULL && strncmp(given, scheme, strlen(scheme)) == 0 &&
           str_equal_secret(given + strlen(scheme), a->token);
}

int agent_guard(struct http_exchange *ex, const struct http_route *route, struct err *err)
{
    const struct agent *a = http_server_ctx(ex);

    if (has_token(a, ex)) {
        http_prove(ex); /* whoever has no token cannot keep it from its box by many connections */
        return SP_OK;
    }
    if (a->is_open && str_is_empty(a->token)) { /* nobody can prove anything */
        http_prove(ex);
        return SP_OK;
    }
    if ((route->flags & HTTP_OPEN) != 0 || (a->is_open && (route->flags & HTTP_OPERATOR) == 0))
        return SP_OK;
    if (str_is_empty(a->token))
        return err_set(err, SP_UNAUTHORIZED,
                       "this box has no token: only its health is served. An image for a "
                       "provisioner that gives none starts sandpool-agent with --open");
    return err_set(err, SP_UNAUTHORIZED, "the token of this box is required");
}

static bool is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *agent_directory(const struct agent *a, const struct identity *id)
{
    if (!str_is_empty(a->work_dir) && is_dir(a->work_dir))
        return a->work_dir;
    return is_dir(id->home) ? id->home : "/";
}

struct json_doc *agent_read_body(struct http_exchange *ex)
{
    struct err err;
    size_t len = 0;
    const char *body = http_body(ex, &len);
    struct json_doc *doc =
        len > 0 ? json_parse(body, len, len, &err) : json_parse("{}", 2, 2, &err);

    if (doc != NULL && !json_is_obj(json_root(doc))) {
        (void) err_set(&err, SP_BAD_REQUEST, "the body must be a JSON object");
        doc = json_doc_free(doc);
    }
    if (doc == NULL)
        http_reply_err(ex, &err);
    return doc;
}

/* What costs nothing to say. */
static void reply_system(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    const struct about about = {&a->user, agent_directory(a, &a->user), &a->env};
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    about_put(&o, &about, false);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static int put_all(struct file_job *job, const struct json *req, struct json_out *o)
{
    const struct about about = {job->user, job->base, job->env};

    (void) req; /* there is none */
    about_put(o, &about, true);
    return SP_OK;
}

/* The ports and programs are for those who may use the box, and not for probes, who say so. */
static void handle_sandbox(struct http_exchange *ex)
{
    static const struct file_call call = {
        .operation = "look", .run = put_all, .instead = reply_system};
    const struct agent *a = http_server_ctx(ex);
    const char *prefer = http_header(ex, "prefer");

    http_add_header(ex, "X-Sandbox-Life", a->life);
    if ((!a->is_open && !has_token(a, ex)) ||
        (prefer != NULL && strcmp(prefer, "return=minimal") == 0))
        reply_system(ex);
    else
        file_job_start(ex, &call);
}

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

/* For a caller that cannot send the token. Whoever reaches the port has the box from then on. */
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

static const struct http_route own_routes[] = {
    {HTTP_METHOD_GET, "/v1/sandbox", handle_sandbox, HTTP_OPEN | HTTP_QUIET, 0,
     "readiness, what the box is"},
    {HTTP_METHOD_GET, "/healthz", handle_health, HTTP_OPEN | HTTP_QUIET, 0, "the agent runs"},
    {HTTP_METHOD_GET, "/v1/agent", handle_agent, HTTP_QUIET, 0, "the agent itself"},
    {HTTP_METHOD_POST, "/v1/agent/access", handle_access, HTTP_OPERATOR | HTTP_QUIET, 0,
     "whether the token is asked for"},
    {.pattern = NULL},
};

/* One array per file of the API, each ending with .pattern NULL. */
static const struct http_route *const parts[] = {
    own_routes,           agent_activity_routes, agent_env_routes,           agent_bash_routes,
    agent_process_routes, agent_shell_routes,    agent_shell_session_routes, agent_file_routes,
};

struct http_route *agent_routes_new(void)
{
    struct http_route *routes;
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        for (const struct http_route *r = parts[i]; r->pattern != NULL; r++)
            count++;
    routes = xcalloc(count + 1, sizeof(*routes));
    count = 0;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        for (const struct http_route *r = parts[i]; r->pattern != NULL; r++)
            routes[count++] = *r;
    return routes;
}
