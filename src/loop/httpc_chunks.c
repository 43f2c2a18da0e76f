/* httpc_chunks.c - see httpc_chunks.h. As lenient as libcurl, so that both see the same chunks. */
#include "loop/httpc_chunks.h"

#include "base/effort.h"

enum { DIGITS_MAX = 15 }; /* so that a size fits */

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool take_size(struct httpc_chunks *c, char byte)
{
    int digit = digit_of(byte);

    if (digit >= 0) {
        c->left = c->left * 16 + (unsigned) digit;
        c->digits++;
        return c->digits <= DIGITS_MAX;
    }
    if (c->digits == 0)
        return false;
    c->state = HTTPC_CHUNKS_LINE;
    return true;
}

/* One byte that is no payload. */
static bool take_framing(struct httpc_chunks *c, char byte)
{
    if (c->state == HTTPC_CHUNKS_SIZE && !take_size(c, byte))
        return false;
    if (c->state == HTTPC_CHUNKS_LINE && byte == '\n') {
        c->state = c->left > 0 ? HTTPC_CHUNKS_DATA : HTTPC_CHUNKS_TAIL;
        c->count++;
    } else if (c->state == HTTPC_CHUNKS_DATA_END) {
        if (byte != '\r' && byte != '\n')
            return false;
        if (byte == '\n') {
            c->state = HTTPC_CHUNKS_SIZE;
            c->digits = 0;
            c->left = 0;
        }
    }
    c->framing++;
    return true;
}

bool httpc_chunks_take(struct httpc_chunks *c, const char *data, size_t len, size_t extra_max,
                       struct buf *out)
{
    size_t at = 0;

    while (at < len) {
        if (c->state == HTTPC_CHUNKS_DATA) {
            size_t piece = c->left < len - at ? (size_t) c->left : len - at;

            buf_append(out, data + at, piece);
            at += piece;
            c->left -= piece;
            if (c->left == 0)
                c->state = HTTPC_CHUNKS_DATA_END;
        } else if (take_framing(c, data[at])) {
            at++;
        } else {
            return false;
        }
    }
    return c->framing <= extra_max + EFFORT_CHUNK_FREE * c->count;
}
