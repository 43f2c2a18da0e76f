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
    HEAD_MAX = 1024 * 1024, /* what the server lets in is less */
    HOPS_MAX = 1024,        /* of names in Connection */
};

/* --- how many --- */

/* A box that is at work is not idle. */
static void count(struct passage *g, int delta)
{
    struct box_proxy *p = g->p;
    uint64_t box = g->box->key;

    if (delta > 0) {
        g->box->count++;
        g->caller->count++;
        p->passages++;
        list_push_back(&g->box->passages, &g->link);
        list_push_back(&g->caller->passages, &g->caller_link);
    } else {
        list_remove(&g->box->passages, &g->link);
        list_remove(&g->caller->passages, &g->caller_link);
        proxy_load_put(&p->boxes, g->box);
        proxy_load_put(&p->callers, g->caller);
        p->passages--;
    }
    if (!p->is_leaving) /* else nobody is left to be notified */
        p->config.on_use(p->config.ctx, box, delta);
}

void passage_free(struct passage *g)
{
    struct box_proxy *p = g->p;

    list_remove(&p->judged, &g->judged);
    rt_timer_cancel(&g->p->config.loop->rt, &g->timer);
    count(g, -1);
    httpc_request_fini(&g->up);
    buf_fini(&g->url);
    buf_fini(&g->text);
    buf_fini(&g->tunnel);
    free(g);
    if (p->is_leaving && p->passages == 0)
        proxy_end(p);
}

/* --- standing still --- */

static void on_timer(struct rt_timer *timer)
{
    struct passage *g = container_of(timer, struct passage, timer);
    struct rt *rt = &g->p->config.loop->rt;
    uint64_t at_ns = rt_after(g->moved_ns, g->idle_ns);

    if (rt_now(rt) < at_ns) {
        rt_timer_set(rt, timer, at_ns, on_timer);
        return;
    }
    g->is_timed_out = true;
    op_cancel(&g->up.op); /* on_done() answers */
}

static void moved(struct passage *g)
{
    g->moved_ns = rt_now(&g->p->config.loop->rt);
}

/* --- the answer --- */

static void on_drain(struct http_exchange *ex)
{
    struct passage *g = http_ctx(ex);

    moved(g);
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

/* True: it is not known yet whether this is an answer of our agent. */
static bool must_wait(struct passage *g, bool is_over)
{
    enum { ENOUGH = 16 };

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

    moved(g);
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

static void refuse(struct passage *g, int result)
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
    if (g->ex != NULL && result == SP_OK) {
        if (g->is_bodyless)
            http_reply(g->ex, g->up.status, NULL, "", 0);
        else
            http_end(g->ex);
    } else if (g->ex != NULL && !g->is_timed_out && proxy_loss_begin(g, result)) {
        return; /* it is found out what became of the box, and then answered */
    } else if (g->ex != NULL && g->is_begun && !g->is_bodyless) {
        http_abort(g->ex); /* only a broken connection says that something is missing */
    } else if (g->ex != NULL) {
        refuse(g, result);
    }
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

    moved(g);
    if (g->cut != 0)
        return; /* none of it reaches the box */
    if (httpc_body_write(&g->up, data, len) > BODY_HIGH)
        http_body_pause(ex);
}

static void on_body_drain(struct httpc_request *up)
{
    struct passage *g = container_of(up, struct passage, up);

    moved(g);
    if (g->ex != NULL)
        http_body_resume(g->ex);
}

static void on_body_end(struct http_exchange *ex)
{
    struct passage *g = http_ctx(ex);

    httpc_body_end(&g->up);
}

static void start(struct passage *g)
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
    moved(g);
    rt_timer_set(&g->p->config.loop->rt, &g->timer, rt_after(g->moved_ns, g->idle_ns), on_timer);
    http_set_ctx(g->ex, g, on_gone);
    http_may_stay(g->ex);
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

/* True: it has been refused. */
static bool is_too_much(struct box_proxy *p, struct http_exchange *ex,
                        const struct box_proxy_limits *limits, const struct box_proxy_to *to)
{
    const struct proxy_load *box = proxy_load_find(&p->boxes, to->box);
    const struct proxy_load *caller = proxy_load_find(&p->callers, to->caller);
    uint64_t own = caller != NULL ? caller->count : 0;
    uint64_t room = limits->requests > p->passages ? limits->requests - p->passages : 0;

    if (room == 0)
        p->config.refuse(ex, 503, 1000, "Too many requests are being passed on");
    else if (box != NULL && box->count >= limits->requests_per_box)
        p->config.refuse(ex, 429, 1000, "Too many requests to this sandbox");
    else if (own > 0 && own * 100 >= (own + room) * limits->share_percent &&
             limits->share_percent > 0)
        p->config.refuse(ex, 429, 1000, "This caller has its share of the requests to sandboxes");
    else
        return false;
    return true;
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
    if (is_too_much(p, ex, limits, to))
        return;
    g = xcalloc(1, sizeof(*g));
    g->p = p;
    g->ex = ex;
    g->port = to->port;
    g->idle_ns = limits->idle_ns;
    buf_init(&g->url, HEAD_MAX);
    buf_init(&g->text, HEAD_MAX);
    buf_init(&g->tunnel, HEAD_MAX);
    g->box = proxy_load_get(&p->boxes, to->box);
    g->caller = proxy_load_get(&p->callers, to->caller);
    if (tunnel_is_wanted(ex)) {
        count(g, 1);
        start_tunnel(g, to);
        return;
    }
    if (!proxy_make_request(g, to)) {
        p->config.refuse(ex, 400, 0, "Bad request target");
        count(g, 1); /* so that it can be taken back */
        passage_free(g);
        return;
    }
    count(g, 1); /* what `to` points to may be gone from here on */
    start(g);
}
