/* answer.c - the handler's side of an answer: whole or streamed. A call on a connection that is
 * gone already does nothing but note that the answer was ended; the connection notifies the handler. */
#include <stdio.h>
#include <string.h>

#include "http/conn.h"
#include "http/reply.h"

static const char *const json_type = "application/json";

static bool is_header_text(const char *s)
{
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char) *s;

        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

void http_add_header(struct http_exchange *ex, const char *name, const char *value)
{
    assert(!ex->is_begun && !ex->is_ended);
    assert(name[0] != '\0' && strpbrk(name, ": \t") == NULL && is_header_text(name));
    assert(is_header_text(value));
    buf_puts(&ex->headers, name);
    buf_puts(&ex->headers, ": ");
    buf_puts(&ex->headers, value);
    buf_puts(&ex->headers, "\r\n");
}

void http_on_sent(struct http_exchange *ex, void (*on_sent)(void *ctx, int result), void *ctx)
{
    ex->on_sent = on_sent;
    ex->sent_ctx = ctx;
}

void http_on_taken(struct http_exchange *ex, void (*on_taken)(void *ctx, int result), void *ctx)
{
    ex->on_taken = on_taken;
    ex->taken_ctx = ctx;
}

/* Fills in what every answer of this connection says and puts the head to ex->out. */
static void put_head(struct http_exchange *ex, struct reply_head *head)
{
    const struct conn *c = ex->conn;

    if (!ex->req.is_kept_alive || c->server->is_stopping || head->framing == REPLY_UNTIL_CLOSE)
        ex->must_close = true;
    if (!ex->must_linger && upgrade_is_asked(ex)) { /* what follows may be no request */
        ex->must_close = true;
        ex->must_linger = true;
    }
    head->is_closing = ex->must_close;
    head->says_keep_alive = !ex->req.is_http11;
    head->headers = &ex->headers;
    reply_put_head(&ex->out, head);
}

static void put_reply(struct http_exchange *ex, int status, const char *content_type,
                      const char *body, size_t len)
{
    struct reply_head head = {
        .status = status, .content_type = content_type, .framing = REPLY_LENGTH, .length = len};

    buf_reset(&ex->out);
    put_head(ex, &head);
    if (ex->req.method != HTTP_METHOD_HEAD && reply_has_body(status))
        buf_append(&ex->out, body, len);
}

void http_reply(struct http_exchange *ex, int status, const char *content_type, const char *body,
                size_t len)
{
    static const char no_memory[] = "{\"error\":{\"code\":\"no_memory\","
                                    "\"message\":\"not enough memory for the answer\"}}";
    struct conn *c = ex->conn;

    assert(!ex->is_begun && !ex->is_ended);
    if (ex->input != EXCHANGE_DONE) {
        ex->must_close = true; /* what is left of the body would be read as a request */
        ex->must_linger = true;
    }
    put_reply(ex, status, content_type, body, len);
    if (buf_failed(&ex->headers) || buf_failed(&ex->out)) {
        buf_reset(&ex->headers);
        put_reply(ex, 503, json_type, no_memory, strlen(no_memory));
    }
    ex->is_ended = true;
    if (buf_failed(&ex->out))
        conn_close(c);
    else
        conn_send_buf(c, &ex->out);
    conn_defer(c);
}

void http_reply_json(struct http_exchange *ex, int status, struct json_out *o)
{
    struct buf *text = &ex->conn->server->scratch;

    buf_reset(text);
    json_out_finish(o, text);
    if (buf_failed(text))
        http_reply_error(ex, SP_NO_MEMORY, "not enough memory for the answer", 0);
    else
        http_reply(ex, status, json_type, buf_str(text), text->len);
    if (text->cap > CONN_READ_SIZE)
        buf_fini(text);
}

void http_reply_error(struct http_exchange *ex, int code, const char *message,
                      uint64_t retry_after_ms)
{
    int status = reply_error_status(code);
    int sent_code = sp_error_info(code)->http_status != 0 ? code : SP_INTERNAL;
    const struct http_server_config *config = &ex->conn->server->config;
    const char *type = json_type;
    struct buf shown;
    struct buf text;

    if (retry_after_ms > 0 && (status == 429 || status == 503)) {
        char seconds[24];

        (void) snprintf(seconds, sizeof(seconds), "%llu",
                        (unsigned long long) (retry_after_ms / 1000 + (retry_after_ms % 1000 > 0)));
        http_add_header(ex, "Retry-After", seconds);
    }
    buf_init(&text, 64 * 1024);
    buf_init(&shown, 64 * 1024);
    if (config->put_message != NULL) {
        config->put_message(ex, code, message, &shown);
        message = buf_str(&shown);
    }
    if (config->put_error != NULL)
        type = config->put_error(&text, sent_code, message);
    else
        reply_put_error(&text, sent_code, message, retry_after_ms);
    http_reply(ex, status, type, buf_str(&text), text.len);
    buf_fini(&text);
    buf_fini(&shown);
}

void http_reply_err(struct http_exchange *ex, const struct err *err)
{
    const char *message = err->msg[0] != '\0' ? err->msg : sp_error_info(err->code)->text;

    http_reply_error(ex, err->code, message, 0);
}

static void begin(struct http_exchange *ex, struct reply_head *head)
{
    assert(!ex->is_begun && !ex->is_ended && reply_has_body(head->status));
    buf_reset(&ex->out);
    put_head(ex, head);
    ex->is_begun = true;
    ex->is_chunked = head->framing == REPLY_CHUNKED;
    ex->is_sized = head->framing == REPLY_LENGTH && ex->req.method != HTTP_METHOD_HEAD;
    ex->length_left = head->length;
    if (buf_failed(&ex->headers) || buf_failed(&ex->out))
        conn_close(ex->conn);
    else
        conn_send_buf(ex->conn, &ex->out);
}

void http_begin(struct http_exchange *ex, int status, const char *content_type)
{
    struct reply_head head = {.status = status,
                              .content_type = content_type,
                              .framing = ex->req.is_http11 ? REPLY_CHUNKED : REPLY_UNTIL_CLOSE};

    begin(ex, &head);
}

void http_begin_sized(struct http_exchange *ex, int status, const char *content_type,
                      uint64_t length)
{
    struct reply_head head = {
        .status = status, .content_type = content_type, .framing = REPLY_LENGTH, .length = length};

    begin(ex, &head);
}

/* False when it is more than was announced: the client would take the rest for another answer. */
static bool count_written(struct http_exchange *ex, size_t len)
{
    if (!ex->is_sized)
        return true;
    if (len > ex->length_left)
        return false;
    ex->length_left -= len;
    return true;
}

size_t http_write(struct http_exchange *ex, const char *data, size_t len)
{
    struct conn *c = ex->conn;
    char size[24];
    uv_buf_t bufs[3];
    size_t held = c->held;
    size_t unsent;

    assert(ex->is_begun && !ex->is_ended && len <= REPLY_MAX);
    if (c->phase != CONN_OPEN)
        return 0;
    if (!count_written(ex, len)) {
        conn_close(c);
        return 0;
    }
    if (len > 0 && ex->req.method != HTTP_METHOD_HEAD) {
        int n = snprintf(size, sizeof(size), "%zx\r\n", len);

        bufs[0] = uv_buf_init(size, (unsigned) n);
        bufs[1] = uv_buf_init((char *) (uintptr_t) data, (unsigned) len);
        bufs[2] = uv_buf_init(size + n - 2, 2);
        if (ex->is_chunked)
            conn_send(c, bufs, 3);
        else
            conn_send(c, bufs + 1, 1);
    }
    unsent = conn_unsent(c);
    if (unsent > c->server->limits.stream_max || (c->held > held && held_is_over(c))) {
        conn_close(c);
        return unsent;
    }
    if (unsent >= HTTP_HIGH_WATER)
        ex->wants_drain = true;
    return unsent;
}

void http_set_drain(struct http_exchange *ex, void (*on_drain)(struct http_exchange *ex))
{
    ex->on_drain = on_drain;
}

void http_end(struct http_exchange *ex)
{
    struct conn *c = ex->conn;
    char last[] = "0\r\n\r\n";
    uv_buf_t buf = uv_buf_init(last, sizeof(last) - 1);

    assert(ex->is_begun && !ex->is_ended);
    ex->is_ended = true;
    if (ex->is_sized && ex->length_left > 0)
        conn_close(c); /* the client waits for the rest */
    if (ex->is_chunked && ex->req.method != HTTP_METHOD_HEAD)
        conn_send(c, &buf, 1);
    if (ex->input != EXCHANGE_DONE) {
        ex->must_close = true;
        ex->must_linger = true;
    }
    conn_defer(c);
}

void http_abort(struct http_exchange *ex)
{
    ex->is_ended = true;
    conn_close(ex->conn);
}

void answer_continue(struct http_exchange *ex)
{
    char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    uv_buf_t buf = uv_buf_init(text, sizeof(text) - 1);

    if (ex->req.wants_continue && !ex->is_begun)
        conn_send(ex->conn, &buf, 1);
}
