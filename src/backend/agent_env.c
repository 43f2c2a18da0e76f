/* agent_env.c - one call to the agent of a box: variables for the processes it starts from now on, or which there are. */
#include "backend/agent_env.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

enum { BODY_MAX = 256 * 1024, ANSWER_MAX = 256 * 1024, NAMES_MAX = 256, BYTES_MAX = 32 * 1024 };

void agent_env_put(const struct backend_extras *x, struct json_out *o, const char *key)
{
    json_begin_obj(o, key);
    for (size_t i = 0; x != NULL && i < x->env_count; i++)
        json_put_str(o, x->envs[i].name, x->envs[i].value);
    json_end(o);
}

static void put_body(const struct backend_extras *x, struct buf *out)
{
    struct json_out j;

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    agent_env_put(x, &j, "set");
    json_end(&j);
    json_out_finish(&j, out);
}

int agent_env_read(const struct json *envs, struct backend_extras **ret, struct err *err)
{
    struct backend_env_var vars[NAMES_MAX];
    struct backend_extras x = {.envs = vars, .env_count = json_len(envs)};
    size_t total = 0;

    *ret = NULL;
    if (!json_is_obj(envs) || x.env_count > NAMES_MAX)
        return err_set(err, SP_INVALID_FIELD, "more than %d variables, or none at all", NAMES_MAX);
    for (size_t i = 0; i < x.env_count; i++) {
        const struct json *value;

        if (!json_member(envs, i, &vars[i].name, &value) || json_str(value) == NULL ||
            str_is_empty(vars[i].name) || strchr(vars[i].name, '=') != NULL)
            return err_set(err, SP_INVALID_FIELD, "one of the variables is none");
        vars[i].value = json_str(value);
        total += strlen(vars[i].name) + strlen(vars[i].value) + 2;
    }
    if (total > BYTES_MAX)
        return err_set(err, SP_INVALID_FIELD, "its variables are longer than %d bytes", BYTES_MAX);
    if (x.env_count > 0)
        *ret = backend_extras_copy(&x);
    return SP_OK;
}

static void start(struct httpc *http, struct agent_env *e, const struct backend_box *box,
                  const char *method, uint64_t deadline_ns, void (*on_done)(struct op *))
{
    (void) snprintf(e->url, sizeof(e->url), "%s/v1/agent/env%s", box->url,
                    e->body.len == 0 ? "?set=1" : "");
    (void) snprintf(e->authorization, sizeof(e->authorization), "Authorization: Bearer %s",
                    box->token);
    e->headers[0] = "Content-Type: application/json";
    e->headers[1] = str_is_empty(box->token) ? NULL : e->authorization;
    e->request.method = method;
    e->request.url = e->url;
    e->request.headers = e->headers;
    e->request.body = e->body.len == 0 ? NULL : buf_str(&e->body);
    e->request.body_len = e->body.len;
    e->request.response_max = ANSWER_MAX;
    e->request.want_fresh = true; /* no idle connections to boxes */
    httpc_start(http, &e->request, deadline_ns, on_done);
}

void agent_env_start(struct httpc *http, struct agent_env *e, const struct backend_box *box,
                     const struct backend_extras *extras, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    agent_env_fini(e);
    *e = (struct agent_env){.url = ""};
    buf_init(&e->body, BODY_MAX);
    put_body(extras, &e->body);
    start(http, e, box, "POST", deadline_ns, on_done);
}

void agent_env_ask(struct httpc *http, struct agent_env *e, const struct backend_box *box,
                   uint64_t deadline_ns, void (*on_done)(struct op *))
{
    agent_env_fini(e);
    *e = (struct agent_env){.url = ""};
    start(http, e, box, "GET", deadline_ns, on_done);
}

/* An older agent answers with all that there are, also those of the profile. */
int agent_env_take(const struct agent_env *e, struct backend_extras **ret, struct err *err)
{
    int rc = agent_env_result(e, err);
    struct json_doc *doc;
    const struct json *only;

    *ret = NULL;
    if (rc != SP_OK)
        return rc == SP_UNSUPPORTED ? SP_OK : rc;
    doc = json_parse(buf_str(&e->request.response), e->request.response.len, ANSWER_MAX, err);
    if (doc == NULL)
        return err->code;
    only = json_get(json_root(doc), "set_only");
    if (only != NULL && json_bool(only))
        rc = agent_env_read(json_get(json_root(doc), "env"), ret, err);
    (void) json_doc_free(doc);
    return rc;
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
