/* call.c - one request to sandpool-sim on behalf of one operation. The operation's deadline and
 * cancel reach the request; an answer that came in spite of them is still the answer. */
#include <stdlib.h>
#include <string.h>

#include "backends/sim/host.h"
#include "base/mem.h"
#include "sim/wire.h"

enum { URL_MAX = 2048, BODY_MAX = WIRE_UPDATE_MAX };

static const char *const json_headers[] = {"Content-Type: application/json", NULL};

static void on_http_done(struct op *op)
{
    struct sim_call *c = container_of(op, struct sim_call, http.op);

    c->on_answer(c);
}

struct sim_call *sim_call_new(struct sim_host *h, struct op *op, uint64_t deadline_ns,
                              void (*on_cancel)(struct op *), void (*on_done)(struct op *),
                              void (*on_answer)(struct sim_call *))
{
    struct sim_call *c = xcalloc(1, sizeof(*c));

    c->host = h;
    c->op = op;
    c->on_answer = on_answer;
    buf_init(&c->url, URL_MAX);
    buf_init(&c->body, BODY_MAX);
    buf_puts(&c->url, "http://localhost");
    op_begin(op, h->rt, &h->ops, deadline_ns, on_cancel, on_done);
    return c;
}

void sim_call_send(struct sim_call *c, const char *method)
{
    /* The longest label fits many times over. */
    assert(!buf_failed(&c->url) && !buf_failed(&c->body));
    httpc_request_fini(&c->http);
    memset(&c->http, 0, sizeof(c->http));
    c->http.method = method;
    c->http.url = buf_str(&c->url);
    c->http.unix_socket = c->host->socket;
    c->http.headers = c->body.len > 0 ? json_headers : NULL;
    c->http.body = c->body.len > 0 ? c->body.data : NULL;
    c->http.body_len = c->body.len;
    c->http.response_max = WIRE_PAGE_MAX;
    c->http.want_fresh = strcmp(method, "POST") == 0;
    httpc_start(c->host->http, &c->http, RT_NEVER, on_http_done);
}

/* The one error form: {"error":{"code":"...","message":"..."}}. */
static int read_error(const struct sim_call *c, struct err *err)
{
    struct json_doc *doc =
        json_parse(buf_str(&c->http.response), c->http.response.len, WIRE_PAGE_MAX, NULL);
    const struct json *e = doc != NULL ? json_get(json_root(doc), "error") : NULL;
    const char *code = json_str(json_get(e, "code"));
    const char *message = json_str(json_get(e, "message"));

    if (code == NULL || message == NULL)
        (void) err_set(err, SP_BACKEND_FAILED, "sandpool-sim answered %d", c->http.status);
    else
        (void) err_set(err, sp_error_from_name(code), "%s", message);
    (void) json_doc_free(doc);
    return err->code;
}

int sim_call_read(struct sim_call *c, int want, struct json_doc **ret_doc, struct err *err)
{
    *ret_doc = NULL;
    if (c->http.op.result != SP_OK)
        return err_set(err, SP_BACKEND_UNAVAILABLE, "sandpool-sim at '%.80s': %.120s",
                       c->host->socket, c->http.op.err.msg);
    if (c->http.status != want)
        return read_error(c, err);
    if (c->http.response.len == 0)
        return SP_OK;
    *ret_doc = json_parse(buf_str(&c->http.response), c->http.response.len, WIRE_PAGE_MAX, err);
    return *ret_doc != NULL ? SP_OK : err_wrap(err, "sandpool-sim's answer");
}

void sim_call_cancel(struct sim_call *c)
{
    op_cancel(&c->http.op);
}

void sim_call_end(struct sim_call *c, int result, const struct err *err)
{
    struct sim_host *h = c->host;
    struct op *op = c->op;

    httpc_request_fini(&c->http);
    buf_fini(&c->url);
    buf_fini(&c->body);
    free(c);
    op_finish(op, result, err);
    sim_host_settle(h);
}
