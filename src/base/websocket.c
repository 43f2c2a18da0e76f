/* websocket.c - frames to messages and back. Nothing is negotiated, so every reserved bit is an error. */
#include "base/websocket.h"

#include <string.h>

#include "base/base64.h"
#include "base/compiler.h"
#include "base/rand.h"
#include "base/sha1.h"
#include "base/str.h"

/* --- the handshake --- */

/* Sixteen bytes in base64. */
static bool is_key(const char *key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = strspn(key, digits);

    return len == 22 && strcmp(key + len, "==") == 0;
}

static void put_base64(char *dst, size_t cap, const void *data, size_t len)
{
    struct buf text;

    buf_init(&text, cap);
    base64_encode(data, len, &text);
    str_copy_cut(dst, cap, buf_str(&text));
    buf_fini(&text);
}

void websocket_make_key(char ret[WEBSOCKET_KEY_LEN + 1])
{
    unsigned char bytes[16];

    rand_secure(bytes, sizeof(bytes));
    put_base64(ret, WEBSOCKET_KEY_LEN + 1, bytes, sizeof(bytes));
}

bool websocket_accept(const char *key, char ret[WEBSOCKET_ACCEPT_LEN + 1])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char digest[SHA1_LEN];
    char text[64];

    if (!is_key(key))
        return false;
    memcpy(text, key, 24);
    memcpy(text + 24, guid, sizeof(guid));
    sha1(text, strlen(text), digest);
    put_base64(ret, WEBSOCKET_ACCEPT_LEN + 1, digest, sizeof(digest));
    return true;
}

/* --- frames of the other side --- */

void websocket_reader_init(struct websocket_reader *r, size_t max)
{
    memset(r, 0, sizeof(*r));
    buf_init(&r->message, max);
}

void websocket_reader_fini(struct websocket_reader *r)
{
    buf_fini(&r->message);
}

static bool is_control(const struct websocket_reader *r)
{
    return (r->opcode & 8) != 0;
}

/* Bytes of a longer length than fits into the first two of the head. */
static size_t length_size(const unsigned char *head)
{
    unsigned len = head[1] & 0x7f;

    return len == 126 ? 2 : len == 127 ? 8 : 0;
}

static bool is_masked(const unsigned char *head)
{
    return (head[1] & 0x80) != 0;
}

/* Bytes of the head; known when the first two are there. */
static size_t head_size(const unsigned char *head)
{
    return 2 + length_size(head) + (is_masked(head) ? 4 : 0);
}

static int check_first(const struct websocket_reader *r)
{
    unsigned opcode = r->head[0] & 0x0f;
    bool is_known = opcode <= 2 || (opcode >= 8 && opcode <= 10);

    if ((r->head[0] & 0x70) != 0 || !is_known || is_masked(r->head) == r->is_client)
        return WEBSOCKET_PROTOCOL;
    if (opcode >= 8)
        return (r->head[0] & 0x80) == 0 || (r->head[1] & 0x7f) > WEBSOCKET_CONTROL_MAX
                   ? WEBSOCKET_PROTOCOL
                   : 0;
    return (opcode == WEBSOCKET_MORE) != (r->kind != WEBSOCKET_MORE) ? WEBSOCKET_PROTOCOL : 0;
}

static int begin_frame(struct websocket_reader *r)
{
    size_t bytes = length_size(r->head);
    uint64_t len = bytes == 0 ? r->head[1] & 0x7f : 0;

    for (size_t i = 0; i < bytes; i++)
        len = len << 8 | r->head[2 + i];
    if ((bytes == 2 && len < 126) || (bytes == 8 && (len < 65536 || len > INT64_MAX)))
        return WEBSOCKET_PROTOCOL; /* not the shortest form */
    r->opcode = (enum websocket_opcode)(r->head[0] & 0x0f);
    r->is_last = (r->head[0] & 0x80) != 0;
    r->left = len;
    r->mask_at = 0;
    r->control_len = 0;
    r->is_in_frame = true;
    if (is_control(r))
        return 0;
    if (r->opcode != WEBSOCKET_MORE)
        r->kind = r->opcode;
    return len > r->message.max - r->message.len ? WEBSOCKET_TOO_BIG : 0;
}

/* The status of a close frame must be one that may be sent. */
static bool is_close(const char *data, size_t len)
{
    unsigned status;

    if (len == 0)
        return true;
    if (len == 1)
        return false;
    status = (unsigned) (unsigned char) data[0] << 8 | (unsigned char) data[1];
    return ((status >= 1000 && status <= 1014 && status != 1004 && status != 1005 &&
             status != 1006) ||
            (status >= 3000 && status <= 4999)) &&
           str_is_utf8(data + 2, len - 2);
}

/* False: the receiver wants no more. */
static bool end_frame(struct websocket_reader *r)
{
    bool goes_on = true;

    r->is_in_frame = false;
    r->head_len = 0;
    if (is_control(r)) {
        if (r->opcode == WEBSOCKET_CLOSE && !is_close(r->control, r->control_len)) {
            r->failure = WEBSOCKET_PROTOCOL;
            return true;
        }
        return r->on_message(r, r->opcode, r->control, r->control_len);
    }
    if (!r->is_last)
        return true;
    if (r->kind == WEBSOCKET_TEXT && !str_is_utf8(buf_str(&r->message), r->message.len))
        r->failure = WEBSOCKET_NOT_TEXT;
    else
        goes_on = r->on_message(r, r->kind, buf_str(&r->message), r->message.len);
    r->kind = WEBSOCKET_MORE;
    if (r->message.cap > 64 * 1024)
        buf_fini(&r->message);
    else
        buf_reset(&r->message);
    return goes_on;
}

static void apply_mask(char *dst, const char *data, size_t len, const unsigned char *mask,
                       size_t mask_at)
{
    for (size_t i = 0; i < len; i++)
        dst[i] = (char) ((unsigned char) data[i] ^ mask[(mask_at + i) & 3]);
}

static void take_data(struct websocket_reader *r, const char *data, size_t len)
{
    char *dst = r->control + r->control_len;

    if (is_control(r)) {
        r->control_len += len;
    } else if (buf_reserve(&r->message, len)) {
        dst = r->message.data + r->message.len;
        r->message.len += len;
        r->message.data[r->message.len] = '\0';
    } else {
        r->failure = WEBSOCKET_TOO_BIG;
        return;
    }
    if (is_masked(r->head))
        apply_mask(dst, data, len, r->head + head_size(r->head) - 4, r->mask_at);
    else
        memcpy(dst, data, len);
    r->mask_at = (r->mask_at + len) & 3;
    r->left -= len;
}

/* Bytes of the head that were taken. */
static size_t take_head(struct websocket_reader *r, const char *data, size_t len)
{
    size_t want = r->head_len < 2 ? 2 : head_size(r->head);
    size_t n = MIN_OF(want - r->head_len, len);

    memcpy(r->head + r->head_len, data, n);
    r->head_len += n;
    if (r->head_len == 2 && want == 2)
        r->failure = check_first(r);
    if (r->failure == 0 && r->head_len >= 2 && r->head_len == head_size(r->head))
        r->failure = begin_frame(r);
    return n;
}

int websocket_feed(struct websocket_reader *r, const char *data, size_t len)
{
    size_t at = 0;

    while (r->failure == 0) {
        if (r->is_in_frame && r->left == 0) {
            if (!end_frame(r))
                return 0;
            continue;
        }
        if (at == len)
            break;
        if (r->is_in_frame) {
            size_t n = (size_t) MIN_OF(r->left, (uint64_t) (len - at));

            take_data(r, data + at, n);
            at += n;
        } else {
            at += take_head(r, data + at, len - at);
        }
    }
    return r->failure;
}

/* --- frames of ours --- */

static void put_head(struct buf *out, enum websocket_opcode opcode, size_t len, unsigned mask_bit)
{
    buf_putc(out, (char) (0x80 | (unsigned) opcode));
    if (len < 126) {
        buf_putc(out, (char) (mask_bit | len));
    } else if (len < 65536) {
        buf_putc(out, (char) (mask_bit | 126));
        buf_putc(out, (char) (len >> 8));
        buf_putc(out, (char) len);
    } else {
        buf_putc(out, (char) (mask_bit | 127));
        for (int shift = 56; shift >= 0; shift -= 8)
            buf_putc(out, (char) ((uint64_t) len >> shift));
    }
}

void websocket_put_head(struct buf *out, enum websocket_opcode opcode, size_t len)
{
    put_head(out, opcode, len, 0);
}

void websocket_put_masked(struct buf *out, enum websocket_opcode opcode, const void *data,
                          size_t len)
{
    unsigned char mask[4];

    rand_secure(mask, sizeof(mask));
    put_head(out, opcode, len, 0x80);
    buf_append(out, mask, sizeof(mask));
    if (!buf_reserve(out, len))
        return;
    apply_mask(out->data + out->len, data, len, mask, 0);
    out->len += len;
    out->data[out->len] = '\0';
}

void websocket_put_close(struct buf *out, int status, const char *text)
{
    size_t len = MIN_OF(strlen(text), (size_t) WEBSOCKET_CONTROL_MAX - 2);

    websocket_put_head(out, WEBSOCKET_CLOSE, 2 + len);
    buf_putc(out, (char) (status >> 8));
    buf_putc(out, (char) status);
    buf_append(out, text, len);
}
