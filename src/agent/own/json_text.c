/* json_text.c - UTF-8 is checked as the Unicode standard recommends: what cannot be continued is replaced
 * by one U+FFFD, and the byte that did not fit begins anew. */
#include "agent/own/json_text.h"

#include <string.h>

#include "base/base64.h"

static const char replacement[] = "\xef\xbf\xbd";

void json_text_init(struct json_text *t, bool is_base64)
{
    memset(t, 0, sizeof(*t));
    t->is_base64 = is_base64;
}

static void put_ascii(unsigned char c, struct buf *out)
{
    static const char digits[] = "0123456789abcdef";

    switch (c) {
    case '"':
        buf_puts(out, "\\\"");
        break;
    case '\\':
        buf_puts(out, "\\\\");
        break;
    case '\n':
        buf_puts(out, "\\n");
        break;
    case '\r':
        buf_puts(out, "\\r");
        break;
    case '\t':
        buf_puts(out, "\\t");
        break;
    default:
        if (c < 0x20) {
            const char escape[] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};

            buf_append(out, escape, sizeof(escape));
        } else {
            buf_putc(out, (char) c);
        }
    }
}

/* Surrogates, overlong forms and what lies behind U+10FFFF are no characters. */
static bool begin_character(struct json_text *t, unsigned char c)
{
    if (c < 0xc2 || c > 0xf4)
        return false;
    t->part[0] = c;
    t->len = 1;
    t->need = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    t->low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    t->high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    return true;
}

static void put_byte(struct json_text *t, unsigned char c, struct buf *out)
{
    if (t->len > 0 && c >= t->low && c <= t->high) {
        t->part[t->len++] = c;
        t->low = 0x80;
        t->high = 0xbf;
        if (t->len < t->need)
            return;
        buf_append(out, t->part, t->len);
        t->len = 0;
        return;
    }
    if (t->len > 0)
        buf_puts(out, replacement);
    t->len = 0;
    if (c < 0x80)
        put_ascii(c, out);
    else if (!begin_character(t, c))
        buf_puts(out, replacement);
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static void put_utf8(struct json_text *t, const char *data, size_t len, struct buf *out)
{
    size_t i = 0;

    while (t->want_skip && i < len && i < 3 && ((unsigned char) data[i] & 0xc0) == 0x80)
        i++;
    t->want_skip = false;
    while (i < len) {
        size_t run = i;

        while (t->len == 0 && run < len && is_plain((unsigned char) data[run]))
            run++;
        buf_append(out, data + i, run - i);
        if (run < len)
            put_byte(t, (unsigned char) data[run], out);
        i = run + 1;
    }
}

static void put_base64(struct json_text *t, const char *data, size_t len, struct buf *out)
{
    size_t n = 0;

    while (t->len > 0 && t->len < 3 && n < len)
        t->part[t->len++] = (unsigned char) data[n++];
    if (t->len == 3) {
        base64_encode(t->part, 3, out);
        t->len = 0;
    }
    if (t->len > 0)
        return;
    data += n;
    len -= n;
    base64_encode(data, len / 3 * 3, out);
    t->len = (unsigned) (len % 3);
    memcpy(t->part, data + len - t->len, t->len);
}

void json_text_put(struct json_text *t, const char *data, size_t len, struct buf *out)
{
    if (len == 0)
        return;
    if (t->is_base64)
        put_base64(t, data, len, out);
    else
        put_utf8(t, data, len, out);
}

void json_text_cut(struct json_text *t)
{
    if (t->is_base64)
        return;
    t->len = 0;
    t->want_skip = true;
}

void json_text_end(struct json_text *t, struct buf *out)
{
    if (t->is_base64)
        base64_encode(t->part, t->len, out);
    else if (t->len > 0)
        buf_puts(out, replacement);
    t->len = 0;
}
