/* target.h - request targets: which part is the path, percent decoding, query parameters. Pure. */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

/* Where path and query begin in a raw target: 0 for "/a?b", behind the authority for
 * "http://host/a?b". False for every other form ("host:80", "a/b", with a fragment). */
MUST_CHECK bool target_origin(const char *raw, size_t *ret_start);

/* Decodes `len` bytes to a string at dst. False, and dst is "", for a broken escape, for an
 * escaped NUL, and when it does not fit. */
MUST_CHECK bool target_decode(const char *src, size_t len, bool plus_is_space, char *dst,
                              size_t cap);

/* The first parameter of that name in the query of `target`, decoded. */
MUST_CHECK bool target_query(const char *target, const char *name, char *dst, size_t cap);

#endif
