/* parse.c - llhttp's callbacks fill one request. llhttp runs strict (no lenient flag is ever set):
 * what two parsers could read differently is refused, because that is how requests are smuggled.
 * The parser is started anew for every request and stops at its last byte. */
#include "http/parse.h"

#include <llhttp.h>
#include <string.h>
#include <strings.h>

#include "base/effort.h"
#include "http/target.h"

_Static_assert(sizeof(llhttp_t) <= PARSE_STATE_SIZE, "PARSE_STATE_SIZE is too small");

static llhttp_t *state_of(struct parse *p)
{
    return (llhttp_t *) (void *) p->state;
}

static int refuse(struct parse *p, int code, const char *reason)
{
    p->error = code;
    p->reason = reason;
    return HPE_USER;
}

static int add_text(struct parse *p, const char *at, size_t len)
{
    buf_append(&p->text, at, len);
    return buf_failed(&p->text) ? refuse(p, SP_NO_MEMORY, "not enough memory for the headers") : 0;
}

static int end_text(struct parse *p)
{
    return add_text(p, "", 1);
}

static int on_url(llhttp_t *s, const char *at, size_t len)
{
    struct parse *p = s->data;

    p->target_len += len;
    if (p->target_len > MIN_OF((size_t) PARSE_TARGET_MAX, p->head_max / 2))
        return refuse(p, SP_URI_TOO_LONG, "the request target is too long");
    return add_text(p, at, len);
}

static int on_url_complete(llhttp_t *s)
{
    struct parse *p = s->data;

    p->is_target_done = true;
    return end_text(p);
}

static int on_header_field(llhttp_t *s, const char *at, size_t len)
{
    struct parse *p = s->data;

    if (p->is_head_done)
        return 0; /* trailers are skipped */
    if (p->header_count == PARSE_HEADERS_MAX)
        return refuse(p, SP_HEADERS_TOO_LARGE, "too many headers");
    if (p->headers[p->header_count].name == 0)
        p->headers[p->header_count].name = (uint32_t) p->text.len;
    return add_text(p, at, len);
}

static int on_header_field_complete(llhttp_t *s)
{
    struct parse *p = s->data;
    int r;

    if (p->is_head_done)
        return 0;
    r = end_text(p);
    p->headers[p->header_count].value = (uint32_t) p->text.len;
    return r;
}

static int on_header_value(llhttp_t *s, const char *at, size_t len)
{
    struct parse *p = s->data;

    return p->is_head_done ? 0 : add_text(p, at, len);
}

static int on_header_value_complete(llhttp_t *s)
{
    struct parse *p = s->data;
    size_t start;

    if (p->is_head_done)
        return 0;
    start = p->headers[p->header_count].value;
    while (p->text.len > start && strchr(" \t", p->text.data[p->text.len - 1]) != NULL)
        p->text.len--;
    p->header_count++;
    if (p->header_count < PARSE_HEADERS_MAX)
        p->headers[p->header_count].name = 0;
    return end_text(p);
}

static enum http_method map_method(uint8_t method)
{
    switch (method) {
    case HTTP_GET:
        return HTTP_METHOD_GET;
    case HTTP_HEAD:
        return HTTP_METHOD_HEAD;
    case HTTP_POST:
        return HTTP_METHOD_POST;
    case HTTP_PUT:
        return HTTP_METHOD_PUT;
    case HTTP_PATCH:
        return HTTP_METHOD_PATCH;
    case HTTP_DELETE:
        return HTTP_METHOD_DELETE;
    default: /* llhttp's list, not ours: some thirty more */
        return HTTP_METHOD_OTHER;
    }
}

/* Finds where the path begins and puts the decoded path behind the other texts. */
static int check_target(struct parse *p)
{
    const char *raw = parse_text(p, p->target);
    bool is_connect = p->takes_connect && strcmp(p->method_text, "CONNECT") == 0 && raw[0] != '/';
    size_t start = 0;
    size_t path_len;

    if (is_connect)
        p->method = HTTP_METHOD_CONNECT;
    else if (!target_origin(raw, &start))
        return refuse(p, SP_BAD_REQUEST, "the request target must be a path");
    p->target += (uint32_t) start;
    path_len = strcspn(raw + start, "?");
    p->path = (uint32_t) p->text.len;
    if (!buf_reserve(&p->text, path_len + 1))
        return refuse(p, SP_NO_MEMORY, "not enough memory for the headers");
    raw = parse_text(p, p->target);
    if (!target_decode(raw, path_len, false, p->text.data + p->path, path_len + 1))
        return refuse(p, SP_BAD_REQUEST, "the request target has a broken escape");
    p->text.len += strlen(p->text.data + p->path);
    return end_text(p);
}

static unsigned count_headers(const struct parse *p, const char *name)
{
    unsigned n = 0;

    for (unsigned i = 0; i < p->header_count; i++)
        n += strcasecmp(parse_text(p, p->headers[i].name), name) == 0;
    return n;
}

/* llhttp has refused conflicting lengths already; here is what it takes and we do not. */
static int check_framing(struct parse *p, const llhttp_t *s)
{
    const char *coding = parse_header(p, "Transfer-Encoding");
    const char *expect = parse_header(p, "Expect");

    if (coding != NULL) {
        if (!p->is_http11)
            return refuse(p, SP_BAD_REQUEST, "HTTP/1.0 has no Transfer-Encoding");
        if (strcasecmp(coding, "chunked") != 0)
            return refuse(p, SP_UNSUPPORTED, "the only transfer encoding is chunked");
        if (count_headers(p, "Transfer-Encoding") > 1 || (s->flags & F_CHUNKED) == 0)
            return refuse(p, SP_BAD_REQUEST, "Transfer-Encoding is given twice");
    }
    if (count_headers(p, "Host") > 1)
        return refuse(p, SP_BAD_REQUEST, "Host is given twice");
    p->has_body = coding != NULL || s->content_length > 0;
    p->content_length = coding != NULL ? 0 : s->content_length;
    if (expect != NULL && p->is_http11) {
        if (strcasecmp(expect, "100-continue") != 0)
            return refuse(p, SP_EXPECTATION_FAILED, "only 'Expect: 100-continue' is supported");
        p->wants_continue = p->has_body;
    }
    return 0;
}

static int on_version_complete(llhttp_t *s)
{
    struct parse *p = s->data;

    if (s->http_major != 1 || s->http_minor > 1)
        return refuse(p, SP_HTTP_VERSION, "only HTTP/1.0 and HTTP/1.1 are supported");
    p->is_version_done = true;
    return 0;
}

static int on_headers_complete(llhttp_t *s)
{
    struct parse *p = s->data;

    p->method = map_method(s->method);
    p->method_text = llhttp_method_name((llhttp_method_t) s->method);
    if (on_version_complete(s) != 0) /* HTTP/0.9 has no version to complete */
        return -1;
    p->is_http11 = s->http_minor == 1;
    p->is_kept_alive = llhttp_should_keep_alive(s) != 0;
    if (check_target(p) != 0 || check_framing(p, s) != 0)
        return -1;
    s->upgrade = 0; /* Upgrade is ignored: what follows stays HTTP */
    p->is_head_done = true;
    return HPE_PAUSED;
}

static int on_body(llhttp_t *s, const char *at, size_t len)
{
    struct parse *p = s->data;

    if (len == 0)
        return 0; /* resumed behind the last byte of a piece */
    p->body_seen += len;
    if (p->body_seen > p->body_max)
        return refuse(p, SP_BODY_TOO_LARGE, "the request body is too large");
    return p->on_body(p, at, len) ? 0 : HPE_PAUSED;
}

static int on_chunk_header(llhttp_t *s)
{
    struct parse *p = s->data;

    p->chunks++;
    return 0;
}

static int on_message_complete(llhttp_t *s)
{
    struct parse *p = s->data;

    p->is_done = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_url_complete = on_url_complete,
    .on_version_complete = on_version_complete,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_chunk_header = on_chunk_header,
    .on_message_complete = on_message_complete,
};

void parse_init(struct parse *p)
{
    memset(p, 0, sizeof(*p));
    buf_init(&p->text, 0);
}

void parse_fini(struct parse *p)
{
    buf_fini(&p->text);
}

void parse_start(struct parse *p, size_t head_max)
{
    /* Everything but the header table, which is long, and the memory of the texts. */
    memset(p, 0, offsetof(struct parse, headers));
    memset(&p->body_max, 0, sizeof(*p) - offsetof(struct parse, body_max));
    p->headers[0].name = 0;
    /* Target and path once each, names and values with their NULs: less than three times. */
    p->text.max = 3 * head_max + 64;
    buf_reset(&p->text);
    p->head_max = head_max;
    llhttp_init(state_of(p), HTTP_REQUEST, &settings);
    state_of(p)->data = p;
}

/* Runs llhttp over `len` bytes; *ret_used is what it took. */
static llhttp_errno_t execute(struct parse *p, const char *data, size_t len, size_t *ret_used)
{
    llhttp_t *s = state_of(p);
    llhttp_errno_t e;

    if (p->is_paused) {
        p->is_paused = false;
        llhttp_resume(s);
    }
    e = llhttp_execute(s, data, len); /* also with nothing: a pause may hide the message's end */
    *ret_used = len;
    if (e == HPE_PAUSED) {
        *ret_used = (size_t) (llhttp_get_error_pos(s) - data);
        p->is_paused = true;
    }
    return e;
}

static enum parse_result fail(struct parse *p, llhttp_errno_t e)
{
    /* llhttp also calls it a bad version when the line end behind a good one is broken. */
    bool is_version = e == HPE_INVALID_VERSION && !p->is_version_done;

    if (p->error == SP_OK && (is_version || e == HPE_PAUSED_H2_UPGRADE))
        (void) refuse(p, SP_HTTP_VERSION, "only HTTP/1.0 and HTTP/1.1 are supported");
    else if (p->error == SP_OK)
        (void) refuse(p, SP_BAD_REQUEST, llhttp_get_error_reason(state_of(p)));
    return PARSE_BAD;
}

static enum parse_result feed_head(struct parse *p, const char *data, size_t len, size_t *ret_used)
{
    llhttp_errno_t e = execute(p, data, MIN_OF(len, p->head_max - p->head_seen), ret_used);

    p->head_seen += *ret_used;
    if (e != HPE_OK && e != HPE_PAUSED)
        return fail(p, e);
    if (p->is_head_done)
        return PARSE_HEAD;
    if (p->head_seen < p->head_max)
        return PARSE_MORE;
    if (p->is_target_done)
        (void) refuse(p, SP_HEADERS_TOO_LARGE, "the request headers are too large");
    else
        (void) refuse(p, SP_URI_TOO_LONG, "the request target is too long");
    return PARSE_BAD;
}

enum parse_result parse_feed(struct parse *p, const char *data, size_t len, size_t *ret_used)
{
    llhttp_errno_t e;

    *ret_used = 0;
    assert(!p->is_done);
    if (p->error != SP_OK)
        return PARSE_BAD;
    if (len == 0 && !p->is_paused)
        return PARSE_MORE;
    if (!p->is_head_done)
        return feed_head(p, data, len, ret_used);
    assert(p->has_body && p->on_body != NULL);
    e = execute(p, data, len, ret_used);
    p->body_raw += *ret_used;
    if (e != HPE_OK && e != HPE_PAUSED)
        return fail(p, e);
    /* One byte per chunk is allowed; extensions and trailers have the room of the headers. */
    if (p->body_raw - p->body_seen > p->head_max + EFFORT_CHUNK_FREE * p->chunks) {
        (void) refuse(
            p, SP_BAD_REQUEST,
            "the extensions and trailers of the chunks are longer than the headers may be");
        return PARSE_BAD;
    }
    if (p->is_done)
        return PARSE_DONE;
    return e == HPE_PAUSED ? PARSE_PAUSED : PARSE_MORE;
}

const char *parse_header(const struct parse *p, const char *name)
{
    for (unsigned i = 0; i < p->header_count; i++) {
        if (strcasecmp(parse_text(p, p->headers[i].name), name) == 0)
            return parse_text(p, p->headers[i].value);
    }
    return NULL;
}
