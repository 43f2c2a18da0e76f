/* proxy.c - /s/{sandbox_id}/...: a request goes to its box and the answer comes back, both as they
 * arrive. Whoever is faster waits: each direction holds some hundred KiB, however long it is.
 *
 *   client -> on_body() -> httpc_body_write()      pauses the client above BODY_HIGH
 *   client <- http_write() <- on_answer() <- box   pauses the box above HTTP_HIGH_WATER */
#include "provisioner/proxy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"

enum {
    ANSWER_MAX = 128 * 1024, /* of an answer, between box and client */
    BODY_HIGH = 128 * 1024,
    HEAD_MAX = 1024 * 1024, /* what the server lets in is less */
    HEADERS_MAX = 128,
    HOPS_MAX = 1024, /* of names in Connection */
};

/* How many requests a box has. */
struct proxy_load {
    struct map_node node;
    struct box_id box;
    unsigned count;
};

struct passage {
    struct httpc_request up;
    struct provisioner *p;
    struct http_exchange *ex; /* NULL: the client has gone */
    struct box_id box;
    struct proxy_load *load;
    struct rt_timer timer;
    uint64_t moved_ns; /* when something was last heard of either side */
    uint64_t idle_ns;
    struct buf url;
    struct buf text; /* of the headers */
    const char *headers[HEADERS_MAX + 4];
    bool is_begun;    /* the answer */
    bool is_bodyless; /* it has none: it is given when it is over */
    bool is_timed_out;
    bool is_senseless; /* the answer: it is not passed on */
};

/* --- how many --- */

static bool is_load_of(const struct map_node *node, const void *key)
{
    const struct box_id *box = key;

    return container_of((uintptr_t) node, struct proxy_load, node)->box.v == box->v;
}

static struct proxy_load *load_get(struct provisioner *p, struct box_id box)
{
    struct map_node *n = map_find(&p->loads, hash_u64(box.v), is_load_of, &box);
    struct proxy_load *load;

    if (n != NULL)
        return container_of(n, struct proxy_load, node);
    load = xcalloc(1, sizeof(*load));
    load->box = box;
    map_insert(&p->loads, &load->node, hash_u64(box.v));
    return load;
}

/* A box that is at work is not idle. */
static void count(struct passage *g, int delta)
{
    struct provisioner *p = g->p;
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY, .box = g->box, .u.activity.delta = delta};

    if (delta > 0) {
        g->load->count++;
        p->passages++;
    } else {
        g->load->count--;
        p->passages--;
        if (g->load->count == 0) {
            map_remove(&p->loads, &g->load->node);
            free(g->load);
        }
    }
    engine_post(p->engine, &ev);
}

static void passage_free(struct passage *g)
{
    rt_timer_cancel(&g->p->loop->rt, &g->timer);
    count(g, -1);
    httpc_request_fini(&g->up);
    buf_fini(&g->url);
    buf_fini(&g->text);
    free(g);
}

/* --- standing still --- */

static void on_timer(struct rt_timer *timer)
{
    struct passage *g = container_of(timer, struct passage, timer);
    struct rt *rt = &g->p->loop->rt;
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
    g->moved_ns = rt_now(&g->p->loop->rt);
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
    for (; proxy_next_line(&at, &name, &value); count++) {
        if (strcasecmp(name, "Content-Length") == 0 && str_parse_u64(value, 0, INT64_MAX, &length))
            ret->length = (int64_t) length;
        is_coded = is_coded || strcasecmp(name, "Transfer-Encoding") == 0;
        if (strcasecmp(name, "Connection") == 0) {
            buf_puts(&ret->hops, value);
            buf_putc(&ret->hops, ',');
        }
    }
    if (is_coded)
        ret->length = -1;
    return count <= HEADERS_MAX && !buf_failed(&ret->hops);
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

/* What has come so far goes on; the box waits while the client is behind. */
static void pass_answer(struct passage *g)
{
    struct buf *piece = &g->up.response;

    moved(g);
    if (!g->is_begun && !begin_answer(g)) {
        g->is_senseless = true;
        op_cancel(&g->up.op); /* on_done() answers; when it is over already this does nothing */
        return;
    }
    if (g->is_bodyless || piece->len == 0)
        return;
    if (http_write(g->ex, piece->data, piece->len) >= HTTP_HIGH_WATER)
        httpc_pause(&g->up); /* when it is over already this does nothing */
    buf_consume(piece, piece->len);
}

static void on_answer(struct httpc_request *up)
{
    struct passage *g = container_of(up, struct passage, up);

    if (g->ex != NULL && !g->is_senseless)
        pass_answer(g);
}

static void refuse(struct passage *g, int result)
{
    if (g->is_timed_out)
        provisioner_refuse(g->ex, 504, 0, "The sandbox did not answer in time");
    else if (result == SP_CONNECT_FAILED)
        provisioner_refuse(g->ex, 502, 0, "The sandbox cannot be reached");
    else if (result == SP_CANCELLED)
        provisioner_refuse(g->ex, 503, 1000, "The provisioner is stopping");
    else
        provisioner_refuse(g->ex, 502, 0, "The sandbox did not answer: %s",
                           sp_error_info(result)->text);
}

static void on_done(struct op *op)
{
    struct passage *g = container_of(op, struct passage, up.op);
    int result = op->result;

    if (g->ex != NULL && result == SP_OK && !g->is_senseless)
        pass_answer(g); /* what was held back */
    if (g->is_senseless)
        result = SP_PROTOCOL;
    if (g->ex != NULL && result == SP_OK) {
        if (g->is_bodyless)
            http_reply(g->ex, g->up.status, NULL, "", 0);
        else
            http_end(g->ex);
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

static bool is_named_by_client(struct http_exchange *ex, const char *name)
{
    const char *other;
    const char *value;

    for (unsigned i = 0; http_header_at(ex, i, &other, &value); i++) {
        if (strcasecmp(other, "Connection") == 0 && proxy_names(value, name))
            return true;
    }
    return false;
}

/* libcurl leaves a header without a value out when it ends with a colon. */
static void put_header(struct buf *text, const char *name, const char *value)
{
    buf_puts(text, name);
    buf_puts(text, str_is_empty(value) ? ";" : ": ");
    buf_append(text, value, strlen(value) + 1);
}

static bool make_headers(struct passage *g, const char *token)
{
    const char *name;
    const char *value;
    unsigned n = 0;

    for (unsigned i = 0; http_header_at(g->ex, i, &name, &value); i++) {
        if (proxy_passes_request(name) && !is_named_by_client(g->ex, name))
            put_header(&g->text, name, value);
    }
    if (http_header(g->ex, "Accept") == NULL)
        buf_append(&g->text, "Accept:", sizeof("Accept:")); /* or libcurl makes one up */
    if (!str_is_empty(token)) {
        buf_puts(&g->text, "Authorization: Bearer ");
        buf_append(&g->text, token, strlen(token) + 1);
    }
    if (buf_failed(&g->text))
        return false;
    for (size_t at = 0; at < g->text.len && n < HEADERS_MAX; at += strlen(g->text.data + at) + 1)
        g->headers[n++] = g->text.data + at;
    return true;
}

static void start(struct passage *g)
{
    const struct config *c = engine_config(g->p->engine);
    int64_t length = http_body_length(g->ex);

    g->up.method = http_method_text(g->ex);
    g->up.url = buf_str(&g->url);
    g->up.headers = g->headers;
    g->up.want_headers = true;
    g->up.response_max = ANSWER_MAX;
    g->up.on_data = on_answer;
    /* libcurl repeats a request on a kept connection that breaks, and these may do something. */
    g->up.want_fresh =
        http_method(g->ex) != HTTP_METHOD_GET && http_method(g->ex) != HTTP_METHOD_HEAD;
    if (length != 0) {
        g->up.is_body_streamed = true;
        g->up.body_size = length;
        g->up.on_body_drain = on_body_drain;
    }
    g->idle_ns = c->provisioner.request_idle_s * NS_PER_S;
    moved(g);
    rt_timer_set(&g->p->loop->rt, &g->timer, rt_after(g->moved_ns, g->idle_ns), on_timer);
    http_set_ctx(g->ex, g, on_gone);
    if (length != 0)
        http_body_start(g->ex, on_body, on_body_end);
    httpc_start(g->p->http, &g->up, RT_NEVER, on_done); /* the timer is its deadline */
}

/* --- who may pass --- */

static bool has_token(struct http_exchange *ex, const char *token)
{
    static const char scheme[] = "Bearer ";
    const char *given = http_header(ex, "Authorization");

    return given != NULL && !str_is_empty(token) &&
           strncasecmp(given, scheme, strlen(scheme)) == 0 &&
           str_equal_secret(given + strlen(scheme), token);
}

/* The box that the request may use, and what of the target it gets; NULL for all others alike. */
static const struct pool_box *admit(struct http_exchange *ex, const char **ret_rest)
{
    static const struct pool_box nobody = {.token = ""};
    const struct provisioner *p = provisioner_of(ex);
    char capability[PROVISIONER_CAPABILITY_LEN + 1];
    struct proxy_target t;
    const struct pool_box *box;
    bool is_found;

    if (!proxy_split(http_target(ex), &t))
        return NULL;
    box = provisioner_find(p, t.id);
    is_found = box != NULL && !str_is_empty(box->url);
    if (!is_found)
        box = &nobody; /* takes as long */
    provisioner_capability(t.id, box->token, capability);
    if (str_equal_secret(t.capability, capability) && is_found && !str_is_empty(box->token)) {
        *ret_rest = t.rest_of_capability;
        http_prove(ex);
        return box;
    }
    if ((provisioner_has_key(ex) || has_token(ex, box->token)) && is_found) {
        *ret_rest = t.rest;
        http_prove(ex);
        return box;
    }
    return NULL;
}

/* The one sends back what we added, the token; the other asks for a tunnel. */
static bool is_refused_method(const struct http_exchange *ex)
{
    const char *method = http_method_text(ex);

    return strcmp(method, "TRACE") == 0 || strcmp(method, "CONNECT") == 0;
}

void provisioner_pass(struct http_exchange *ex)
{
    struct provisioner *p = provisioner_of(ex);
    const struct config *c = engine_config(p->engine);
    const char *rest = NULL;
    const struct pool_box *box = admit(ex, &rest);
    struct passage *g;

    if (box == NULL) {
        provisioner_refuse(ex, 404, 0, "Not Found");
        return;
    }
    if (is_refused_method(ex)) {
        provisioner_refuse(ex, 405, 0, "Method Not Allowed");
        return;
    }
    if (http_header(ex, "Upgrade") != NULL) {
        provisioner_refuse(ex, 501, 0, "Upgrade is not supported");
        return;
    }
    if (p->passages >= c->provisioner.max_requests) {
        provisioner_refuse(ex, 503, 1000, "Too many requests are being passed on");
        return;
    }
    g = xcalloc(1, sizeof(*g));
    g->p = p;
    g->ex = ex;
    g->box = box->id;
    g->load = load_get(p, box->id);
    buf_init(&g->url, HEAD_MAX);
    buf_init(&g->text, HEAD_MAX);
    count(g, 1); /* `box` may move from here on */
    box = pool_find_box(engine_pool(p->engine), g->box);
    if (g->load->count > c->provisioner.max_requests_per_box)
        provisioner_refuse(ex, 429, 1000, "Too many requests to this sandbox");
    else if (box == NULL || !proxy_url(box->url, rest, &g->url) || !make_headers(g, box->token))
        provisioner_refuse(ex, 400, 0, "Bad request target");
    else {
        start(g);
        return;
    }
    passage_free(g);
}
