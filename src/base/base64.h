/* base64.h - base64 (RFC 4648): both alphabets are read and written. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"

/* Appends the bytes behind `text` to out. White space is skipped and padding may be missing; anything
 * else that is not base64 gives false. A buffer that fails says so itself. */
MUST_CHECK bool base64_decode(const char *text, size_t len, struct buf *out);
/* Append the text of the bytes, with padding. */
void base64_encode(const void *data, size_t len, struct buf *out);
void base64_encode_url(const void *data, size_t len, struct buf *out);

#endif
