/* buf.h - growing byte buffer that is born with its maximum. Growth past the maximum, or past
 * memory, marks the buffer as failed; later appends do nothing and buf_failed() is true. So a long
 * series of appends needs one check at its end. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

struct buf {
    char *data; /* NUL-terminated when not NULL; the NUL is not counted */
    size_t len;
    size_t cap;
    size_t max;
    bool is_failed;
};

void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b);
/* Empties without giving memory back; clears the failure. */
void buf_reset(struct buf *b);
/* Drops the first n bytes. */
void buf_consume(struct buf *b, size_t n);

/* Makes room for n more bytes; false (and failed) when that is over the maximum. */
bool buf_reserve(struct buf *b, size_t n);
void buf_append(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
/* For a part of a URL: all but letters, digits and - _ . ~ as %XX. */
void buf_put_escaped(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

static inline bool buf_failed(const struct buf *b)
{
    return b->is_failed;
}

/* The text so far; "" when nothing was ever appended. */
static inline const char *buf_str(const struct buf *b)
{
    return b->data != NULL ? b->data : "";
}

/* Gives the bytes (NUL-terminated, from malloc, may be NULL) to the caller; the buffer is empty after. */
char *buf_take(struct buf *b, size_t *ret_len);

#endif
