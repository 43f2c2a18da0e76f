/* str.h - strings with limits: bounded copies, checked number parsing, hex, comparisons that do
 * not leak time. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Copies into an array of `cap` bytes; false (and dst is "") when it does not fit. */
MUST_CHECK bool str_copy(char *dst, size_t cap, const char *src);
MUST_CHECK bool str_copy_n(char *dst, size_t cap, const char *src, size_t len);
/* Copies what fits, for texts where the tail does not matter (messages). */
void str_copy_cut(char *dst, size_t cap, const char *src);

static inline bool str_is_empty(const char *s)
{
    return s[0] == '\0';
}

/* Decimal digits only, whole string, in range. */
MUST_CHECK bool str_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);
/* Sixteen lower-case hex digits. */
MUST_CHECK bool str_parse_hex64(const char *s, uint64_t *ret);
/* "512", "64k", "512M", "2g", "1T": bytes, powers of 1024. */
MUST_CHECK bool str_parse_size(const char *s, uint64_t *ret);

/* `dst` has room for 2 * len + 1. */
void str_hex(char *dst, const void *data, size_t len);
/* `dst` has room for 17: the form of box ids. */
void str_hex64(char *dst, uint64_t v);

/* 1 to max characters, letters, digits and `extra`. */
bool str_is_name(const char *s, size_t max, const char *extra);

/* Bytes of the UTF-8 character at s (not the NUL); 0 when there is none. */
size_t str_utf8_len(const char *s);
/* NUL is a character. Behind the text there must be a NUL, too. */
bool str_is_utf8(const char *text, size_t len);

/* Edits (insert, delete, replace, swap of neighbours) that lead from a to b, for "did you mean". Words of
 * more than STR_WORD_MAX bytes are that far from every other. */
enum { STR_WORD_MAX = 64 };
unsigned str_distance(const char *a, size_t a_len, const char *b, size_t b_len);
/* Whether `d` edits in a word of `len` bytes are few enough for a typing error. */
static inline bool str_is_near(unsigned d, size_t len)
{
    return d <= (len / 3 < 3 ? len / 3 : 3);
}

/* Same time whatever the contents; lengths are not secret. */
bool str_equal_secret(const char *a, const char *b);

/* "2026-11-16T00:34:38.123Z" for a wall clock in ms; `dst` has room for 32. */
void str_iso8601(char *dst, uint64_t wall_ms);

#endif
