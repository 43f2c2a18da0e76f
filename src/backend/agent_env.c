/* agent_env.c - one POST to the agent of a box: variables for the processes it starts from now on. */
#include "backend/agent_env.h"

#include <stdio.h>

#include "base/json.h"
#include "base/str.h"

enum { BODY_MAX = 256 * 1024, ANSWER_MAX = 64 * 1024 };

static void put_body(const struct backend_extras *x, struct buf *out)
{
    struct json_out j;

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_begin_obj(&j, "set");
    for (size_t i = 0; i < x->env_count; i++)
        json_put_str(&j, x->envs[i].name, x->envs[i].value);
    json_end(&j);
    json_end(&j);
    json_out_finish(&j, out);
}

void agent_env_start(struct httpc *http, struct agent_env *e, const struct backend_box *box,
                     const struct backend_extras *extras, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    agent_env_fini(e);
    *e = (struct agent_env){.url = ""};
    buf_init(&e->body, BODY_MAX);
    put_body(extras, &e->body);
    (void) snprintf(e->url, sizeof(e->url), "%s/v1/agent/env", box->url);
    (void) snprintf(e->authorization, sizeof(e->authorization), "Authorization: Bearer %s",
                    box->token);
    e->headers[0] = "Content-Type: application/json";
    e->headers[1] = str_is_empty(box->token) ? NULL : e->authorization;
    e->request.method = "POST";
    e->request.url = e->url;
    e->request.headers = e->headers;
    e->request.body = buf_str(&e->body);
    e->request.body_len = e->body.len;
    e->request.response_max = ANSWER_MAX;
    e->request.want_fresh = true; /* no idle connections to boxes */
    httpc_start(http, &e->request, deadline_ns, on_done);
}

int agent_env_result(const struct agent_env *e, struct err *err)
{
    const struct op *op = &e->request.op;

    if (op->result != SP_OK) {
        if (err != NULL)
            *err = op->err;
        return op->result;
    }
    if (e->request.status == 200)
        return SP_OK;
    if (e->request.status == 404)
        return err_set(err, SP_UNSUPPORTED,
                       "the box has no sandpool-agent: it takes no environment once it runs");
    return err_set(err, SP_BACKEND_FAILED, "the agent refused the environment: %d %.120s",
                   e->request.status, buf_str(&e->request.response));
}

void agent_env_fini(struct agent_env *e)
{
    httpc_request_fini(&e->request);
    buf_fini(&e->body);
}
