/* call.c - buffers, the HTTP request, and the operation around it. */
#include "backend/call.h"

#include <assert.h>
#include <string.h>

#include "base/compiler.h"

enum { URL_EXTRA = 2048 }; /* scheme, host and what stands before the path */

void call_init(struct call *c, struct closing *closing, const char *method,
               const struct call_limits *limits)
{
    assert(op_is_idle(&c->op) && op_is_idle(&c->http.op));
    call_fini(c);
    memset(c, 0, sizeof(*c));
    c->closing = closing;
    c->http.method = method;
    c->http.response_max = limits->answer;
    buf_init(&c->path, limits->path);
    buf_init(&c->url, limits->path + URL_EXTRA);
    buf_init(&c->body, limits->body);
}

void call_fini(struct call *c)
{
    httpc_request_fini(&c->http);
    buf_fini(&c->path);
    buf_fini(&c->url);
    buf_fini(&c->body);
}

void call_put(struct call *c, const char *text)
{
    buf_put_escaped(&c->path, text);
}

void call_header(struct call *c, const char *line)
{
    size_t n = 0;

    if (line == NULL)
        return;
    while (c->headers[n] != NULL)
        n++;
    assert(n + 1 < ARRAY_LEN(c->headers));
    c->headers[n] = line;
}

static void cancel_http(struct op *op)
{
    op_cancel(&container_of(op, struct call, op)->http.op);
}

void call_begin(struct call *c, uint64_t deadline_ns, void (*on_cancel)(struct op *),
                void (*on_done)(struct op *))
{
    op_begin(&c->op, c->closing->rt, &c->closing->inner, deadline_ns,
             on_cancel != NULL ? on_cancel : cancel_http, on_done);
}

static bool has_type(const struct call *c)
{
    for (size_t n = 0; c->headers[n] != NULL; n++)
        if (strncmp(c->headers[n], "Content-Type:", 13) == 0)
            return true;
    return false;
}

static void on_http_done(struct op *op)
{
    struct call *c = container_of(op, struct call, http.op);

    if (c->on_answer != NULL)
        c->on_answer(c);
    closing_finish(c->closing, &c->op, op->result, &op->err);
}

void call_send(struct call *c, struct httpc *http, const char *url)
{
    assert(!buf_failed(&c->path)); /* the longest names fit many times over */
    if (c->body.len > 0 && !has_type(c))
        call_header(c, "Content-Type: application/json");
    buf_puts(&c->url, url);
    buf_puts(&c->url, buf_str(&c->path));
    c->http.url = buf_str(&c->url);
    c->http.headers = c->headers[0] != NULL ? c->headers : NULL;
    c->http.want_fresh = strcmp(c->http.method, "GET") != 0;
    c->http.body = c->body.data;
    c->http.body_len = c->body.len;
    c->is_sent = true;
    httpc_start(http, &c->http, RT_NEVER, on_http_done);
}
