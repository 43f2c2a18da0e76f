/* reply.h - the bytes of an answer: status line, headers, the one error form. Pure. */
#ifndef HTTP_REPLY_H
#define HTTP_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum reply_framing { REPLY_LENGTH, REPLY_CHUNKED, REPLY_UNTIL_CLOSE, REPLY_FRAMING_COUNT };

struct reply_head {
    int status;
    const char *content_type; /* NULL: none */
    enum reply_framing framing;
    size_t length;             /* for REPLY_LENGTH */
    bool is_closing;           /* Connection: close */
    bool says_keep_alive;      /* HTTP/1.0 needs the header */
    const struct buf *headers; /* more of them, each with its CRLF */
};

/* "" for a status nobody has named. */
const char *reply_status_text(int status);
/* 1xx, 204 and 304 have neither body nor Content-Length. */
bool reply_has_body(int status);
void reply_put_head(struct buf *out, const struct reply_head *head);
/* The error as JSON. retry_after_ms 0: none. */
void reply_put_error(struct buf *out, int code, const char *message, uint64_t retry_after_ms);
/* The HTTP status of a code; one that is never sent is our mistake: 500. */
int reply_error_status(int code);
void reply_put_u64(struct buf *out, uint64_t v);

#endif
