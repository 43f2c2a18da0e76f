/* exchange.c - one request from its headers to its handler: memory, route, guard, body. Exchanges
 * are pooled, because a connection has one only while it is being served. */
#include "http/conn.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct http_exchange *exchange_new(struct conn *c)
{
    struct http_server *s = c->server;
    struct list_node *n = list_pop_front(&s->pool);
    struct http_exchange *ex;

    if (n != NULL) {
        ex = container_of(n, struct http_exchange, link);
    } else {
        ex = xcalloc(1, sizeof(*ex));
        parse_init(&ex->req);
        buf_init(&ex->headers, 64 * 1024);
        buf_init(&ex->out, REPLY_MAX);
    }
    ex->conn = c;
    ex->body.max = s->limits.max_body_bytes;
    ex->raw.max = s->limits.max_header_bytes + 2 * s->limits.max_body_bytes;
    parse_start(&ex->req, s->limits.max_header_bytes);
    ex->req.takes_connect = s->has_connect;
    return ex;
}

void exchange_free(struct http_exchange *ex)
{
    parse_fini(&ex->req);
    buf_fini(&ex->body);
    buf_fini(&ex->raw);
    buf_fini(&ex->headers);
    buf_fini(&ex->out);
    free(ex);
}

static void recycle_buf(struct buf *b)
{
    if (b->cap > EXCHANGE_KEEP_BYTES)
        buf_fini(b);
    else
        buf_reset(b);
}

static void count_use(struct http_server *s, int delta)
{
    s->stats.serving = delta > 0 ? s->stats.serving + 1 : s->stats.serving - 1;
    s->stats.used_ns = rt_now(&s->loop->rt);
}

void exchange_release(struct http_exchange *ex)
{
    struct http_server *s = ex->conn->server;

    turns_leave(ex);
    if (ex->is_use)
        count_use(s, -1);
    if (s->pool.len >= EXCHANGE_POOL_MAX) {
        exchange_free(ex);
        return;
    }
    recycle_buf(&ex->req.text);
    recycle_buf(&ex->body);
    recycle_buf(&ex->raw);
    recycle_buf(&ex->headers);
    recycle_buf(&ex->out);
    ex->match.route = NULL;
    ex->match.param_count = 0;
    memset(&ex->ctx, 0, sizeof(*ex) - offsetof(struct http_exchange, ctx));
    list_push_front(&s->pool, &ex->link);
}

void exchange_lost(struct http_exchange *ex)
{
    void (*on_gone)(void *) = ex->on_gone;
    void (*on_sent)(void *, int) = ex->on_sent;
    void (*on_taken)(void *, int) = ex->on_taken;
    bool was_owned = ex->is_owned;

    turns_leave(ex);
    ex->on_gone = NULL;
    ex->on_sent = NULL;
    ex->on_taken = NULL;
    ex->is_owned = false;
    if (ex->is_ended) {
        if (on_sent != NULL)
            on_sent(ex->sent_ctx, SP_IO);
        if (on_taken != NULL)
            on_taken(ex->taken_ctx, SP_IO);
    } else if (was_owned && on_gone != NULL) {
        on_gone(ex->ctx);
    }
}

void exchange_refuse(struct http_exchange *ex, int code, const char *message,
                     uint64_t retry_after_ms)
{
    struct conn *c = ex->conn;

    if (!c->is_refused)
        c->server->stats.bad_requests++;
    exchange_lost(ex);
    if (c->phase != CONN_OPEN || ex->is_ended)
        return;
    if (ex->is_begun) {
        conn_close(c); /* half an answer is out: only a broken connection says that it failed */
        return;
    }
    ex->on_drain = NULL;
    ex->must_close = true;
    ex->must_linger = true;
    buf_reset(&ex->headers);
    http_reply_error(ex, code, message, retry_after_ms);
}

static void refuse_route(struct http_exchange *ex)
{
    struct buf allow;

    if (ex->match.allowed == 0) {
        http_reply_error(ex, SP_NO_ROUTE, "no such path", 0);
        return;
    }
    buf_init(&allow, 128);
    router_allow(ex->match.allowed, &allow);
    http_add_header(ex, "Allow", buf_str(&allow));
    buf_fini(&allow);
    http_reply_error(ex, SP_METHOD_NOT_ALLOWED, "this path does not support the method", 0);
}

static bool keep_body(struct parse *p, const char *data, size_t len)
{
    struct http_exchange *ex = container_of(p, struct http_exchange, req);

    buf_append(&ex->body, data, len);
    return !buf_failed(&ex->body);
}

static bool migrate_on_body(struct parse *p, const char *data, size_t len)
{
    struct http_exchange *ex = container_of(p, struct http_exchange, req);

    if (ex->on_data != NULL)
        ex->on_data(ex, data, len);
    return !ex->is_paused && !ex->is_ended && ex->conn->phase == CONN_OPEN;
}

/* Most bytes of body that this route takes. */
static uint64_t body_limit(const struct http_exchange *ex)
{
    const struct http_route *route = ex->match.route;

    if (route->body_max > 0)
        return route->body_max;
    if ((route->flags & HTTP_STREAM) != 0)
        return UINT64_MAX;
    /* Nobody looks at it, so it must not take memory: the health can be asked by strangers. */
    if (route->method == HTTP_METHOD_GET || (route->flags & HTTP_OPEN) != 0)
        return MIN_OF(ex->conn->server->limits.max_body_bytes, (size_t) BODY_UNUSED_MAX);
    return ex->conn->server->limits.max_body_bytes;
}

static int ask_guard(struct http_exchange *ex, struct err *err)
{
    const struct http_server_config *config = &ex->conn->server->config;

    return config->guard != NULL ? config->guard(ex, ex->match.route, err) : SP_OK;
}

static bool guard_refuses(struct http_exchange *ex)
{
    struct err err = {0};
    int r = ask_guard(ex, &err);

    if (ex->is_over_share) {
        exchange_refuse(ex, SP_TOO_MANY_CONNECTIONS,
                        "this caller has its share of the connections, the rest is kept for other "
                        "callers",
                        1000);
        return true;
    }
    if (r == SP_OK)
        return false;
    err.code = r;
    http_reply_err(ex, &err);
    return true;
}

static void start_stream(struct http_exchange *ex)
{
    ex->is_owned = true;
    if (ex->input != EXCHANGE_DONE)
        buf_fini(&ex->raw); /* its body goes by: it cannot be repeated */
    ex->req.on_body = migrate_on_body;
    ex->match.route->handle(ex);
    if (ex->is_ended || ex->conn->phase != CONN_OPEN)
        return;
    if (ex->input == EXCHANGE_DONE) {
        if (ex->on_end != NULL && !ex->is_upgraded)
            ex->on_end(ex);
        return;
    }
    answer_continue(ex);
}

static void start_buffered(struct http_exchange *ex)
{
    ex->body.max = (size_t) ex->req.body_max;
    if (ex->input == EXCHANGE_DONE) {
        ex->is_owned = true;
        ex->match.route->handle(ex);
        return;
    }
    ex->req.on_body = keep_body;
    /* No more than a read's worth before it has arrived: the length is only a claim. */
    (void) buf_reserve(&ex->body, MIN_OF((size_t) ex->req.content_length, (size_t) CONN_READ_SIZE));
    answer_continue(ex);
}

/* It is its turn. */
static void begin(struct http_exchange *ex)
{
    struct http_server *s = ex->conn->server;

    s->stats.requests++;
    if (ex->match.route == NULL) {
        refuse_route(ex);
        return;
    }
    if (guard_refuses(ex) || held_refuses(ex))
        return;
    ex->is_use = (ex->match.route->flags & HTTP_QUIET) == 0;
    if (ex->is_use)
        count_use(s, 1);
    ex->req.body_max = body_limit(ex);
    if (ex->req.content_length > ex->req.body_max)
        exchange_refuse(ex, SP_BODY_TOO_LARGE, "the request body is too large", 0);
    else if ((ex->match.route->flags & HTTP_STREAM) != 0)
        start_stream(ex);
    else
        start_buffered(ex);
}

static void begin_late(struct http_exchange *ex)
{
    ex->is_paused = false;
    begin(ex);
    conn_defer(ex->conn); /* its body may be there */
}

/* Whose turn it waits for, the guard knows. It is asked again when it is its turn. */
static void wait_to_begin(struct http_exchange *ex)
{
    struct err err = {0};

    if (ex->match.route != NULL)
        (void) ask_guard(ex, &err);
    ex->is_paused = true; /* its body waits, too */
    turns_wait(ex, begin_late);
}

void exchange_start(struct http_exchange *ex)
{
    struct http_server *s = ex->conn->server;

    ex->input = ex->req.has_body ? EXCHANGE_BODY : EXCHANGE_DONE;
    ex->body_left_ns = s->limits.header_timeout_ms * NS_PER_MS;
    router_find(s->config.routes, s->config.pair_prefix, ex->req.method, http_target(ex),
                &ex->match);
    if (turns_have_room(ex->conn))
        turns_go(ex, begin);
    else
        wait_to_begin(ex);
}

static void handle_body(struct http_exchange *ex)
{
    ex->is_owned = true;
    ex->match.route->handle(ex);
}

void exchange_finish_body(struct http_exchange *ex)
{
    ex->input = EXCHANGE_DONE;
    if ((ex->match.route->flags & HTTP_STREAM) != 0) {
        if (ex->on_end != NULL && !ex->is_ended)
            ex->on_end(ex);
    } else if (turns_has_begun(ex) || turns_have_room(ex->conn)) {
        turns_go(ex, handle_body);
    } else {
        turns_wait(ex, handle_body);
    }
}

void http_body_start(struct http_exchange *ex,
                     void (*on_data)(struct http_exchange *ex, const char *data, size_t len),
                     void (*on_end)(struct http_exchange *ex))
{
    ex->on_data = on_data;
    ex->on_end = on_end;
}

void http_body_pause(struct http_exchange *ex)
{
    ex->is_paused = true;
}

void http_body_resume(struct http_exchange *ex)
{
    ex->is_paused = false;
    conn_defer(ex->conn);
}
