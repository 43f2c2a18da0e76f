/* base64.c - base64 in one pass each way; a character is worth -1 (wrong) or its six bits. */
#include "base/base64.h"

#include <stdint.h>

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    if (c == '/' || c == '_')
        return 63;
    return -1;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool base64_decode(const char *text, size_t len, struct buf *out)
{
    uint32_t bits = 0;
    unsigned count = 0; /* characters in `bits` */
    unsigned padding = 0;

    (void) buf_reserve(out, len / 4 * 3 + 3);
    for (size_t i = 0; i < len; i++) {
        int v;

        if (is_space(text[i]))
            continue;
        if (text[i] == '=') {
            padding++;
            continue;
        }
        v = value_of(text[i]);
        if (v < 0 || padding > 0)
            return false;
        bits = bits << 6 | (uint32_t) v;
        count++;
        if (count == 4) {
            const char bytes[] = {(char) (bits >> 16), (char) (bits >> 8), (char) bits};

            buf_append(out, bytes, sizeof(bytes));
            bits = 0;
            count = 0;
        }
    }
    if (count == 1 || (padding > 0 && (count + padding != 4 || count == 0)))
        return false;
    if (count == 2)
        buf_putc(out, (char) (bits >> 4));
    if (count == 3) {
        buf_putc(out, (char) (bits >> 10));
        buf_putc(out, (char) (bits >> 2));
    }
    return true;
}

static void encode(const char *letters, const void *data, size_t len, struct buf *out)
{
    const unsigned char *p = data;

    (void) buf_reserve(out, (len + 2) / 3 * 4);
    for (size_t i = 0; i < len; i += 3) {
        size_t n = MIN_OF(len - i, (size_t) 3);
        uint32_t bits = (uint32_t) p[i] << 16 | (uint32_t) (n > 1 ? p[i + 1] : 0) << 8 |
                        (uint32_t) (n > 2 ? p[i + 2] : 0);
        char text[4];

        for (unsigned k = 0; k < 4; k++)
            text[k] = k <= n ? letters[bits >> (18 - 6 * k) & 63] : '=';
        buf_append(out, text, sizeof(text));
    }
}

void base64_encode(const void *data, size_t len, struct buf *out)
{
    encode("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", data, len, out);
}

void base64_encode_url(const void *data, size_t len, struct buf *out)
{
    encode("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", data, len, out);
}
