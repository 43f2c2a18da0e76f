/* reply.c - status line, headers and error form as bytes. On the path of every request, so it
 * appends and never formats. */
#include "http/reply.h"

#include <string.h>

#include "base/json.h"
#include "sandpool/errors.h"

const char *reply_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (texts[i].status == status)
            return texts[i].text;
    }
    return "";
}

bool reply_has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

void reply_put_u64(struct buf *out, uint64_t v)
{
    char digits[20];
    size_t n = sizeof(digits);

    do {
        digits[--n] = (char) ('0' + v % 10);
        v /= 10;
    } while (v > 0);
    buf_append(out, digits + n, sizeof(digits) - n);
}

static void put_framing(struct buf *out, const struct reply_head *head)
{
    switch (head->framing) {
    case REPLY_LENGTH:
        buf_puts(out, "Content-Length: ");
        reply_put_u64(out, head->length);
        buf_puts(out, "\r\n");
        break;
    case REPLY_CHUNKED:
        buf_puts(out, "Transfer-Encoding: chunked\r\n");
        break;
    case REPLY_UNTIL_CLOSE:
    case REPLY_FRAMING_COUNT:
        break;
    }
}

void reply_put_head(struct buf *out, const struct reply_head *head)
{
    assert(head->status >= 200 && head->status <= 599);
    (void) buf_reserve(out, 256); /* most answers fit: one allocation */
    buf_puts(out, "HTTP/1.1 ");
    reply_put_u64(out, (uint64_t) head->status);
    buf_putc(out, ' ');
    buf_puts(out, reply_status_text(head->status));
    buf_puts(out, "\r\n");
    if (head->content_type != NULL) {
        buf_puts(out, "Content-Type: ");
        buf_puts(out, head->content_type);
        buf_puts(out, "\r\n");
    }
    if (reply_has_body(head->status))
        put_framing(out, head);
    if (head->is_closing)
        buf_puts(out, "Connection: close\r\n");
    else if (head->says_keep_alive)
        buf_puts(out, "Connection: keep-alive\r\n");
    buf_append(out, buf_str(head->headers), head->headers->len);
    buf_puts(out, "\r\n");
}

void reply_put_error(struct buf *out, int code, const char *message, uint64_t retry_after_ms)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_obj(&o, "error");
    json_put_str(&o, "code", sp_error_info(code)->name);
    json_put_str(&o, "message", message);
    if (retry_after_ms > 0)
        json_put_u64(&o, "retry_after_ms", retry_after_ms);
    json_end(&o);
    json_end(&o);
    json_out_finish(&o, out);
}

int reply_error_status(int code)
{
    int status = sp_error_info(code)->http_status;

    return status != 0 ? status : 500;
}
