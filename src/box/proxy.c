/* proxy.c - a request goes to its box and the answer comes back, both as they
 * arrive. Whoever is faster waits: each direction holds some hundred KiB, however long it is.
 *
 *   client -> on_body() -> httpc_body_write()      pauses the client above BODY_HIGH
 *   client <- http_write() <- on_answer() <- box   pauses the box above HTTP_HIGH_WATER */
#include "box/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/proxy_head.h"
#include "box/proxy_internal.h"
#include "box/tunnel.h"

enum {
    ANSWER_MAX = 128 * 1024, /* of an answer, between box and client */
    BODY_HIGH = 128 * 1024,
    HOPS_MAX = 1024, /* of names in Connection */
};
#define SILENCE_NS (60 * NS_PER_S) /* of a stream of events: an agent writes something every 15 s */

/* --- the answer --- */

static void on_drain(struct http_exchange *ex)
{
    struct passage *g = http_ctx(ex);

    passage_moved(g);
    httpc_resume(&g->up);
}

/* What the headers of an answer say of itself. */
struct answer_head {
    struct buf hops; /* what Connection names */
    int64_t length;  /* -1: not known */
    enum proxy_stream stream;
};

/* False when it is more than anybody needs. */
static bool read_head(const struct buf *lines, struct answer_head *ret)
{
    AUTO_FREE char *copy = xstrdup(buf_str(lines));
    char *at = copy;
    char *name;
    char *value;
    uint64_t length;
    bool is_coded = false; /* then a length means nothing */
    unsigned count = 0;

    ret->length = -1;
    ret->stream = PROXY_BYTES;
    for (; proxy_next_line(&at, &name, &value); count++) {
        if (strcasecmp(name, "Content-Length") == 0 && str_parse_u64(value, 0, INT64_MAX, &length))
            ret->length = (int64_t) length;
        is_coded = is_coded || strcasecmp(name, "Transfer-Encoding") == 0;
        if (strcasecmp(name, "Content-Type") == 0)
            ret->stream = proxy_stream_of(value);
        if (strcasecmp(name, "Connection") == 0) {
            buf_puts(&ret->hops, value);
            buf_putc(&ret->hops, ',');
        }
    }
    if (is_coded)
        ret->length = -1;
    return count <= PROXY_HEADERS_MAX && !buf_failed(&ret->hops);
}

/* Adds what the box says of its answer. */
static void copy_headers(struct passage *g, const struct buf *hops)
{
    AUTO_FREE char *copy = xstrdup(buf_str(&g->up.response_headers));
    char *at = copy;
    char *name;
    char *value;

    while (proxy_next_line(&at, &name, &value)) {
        if (proxy_passes_answer(name) && !proxy_names(buf_str(hops), name))
            http_add_header(g->ex, name, value);
    }
}

/* False for what is no answer. */
static bool begin_answer(struct passage *g)
{
    int status = g->up.status;
    struct answer_head head;
    bool is_good;

    buf_init(&head.hops, HOPS_MAX);
    is_good = status >= 200 && status <= 599 && read_head(&g->up.response_headers, &head);
    if (is_good)
        copy_headers(g, &head.hops);
    buf_fini(&head.hops);
    if (!is_good)
        return false;
    g->is_begun = true;
    if (g->p->config.ask_loss != NULL && head.length < 0 && g->port == 0)
        g->stream = head.stream;
    if (g->stream != PROXY_BYTES) {
        g->idle_ns = MIN_OF(g->idle_ns, SILENCE_NS);
        passage_watch(g);
    }
    g->is_bodyless = status == 204 || status == 304;
    if (g->is_bodyless)
        return true;
    if (head.length >= 0)
        http_begin_sized(g->ex, status, NULL, (uint64_t) head.length);
    else
        http_begin(g->ex, status, NULL);
    http_set_drain(g->ex, on_drain);
    return true;
}

/* How much of what has come goes on now: of events only whole ones. */
static size_t ready_bytes(struct passage *g, bool is_over)
{
    const struct buf *piece = &g->up.response;
    size_t whole;

    if (g->stream == PROXY_BYTES || is_over)
        return piece->len;
    whole = proxy_whole_events(g->stream, piece->data, piece->len, &g->has_end);
    if (whole == 0 && piece->len > PROXY_EVENT_MAX) {
        g->is_torn = true;
        return piece->len;
    }
    if (whole > 0)
        g->is_torn = false;
    return whole;
}

/* A server that is no agent of ours does not know its paths, and has another form for errors. */
static bool is_foreign(const struct passage *g)
{
    static const char form[] = "{\"error\":{";

    return g->up.response.len < strlen(form) ||
           memcmp(g->up.response.data, form, strlen(form)) != 0;
}

/* True: it is not known yet whether this is an answer of our agent, or it is not passed on. */
static bool must_wait(struct passage *g, bool is_over)
{
    enum { ENOUGH = 16 };

    if (g->on_error != NULL && g->up.status >= 400)
        return true;
    if (g->is_begun || g->p->config.ask_loss == NULL || g->port != 0 ||
        (g->up.status != 404 && g->up.status != 405) || http_method(g->ex) == HTTP_METHOD_HEAD)
        return false;
    if (!is_over && g->up.response.len < ENOUGH)
        return true;
    g->is_foreign = is_foreign(g);
    return false;
}

/* What has come so far goes on; the box waits while the client is behind. */
static void pass_answer(struct passage *g, bool is_over)
{
    struct buf *piece = &g->up.response;
    size_t len;

    passage_moved(g);
    if (must_wait(g, is_over))
        return;
    if (g->is_foreign) {
        op_cancel(&g->up.op); /* on_done() answers; when it is over already this does nothing */
        return;
    }
    if (!g->is_begun && !begin_answer(g)) {
        g->is_no_answer = true;
        op_cancel(&g->up.op); /* on_done() answers; when it is over already this does nothing */
        return;
    }
    if (g->is_bodyless || piece->len == 0)
        return;
    len = ready_bytes(g, is_over);
    if (len > 0 && http_write(g->ex, piece->data, len) >= HTTP_HIGH_WATER)
        httpc_pause(&g->up); /* when it is over already this does nothing */
    buf_consume(piece, len);
}

static void on_answer(struct httpc_request *up)
{
    struct passage *g = container_of(up, struct passage, up);

    if (g->ex != NULL && g->cut == 0 && !g->is_no_answer && !g->is_foreign)
        pass_answer(g, false);
}

void proxy_refuse(struct passage *g, int result)
{
    void (*say)(struct http_exchange *, int, uint64_t, const char *) = g->p->config.refuse;
    char text[160];

    (void) snprintf(text, sizeof(text), "The sandbox did not answer: %s",
                    sp_error_info(result)->text);
    if (g->up.tunnel_status != 0 && g->up.tunnel_status / 100 != 2)
        g->p->config.refuse_port(g->ex, g->port, g->up.tunnel_status);
    else if (g->is_foreign)
        say(g->ex, 501, 0,
            "This sandbox has no agent of sandpool: use its own API, at sandbox_url");
    else if (g->is_timed_out)
        say(g->ex, 504, 0, "The sandbox did not answer in time");
    else if (result == SP_CONNECT_FAILED)
        say(g->ex, 502, 0, "The sandbox cannot be reached");
    else if (result == SP_CANCELLED)
        say(g->ex, 503, 1000, "The daemon is stopping");
    else
        say(g->ex, 502, 0, text);
}

static void on_done(struct op *op)
{
    struct passage *g = container_of(op, struct passage, up.op);
    int result = op->result;

    if (g->ex != NULL && result == SP_OK && !g->is_no_answer && !g->is_foreign)
        pass_answer(g, true); /* what was held back */
    if (g->is_no_answer || g->is_foreign)
        result = SP_PROTOCOL;
    if (g->ex != NULL && result == SP_OK && g->on_error != NULL && g->up.status >= 400) {
        g->on_error(g);
        return;
    }
    if (g->ex != NULL && result == SP_OK) {
        if (g->is_bodyless)
            http_reply(g->ex, g->up.status, NULL, "", 0);
        else
            http_end(g->ex);
    } else if (g->ex != NULL && g->is_timed_out && g->is_begun && g->stream != PROXY_BYTES) {
        (void) snprintf(g->reason, sizeof(g->reason), "nothing has come from it for %llu s",
                        (unsigned long long) (g->idle_ns / NS_PER_S));
        proxy_loss_conclude(g, SP_TRANSPORT_LOST);
        return;
    } else if (g->ex != NULL && !g->is_timed_out && proxy_loss_begin(g, result)) {
        return; /* it is found out what became of the box, and then answered */
    } else if (g->ex != NULL && g->is_begun && !g->is_bodyless) {
        http_abort(g->ex); /* only a broken connection says that something is missing */
    } else if (g->ex != NULL) {
        proxy_refuse(g, result);
    }
    if (g->on_over != NULL)
        g->on_over(g);
    else
        passage_free(g);
}

/* --- the request --- */

static void on_gone(void *ctx)
{
    struct passage *g = ctx;

    g->ex = NULL;
    op_cancel(&g->up.op); /* on_done() frees */
}

static void on_body(struct http_exchange *ex, const char *data, size_t len)
{
    struct passage *g = http_ctx(ex);

    passage_moved(g);
    if (g->cut != 0)
        return; /* none of it reaches the box */
    if (httpc_body_write(&g->up, data, len) > BODY_HIGH)
        http_body_pause(ex);
}

static void on_body_drain(struct httpc_request *up)
{
    struct passage *g = container_of(up, struct passage, up);

    passage_moved(g);
    if (g->ex != NULL)
        http_body_resume(g->ex);
}

static void on_body_end(struct http_exchange *ex)
{
    struct passage *g = http_ctx(ex);

    httpc_body_end(&g->up);
}

void proxy_start(struct passage *g)
{
    int64_t length = http_body_length(g->ex);

    g->up.method = http_method_text(g->ex);
    g->up.url = buf_str(&g->url);
    g->up.headers = g->headers;
    g->up.want_headers = true;
    g->up.response_max = ANSWER_MAX;
    g->up.on_data = on_answer;
    /* libcurl repeats a request on a kept connection that breaks, and these may do something. To an agent those
     * without a body may be repeated, and others are not. */
    g->up.may_reuse = g->p->config.ask_loss != NULL && g->port == 0;
    g->up.want_fresh = !g->up.may_reuse && http_method(g->ex) != HTTP_METHOD_GET &&
                       http_method(g->ex) != HTTP_METHOD_HEAD;
    if (length != 0) {
        g->up.is_body_streamed = true;
        g->up.body_size = length;
        g->up.on_body_drain = on_body_drain;
    }
    passage_watch(g);
    http_set_ctx(g->ex, g, on_gone);
    if (length != 0)
        http_body_start(g->ex, on_body, on_body_end);
    httpc_start(g->p->http, &g->up, RT_NEVER, on_done); /* the timer is its deadline */
}

/* --- in and out --- */

/* The one sends back what we added, the token; the other asks for a tunnel. */
static bool is_refused_method(const struct http_exchange *ex)
{
    const char *method = http_method_text(ex);

    return strcmp(method, "TRACE") == 0 || strcmp(method, "CONNECT") == 0;
}

static void on_tunnel_over(void *ctx)
{
    passage_free(ctx);
}

static void start_tunnel(struct passage *g, const struct box_proxy_to *to)
{
    struct tunnel_owner owner = {.ctx = g,
                                 .refuse = g->p->config.refuse,
                                 .refuse_loss = g->p->config.refuse_loss,
                                 .on_over = on_tunnel_over};

    tunnel_start(g->p->config.loop, g->ex, to, g->idle_ns, &owner, &g->upgrade);
}

void box_proxy_pass(struct box_proxy *p, struct http_exchange *ex,
                    const struct box_proxy_limits *limits, const struct box_proxy_to *to)
{
    struct passage *g;

    if (is_refused_method(ex)) {
        p->config.refuse(ex, 405, 0, "Method Not Allowed");
        return;
    }
    g = passage_new(p, ex, limits, to, sizeof(*g));
    if (g == NULL)
        return;
    if (tunnel_is_wanted(ex)) {
        passage_begin(g);
        start_tunnel(g, to);
        return;
    }
    if (!proxy_make_request(g, to)) {
        p->config.refuse(ex, 400, 0, "Bad request target");
        passage_free(g);
        return;
    }
    passage_begin(g); /* what `to` points to may be gone from here on */
    proxy_start(g);
}
