/* json_text.h - bytes that come in pieces as the inside of a JSON string. */
#ifndef AGENT_OWN_JSON_TEXT_H
#define AGENT_OWN_JSON_TEXT_H

#include "base/buf.h"

/* A character, or a group of three bytes, that has begun in one piece and ends in the next. */
struct json_text {
    bool is_base64;
    unsigned char part[4];
    unsigned len;
    unsigned need;     /* bytes of the character */
    unsigned char low; /* the next byte must lie between these */
    unsigned char high;
    bool
        want_skip; /* bytes that only continue a character are left out: it began in what is missing */
};

void json_text_init(struct json_text *t, bool is_base64);
/* Appends `data`: escaped, with U+FFFD in place of what is not UTF-8; or as base64. */
void json_text_put(struct json_text *t, const char *data, size_t len, struct buf *out);
/* Bytes are missing here: a character that was cut is left out at both sides. Base64 goes on. */
void json_text_cut(struct json_text *t);
/* All has come: appends what is left. */
void json_text_end(struct json_text *t, struct buf *out);

#endif
