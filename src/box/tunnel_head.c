/* tunnel_head.c - the request of a tunnel as bytes, and the bytes of a box as an answer. What two readers could
 * understand differently is refused. */
#include "box/tunnel_head.h"

#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "base/str.h"
#include "box/proxy_head.h"
#include "box/proxy_headers.h"

enum { LINE_MAX_BYTES = 1024 /* of a chunk's size and extensions, and of trailers */ };

/* --- the request --- */

bool tunnel_read_url(const char *url, struct tunnel_address *ret)
{
    static const char scheme[] = "http://";
    const char *host = url + sizeof(scheme) - 1;
    const char *end;
    size_t len;
    uint64_t port = 80;

    if (strncasecmp(url, scheme, sizeof(scheme) - 1) != 0)
        return false;
    ret->authority = host;
    ret->authority_len = strcspn(host, "/?#");
    ret->path = host + ret->authority_len;
    if (memchr(host, '@', ret->authority_len) != NULL)
        return false;
    if (host[0] == '[') {
        host++;
        len = strcspn(host, "]");
        end = host + len + 1;
    } else {
        len = strcspn(host, ":/?#");
        end = host + len;
    }
    if (len == 0 || end > ret->path || !str_copy_n(ret->host, sizeof(ret->host), host, len))
        return false;
    if (*end == ':') {
        char text[8];

        if (!str_copy_n(text, sizeof(text), end + 1, (size_t) (ret->path - end - 1)) ||
            !str_parse_u64(text, 1, 65535, &port))
            return false;
    } else if (end != ret->path) {
        return false;
    }
    ret->port = (uint16_t) port;
    return true;
}

static void put_header(struct buf *out, const char *name, const char *value)
{
    buf_puts(out, name);
    buf_puts(out, ": ");
    buf_puts(out, value);
    buf_puts(out, "\r\n");
}

void tunnel_put_request(struct buf *out, const struct http_exchange *ex,
                        const struct box_proxy_to *to, const char *path, const char *host,
                        size_t host_len)
{
    buf_puts(out, http_method_text(ex));
    buf_putc(out, ' ');
    buf_puts(out, path);
    buf_puts(out, " HTTP/1.1\r\nHost: ");
    buf_append(out, host, host_len);
    buf_puts(out, "\r\n");
    proxy_put_headers(ex, to, put_header, out);
    put_header(out, "Connection", "Upgrade");
    put_header(out, "Upgrade", http_upgrade_wanted(ex));
    buf_puts(out, "\r\n");
}

/* --- the head of the answer --- */

void tunnel_answer_init(struct tunnel_answer *a, bool is_connect)
{
    *a = (struct tunnel_answer){.is_connect = is_connect, .length = -1};
    buf_init(&a->head, TUNNEL_HEAD_MAX);
    buf_init(&a->body, TUNNEL_BODY_MAX);
}

void tunnel_answer_fini(struct tunnel_answer *a)
{
    buf_fini(&a->head);
    buf_fini(&a->body);
}

static bool is_name_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* A line without its end. */
static bool is_clean(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char) line[i];

        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool read_status(const char *line, size_t len, int *ret)
{
    char text[4];
    uint64_t status;

    if (len < 12 || strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') ||
        line[8] != ' ' || (len > 12 && line[12] != ' ') || !is_clean(line, len) ||
        !str_copy_n(text, sizeof(text), line + 9, 3) || !str_parse_u64(text, 100, 599, &status))
        return false;
    *ret = (int) status;
    return true;
}

static bool read_framing(struct tunnel_answer *a, const char *name, const char *value)
{
    uint64_t length;

    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        if (a->is_chunked || strcasecmp(value, "chunked") != 0)
            return false;
        a->is_chunked = true;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        if (a->length >= 0 || !str_parse_u64(value, 0, INT64_MAX, &length))
            return false;
        a->length = (int64_t) length;
    } else if (strcasecmp(name, "Upgrade") == 0) {
        a->has_upgrade = true;
    }
    return true;
}

static bool read_header(struct tunnel_answer *a, const char *line, size_t len, struct buf *lines)
{
    size_t name_len = 0;
    size_t at;
    size_t start = lines->len;

    while (name_len < len && is_name_char(line[name_len]))
        name_len++;
    if (name_len == 0 || name_len == len || line[name_len] != ':' || !is_clean(line, len))
        return false;
    at = name_len + 1;
    while (at < len && (line[at] == ' ' || line[at] == '\t'))
        at++;
    while (len > at && (line[len - 1] == ' ' || line[len - 1] == '\t'))
        len--;
    buf_append(lines, line, name_len);
    buf_append(lines, "", 1);
    buf_append(lines, line + at, len - at);
    if (buf_failed(lines))
        return false;
    if (!read_framing(a, lines->data + start, lines->data + start + name_len + 1))
        return false;
    lines->data[start + name_len] = ':';
    buf_putc(lines, '\n');
    return !buf_failed(lines);
}

/* Turns the head into lines; `len` is that of the head with its end. */
static bool read_head(struct tunnel_answer *a, size_t len)
{
    const char *at = a->head.data;
    const char *end = at + len - 2; /* the empty line */
    struct buf lines;
    bool is_good = true;

    buf_init(&lines, TUNNEL_HEAD_MAX);
    for (bool is_first = true; is_good && at < end; is_first = false) {
        const char *stop = memmem(at, (size_t) (end - at), "\r\n", 2);
        size_t line_len = stop != NULL ? (size_t) (stop - at) : (size_t) (end - at);

        if (is_first)
            is_good = read_status(at, line_len, &a->status);
        else
            is_good = read_header(a, at, line_len, &lines);
        at += line_len + 2;
    }
    if (a->is_chunked && a->length >= 0)
        is_good = false;
    if (a->status == 204 || a->status == 304) {
        a->length = 0;
        a->is_chunked = false;
    }
    buf_fini(&a->head);
    a->head = lines;
    return is_good && a->status != 0;
}

/* --- the body of an answer that opens nothing --- */

static bool end_size_line(struct tunnel_answer *a)
{
    a->chunk = a->chunk_left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
    a->line_len = 0;
    return true;
}

static bool take_size_digit(struct tunnel_answer *a, char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *digit = c != '\0' ? strchr(digits, c) : NULL;

    if (digit == NULL || a->chunk_left > TUNNEL_BODY_MAX)
        return false;
    a->chunk_left = a->chunk_left * 16 + (uint64_t) ((digit - digits) % 16);
    return true;
}

/* One byte of framing; false: wrong. `*ret_done`: the last one. */
static bool take_framing(struct tunnel_answer *a, char c, bool *ret_done)
{
    a->line_len++;
    if (a->line_len > LINE_MAX_BYTES)
        return false;
    switch (a->chunk) {
    case CHUNK_SIZE:
        if (c == ';' || c == '\r') {
            a->chunk = CHUNK_EXTENSION;
            return a->line_len > 1;
        }
        return take_size_digit(a, c);
    case CHUNK_EXTENSION:
        return c != '\n' || end_size_line(a);
    case CHUNK_DATA_END:
        if (c != '\n')
            return c == '\r' && a->line_len == 1;
        a->chunk = CHUNK_SIZE;
        a->line_len = 0;
        return true;
    case CHUNK_TRAILER:
        if (c != '\n')
            return true;
        *ret_done = a->line_len <= 2; /* an empty line */
        a->line_len = 0;
        return true;
    case CHUNK_DATA:
        break;
    }
    return false;
}

static enum tunnel_state feed_chunks(struct tunnel_answer *a, const char *data, size_t len)
{
    bool is_done = false;

    for (size_t i = 0; i < len && !is_done;) {
        if (a->chunk == CHUNK_DATA) {
            size_t n = (size_t) MIN_OF(a->chunk_left, (uint64_t) (len - i));

            buf_append(&a->body, data + i, n);
            i += n;
            a->chunk_left -= n;
            if (a->chunk_left == 0)
                a->chunk = CHUNK_DATA_END;
        } else if (!take_framing(a, data[i++], &is_done)) {
            return TUNNEL_BAD;
        }
    }
    if (buf_failed(&a->body))
        return TUNNEL_BAD;
    return is_done ? TUNNEL_OTHER : TUNNEL_MORE;
}

static enum tunnel_state feed_body(struct tunnel_answer *a, const char *data, size_t len)
{
    a->raw += len;
    if (a->raw > 2 * TUNNEL_BODY_MAX || a->length > TUNNEL_BODY_MAX)
        return TUNNEL_BAD;
    if (a->is_chunked)
        return feed_chunks(a, data, len);
    if (a->length >= 0)
        len = MIN_OF(len, (size_t) a->length - a->body.len);
    buf_append(&a->body, data, len);
    if (buf_failed(&a->body))
        return TUNNEL_BAD;
    return a->length >= 0 && a->body.len == (size_t) a->length ? TUNNEL_OTHER : TUNNEL_MORE;
}

static bool opens(const struct tunnel_answer *a)
{
    if (a->is_connect)
        return a->status >= 200 && a->status <= 299;
    return a->status == 101 && a->has_upgrade;
}

enum tunnel_state tunnel_answer_feed(struct tunnel_answer *a, const char *data, size_t len)
{
    size_t before = a->head.len;
    size_t room = TUNNEL_HEAD_MAX - before;
    size_t from = before > 3 ? before - 3 : 0;
    const char *end;
    size_t head_len;

    if (a->status != 0)
        return feed_body(a, data, len);
    buf_append(&a->head, data, MIN_OF(len, room));
    if (buf_failed(&a->head))
        return TUNNEL_BAD;
    end =
        a->head.len > from ? memmem(a->head.data + from, a->head.len - from, "\r\n\r\n", 4) : NULL;
    if (end == NULL)
        return a->head.len >= TUNNEL_HEAD_MAX ? TUNNEL_BAD : TUNNEL_MORE;
    head_len = (size_t) (end - a->head.data) + 4;
    if (!read_head(a, head_len))
        return TUNNEL_BAD;
    data += head_len - before;
    len -= head_len - before;
    if (opens(a)) {
        buf_append(&a->body, data, len);
        return buf_failed(&a->body) ? TUNNEL_BAD : TUNNEL_OPEN;
    }
    if (a->status < 200) /* nothing that we asked for is answered with an interim one */
        return TUNNEL_BAD;
    return feed_body(a, data, len);
}

enum tunnel_state tunnel_answer_end(const struct tunnel_answer *a)
{
    return a->status != 0 && !a->is_chunked && a->length < 0 ? TUNNEL_OTHER : TUNNEL_BAD;
}

void tunnel_add_headers(struct tunnel_answer *a, struct http_exchange *ex, bool is_open)
{
    struct buf hops;
    char *at = a->head.data;
    char *name;
    char *value;

    buf_init(&hops, TUNNEL_HEAD_MAX);
    for (const char *line = buf_str(&a->head); *line != '\0'; line = strchr(line, '\n') + 1) {
        size_t len = strcspn(line, "\n");

        if (strncasecmp(line, "Connection:", 11) == 0) {
            buf_append(&hops, line + 11, len - 11);
            buf_putc(&hops, ',');
        }
    }
    while (at != NULL && proxy_next_line(&at, &name, &value)) {
        bool is_upgrade = is_open && strcasecmp(name, "Upgrade") == 0;

        if (is_upgrade || (proxy_passes_answer(name) && !proxy_names(buf_str(&hops), name)))
            http_add_header(ex, name, value);
    }
    if (is_open)
        http_add_header(ex, "Connection", "Upgrade");
    buf_fini(&hops);
}
