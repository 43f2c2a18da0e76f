/* buf.c - bounded byte buffer. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

void buf_init(struct buf *b, size_t max)
{
    assert(max <= SIZE_MAX / 4); /* so that the sums below cannot wrap */
    memset(b, 0, sizeof(*b));
    b->max = max;
}

void buf_fini(struct buf *b)
{
    free(b->data);
    buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->is_failed = false;
    if (b->data != NULL)
        b->data[0] = '\0';
}

void buf_consume(struct buf *b, size_t n)
{
    assert(n <= b->len);
    if (n == 0)
        return;
    b->len -= n;
    memmove(b->data, b->data + n, b->len + 1);
}

bool buf_reserve(struct buf *b, size_t n)
{
    size_t cap = b->cap > 0 ? b->cap : 128;
    char *data;

    if (b->is_failed || n > b->max - b->len) {
        b->is_failed = true;
        return false;
    }
    if (b->len + n + 1 <= b->cap)
        return true;
    while (cap < b->len + n + 1)
        cap *= 2;
    data = try_realloc(b->data, cap);
    if (data == NULL) {
        b->is_failed = true;
        return false;
    }
    if (b->data == NULL)
        data[0] = '\0';
    b->data = data;
    b->cap = cap;
    return true;
}

void buf_append(struct buf *b, const void *data, size_t len)
{
    if (len == 0 || !buf_reserve(b, len))
        return;
    memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
    buf_append(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
    buf_append(b, &c, 1);
}

void buf_put_escaped(struct buf *b, const char *s)
{
    for (; *s != '\0'; s++) {
        const char one[2] = {*s, '\0'};

        if (str_is_name(one, 1, "-_.~"))
            buf_putc(b, *s);
        else
            buf_printf(b, "%%%02X", (unsigned) (unsigned char) *s);
    }
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_list again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && buf_reserve(b, (size_t) n)) {
        (void) vsnprintf(b->data + b->len, (size_t) n + 1, fmt, again);
        b->len += (size_t) n;
    }
    va_end(again);
}

char *buf_take(struct buf *b, size_t *ret_len)
{
    char *data = b->data;

    if (ret_len != NULL)
        *ret_len = b->len;
    buf_init(b, b->max);
    return data;
}
