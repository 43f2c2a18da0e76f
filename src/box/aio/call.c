/* call.c - see call.h. What a box answers is a stranger's: lengths, forms and names are checked. */
#include "box/aio/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "box/aio/file.h"
#include "box/aio/run.h"

enum { HELD_MAX = 256 * 1024 * 1024 }; /* bytes of bodies that are held whole, of all calls */

/* --- how much --- */

/* False: too much. One caller may hold half of what it has and what is free, so others find something. */
static bool hold(struct aio_call *c, size_t held)
{
    uint64_t *sum = &c->g.p->held;
    uint64_t *own = &c->g.caller->held;
    uint64_t others;

    *sum = *sum - c->held + held;
    *own = *own - c->held + held;
    c->held = held;
    others = *sum - *own;
    return others < HELD_MAX && *own <= (HELD_MAX - others) / 2;
}

static void fini(struct passage *g)
{
    struct aio_call *c = aio_of(g);

    (void) hold(c, 0);
    buf_fini(&c->given);
    buf_fini(&c->path);
    buf_fini(&c->said);
    (void) json_doc_free(c->doc);
    if (c->run != NULL)
        aio_run_free(c);
    if (c->file != NULL)
        buf_fini(&c->file->tail);
    free(c->file);
}

/* --- ends --- */

void aio_end(struct aio_call *c)
{
    c->g.ex = NULL;
    if (!c->is_cleaning) {
        c->is_cleaning = true;
        (void) hold(c, 0);
    }
    if (c->g.p->is_closing || c->g.cut != 0 || c->clean == NULL || !c->clean(c))
        passage_free(&c->g);
}

void aio_on_gone(void *ctx)
{
    struct aio_call *c = ctx;

    c->g.ex = NULL;
    if (!op_is_idle(
            &c->g.up.op)) { /* on_done() ends it; it may be over, with on_done() still to come */
        if (!c->want_answer)
            op_cancel(&c->g.up.op);
    } else if (!list_is_linked(&c->g.judged)) { /* else it ends with the verdict */
        aio_end(c);
    }
}

static void on_cut(struct passage *g)
{
    proxy_loss_conclude(g, g->cut);
}

static void on_idle(struct passage *g)
{
    aio_fail(aio_of(g), SP_TIMEOUT, "nothing moved for too long");
}

static void end_stream(struct passage *g, const char *message)
{
    struct buf text;

    buf_init(&text, 4096);
    proxy_put_end(g->stream, "transport_lost", message, &text);
    if (!buf_failed(&text))
        (void) http_write(g->ex, text.data, text.len); /* little: it need not wait */
    buf_fini(&text);
    http_end(g->ex);
}

void aio_fail(struct aio_call *c, int code, const char *fmt, ...)
{
    char text[480];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (c->g.ex != NULL && c->g.is_begun && c->g.stream != PROXY_BYTES)
        end_stream(&c->g, text);
    else if (c->g.ex != NULL && c->g.is_begun)
        http_abort(c->g.ex); /* only a broken connection says that something is missing */
    else if (c->g.ex != NULL)
        http_reply_error(c->g.ex, code, text, sp_error_info(code)->is_retryable ? 1000 : 0);
    aio_end(c);
}

void aio_fail_answer(struct aio_call *c, const char *what, const struct aio_answer *a)
{
    if (a->status == 429 || a->status == 503)
        aio_fail(c, SP_TOO_MANY_CALLS, "%s: the sandbox has no room for more: %.200s", what,
                 a->message);
    else if (a->status == 400 || a->status == 422)
        aio_fail(c, SP_INVALID_FIELD, "%s: %.300s", what, a->message);
    else
        aio_fail(c, SP_BACKEND_FAILED, "%s: the sandbox answered %d: %.300s", what, a->status,
                 a->message);
}

void aio_reply(struct aio_call *c, struct json_out *o)
{
    http_reply_json(c->g.ex, 200, o);
    aio_end(c);
}

/* --- what the caller sends --- */

static void on_given_data(struct http_exchange *ex, const char *data, size_t len)
{
    struct aio_call *c = http_ctx(ex);

    passage_moved(&c->g);
    buf_append(&c->given, data, len);
    if (buf_failed(&c->given))
        aio_fail(c, SP_BODY_TOO_LARGE,
                 "the body is longer than %d bytes, the limit of a sandbox "
                 "without an agent of sandpool",
                 (int) AIO_BODY_MAX);
    else if (!hold(c, c->given.len))
        aio_fail(c, SP_TOO_MANY_CALLS, "calls to sandboxes hold too much memory");
}

static void on_given_end(struct http_exchange *ex)
{
    struct aio_call *c = http_ctx(ex);
    const char *text = c->given.len > 0 ? buf_str(&c->given) : "{}";
    struct err err;

    c->doc = json_parse(text, strlen(text), AIO_BODY_MAX, &err);
    if (c->doc == NULL)
        aio_fail(c, err.code, "%s", err.msg);
    else if (!json_is_obj(json_root(c->doc)))
        aio_fail(c, SP_BAD_REQUEST, "the body must be a JSON object");
    else
        c->on_given(c);
}

void aio_read_given(struct aio_call *c, void (*on_given)(struct aio_call *c))
{
    c->on_given = on_given;
    if (http_body_length(c->g.ex) != 0)
        http_body_start(c->g.ex, on_given_data, on_given_end);
    else
        on_given_end(c->g.ex);
}

/* --- answers --- */

/* A string with a NUL inside is valid JSON, and output may have one: "\u0000" becomes "\ufffd". */
static void replace_nuls(struct buf *text)
{
    char *at = text->data;
    const char *end = text->len > 0 ? at + text->len : at;

    while (at != end && (at = memchr(at, '\\', (size_t) (end - at))) != NULL) {
        if (end - at >= 6 && memcmp(at, "\\u0000", 6) == 0)
            memcpy(at, "\\ufffd", 6);
        at += end - at >= 2 ? 2 : 1;
    }
}

static void take_answer(struct aio_call *c)
{
    struct httpc_request *up = &c->g.up;
    struct json_doc *doc;
    const struct json *root;
    const char *message;
    bool is_envelope;
    struct aio_answer a = {.status = up->status};

    replace_nuls(&up->response);
    doc = json_parse_few(buf_str(&up->response), up->response.len, AIO_ANSWER_MAX, AIO_VALUES_MAX,
                         NULL);
    root = doc != NULL ? json_root(doc) : NULL;
    is_envelope = root != NULL && json_is_bool(json_get(root, "success"));
    message = json_str(json_get(root, "message"));
    a.is_ok = a.status < 300 && is_envelope && json_bool(json_get(root, "success"));
    a.data = is_envelope ? json_get(root, "data") : NULL;
    a.message = message != NULL ? message : "no reason is given";
    buf_fini(&up->response);
    if (c->on_whole != NULL && a.status < 300 && root != NULL && c->on_whole(c, root)) {
        (void) json_doc_free(doc);
        return;
    }
    if (!is_envelope && (a.status == 404 || a.status == 405))
        aio_fail(c, SP_UNSUPPORTED,
                 "this sandbox has no agent of sandpool, and its API has no %s (AIO sandboxes have "
                 "it from 1.9.3 on)",
                 buf_str(&c->path));
    else if (a.status == 401)
        aio_fail(c, SP_BACKEND_FAILED, "the API of the sandbox does not accept its key");
    else if (!is_envelope && a.status < 300)
        aio_fail(c, SP_BACKEND_FAILED,
                 "the sandbox answered %s with something that is no envelope "
                 "of the AIO API",
                 buf_str(&c->path));
    else
        c->on_answer(c, &a);
    (void) json_doc_free(doc);
}

static void fail_request(struct aio_call *c, int result)
{
    struct passage *g = &c->g;

    if (c->is_crowded)
        aio_fail(c, SP_TOO_MANY_CALLS, "calls to sandboxes hold too much memory");
    else if (!g->is_timed_out && proxy_loss_begin(g, result))
        return; /* it is found out what became of the box, and then answered */
    else if (result == SP_TOO_BIG && c->on_too_big != NULL)
        c->on_too_big(c);
    else if (result == SP_TOO_BIG)
        aio_fail(c, SP_BACKEND_FAILED, "an answer of the sandbox is longer than %d bytes",
                 (int) AIO_ANSWER_MAX);
    else if (g->is_timed_out || result == SP_TIMEOUT)
        aio_fail(c, SP_TIMEOUT, "the sandbox did not answer in time");
    else if (g->is_begun)
        aio_fail(c, SP_BACKEND_FAILED, "%s", sp_error_info(result)->text);
    else {
        proxy_refuse(g, result);
        aio_end(c);
    }
}

static void on_done(struct op *op)
{
    struct aio_call *c = aio_of(container_of(op, struct passage, up.op));
    int result = op->result;

    passage_moved(&c->g);
    if (c->is_cleaning || (c->g.ex == NULL && !(c->want_answer && result == SP_OK)))
        aio_end(c);
    else if (result == SP_OK && c->g.cut == 0)
        take_answer(c);
    else
        fail_request(c, result != SP_OK ? result : SP_CANCELLED);
}

static void on_data(struct httpc_request *up)
{
    struct aio_call *c = aio_of(container_of(up, struct passage, up));

    passage_moved(&c->g);
    if (c->is_crowded || hold(c, c->given.len + up->response.len))
        return;
    c->is_crowded = true;
    op_cancel(&up->op);
}

/* --- requests --- */

void aio_say_begin(struct json_out *o)
{
    json_out_init(o);
    json_begin_obj(o, NULL);
}

void aio_say(struct aio_call *c, struct json_out *o)
{
    json_end(o);
    buf_reset(&c->said);
    json_out_finish(o, &c->said);
}

static void prepare(struct aio_call *c, const char *method, const char *path,
                    void (*on_answer)(struct aio_call *c, const struct aio_answer *a))
{
    struct passage *g = &c->g;

    buf_reset(&c->path);
    buf_puts(&c->path, path);
    buf_reset(&g->url);
    buf_puts(&g->url, c->base);
    buf_puts(&g->url, path);
    c->on_answer = on_answer;
    httpc_request_fini(&g->up);
    g->up = (struct httpc_request){
        .method = method,
        .url = buf_str(&g->url),
        .headers = c->headers,
        .response_max = AIO_ANSWER_MAX,
        .on_data = on_data,
    };
}

void aio_ask(struct aio_call *c, const char *method, const char *path, uint64_t timeout_ns,
             bool is_repeatable, void (*on_answer)(struct aio_call *c, const struct aio_answer *a))
{
    struct passage *g = &c->g;
    struct rt *rt = &g->p->config.loop->rt;

    prepare(c, method, path, on_answer);
    if (strcmp(method, "POST") == 0) {
        g->up.body = buf_str(&c->said);
        g->up.body_len = c->said.len;
    }
    g->up.want_fresh = !is_repeatable;
    httpc_start(g->p->http, &g->up, rt_after(rt_now(rt), timeout_ns), on_done);
}

void aio_ask_streamed(struct aio_call *c, const char *path, int64_t size,
                      void (*on_drain)(struct httpc_request *up),
                      void (*on_answer)(struct aio_call *c, const struct aio_answer *a))
{
    struct passage *g = &c->g;

    prepare(c, "POST", path, on_answer);
    g->up.is_body_streamed = true;
    g->up.body_size = size;
    g->up.on_body_drain = on_drain;
    httpc_start(g->p->http, &g->up, RT_NEVER, on_done); /* the passage's timer is its deadline */
}

/* --- in --- */

struct aio_call *aio_call_new(struct box_proxy *p, struct http_exchange *ex,
                              const struct box_proxy_limits *limits, const struct box_proxy_to *to)
{
    struct passage *g = passage_new(p, ex, limits, to, sizeof(struct aio_call));
    struct aio_call *c;

    if (g == NULL)
        return NULL;
    c = aio_of(g);
    g->fini = fini;
    g->on_cut = on_cut;
    g->on_idle = on_idle;
    buf_init(&c->given, AIO_BODY_MAX);
    buf_init(&c->path, 8 * 1024);
    buf_init(&c->said, 8 * AIO_BODY_MAX);
    str_copy_cut(c->base, sizeof(c->base), to->url);
    for (size_t len = strlen(c->base); len > 0 && c->base[len - 1] == '/'; len--)
        c->base[len - 1] = '\0';
    (void) snprintf(c->authorization, sizeof(c->authorization), "Authorization: Bearer %s",
                    to->token);
    c->headers[0] = "Content-Type: application/json";
    c->headers[1] = "Accept: application/json";
    c->headers[2] = str_is_empty(to->token) ? NULL : c->authorization;
    passage_begin(g); /* what `to` points to may be gone from here on */
    passage_watch(g);
    http_set_ctx(ex, c, aio_on_gone);
    return c;
}
