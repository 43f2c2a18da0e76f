/* api_sandbox.c - GET /v1/sandbox: readiness, and a description of the box. Existing clients fix
 * the form: success, message, data, and beside them the members that describe the system. */
#include <string.h>

#include "agent/aio/about.h"
#include "agent/aio/envelope.h"
#include "agent/aio/routes.h"
#include "agent/core/agent.h"
#include "agent/file/job.h"

/* What is known without a helper. */
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

static const struct identity *choose(struct file_job *job)
{
    return job->user;
}

/* In a helper: it looks at files. */
static int run(struct file_job *job, struct buf *reply)
{
    const struct about about = {job->user, job->base, job->env};
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    about_put(&o, &about, true);
    json_end(&o);
    json_out_finish(&o, reply);
    if (!buf_failed(reply))
        return 200;
    (void) err_set(&job->err, SP_NO_MEMORY, "not enough memory for the answer");
    buf_reset(reply);
    return envelope_print_err(reply, &job->err);
}

/* Readiness does not depend on a helper. */
static void reply_less(struct http_exchange *ex, int status, const char *message)
{
    (void) status;
    (void) message;
    reply_system(ex);
}

/* Ports and programs are only for callers that may use the box. Probes do not need them, and say so
 * in the request. */
static void handle_sandbox(struct http_exchange *ex)
{
    static const struct file_handler handler = {.choose = choose, .run = run, .refuse = reply_less};
    static const struct file_call call = {.operation = "look", .handler = &handler};
    const struct agent *a = http_server_ctx(ex);
    const char *prefer = http_header(ex, "prefer");

    http_add_header(ex, "X-Sandbox-Life", a->life);
    if ((!a->is_open && !agent_has_token(a, ex)) ||
        (prefer != NULL && strcmp(prefer, "return=minimal") == 0))
        reply_system(ex);
    else
        file_job_start(ex, &call);
}

const struct http_route aio_sandbox_routes[] = {
    {HTTP_METHOD_GET, "/v1/sandbox", handle_sandbox, HTTP_OPEN | HTTP_QUIET, 0,
     "readiness, what the box is"},
    {.pattern = NULL},
};
