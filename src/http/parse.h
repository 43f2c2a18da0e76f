/* parse.h - bytes to one bounded request. Pure: no sockets, no clock, so that it can be fuzzed.
 *
 * parse_start(), then parse_feed() with whatever has arrived, in pieces of any size. It stops at
 * the end of the headers and at the end of the message and says how many bytes it took; the bytes
 * behind belong to the next request. Names, values and target are copied, so the fed bytes may go
 * away at once. */
#ifndef HTTP_PARSE_H
#define HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/http.h"

enum { PARSE_HEADERS_MAX = 100, PARSE_TARGET_MAX = 16 * 1024, PARSE_STATE_SIZE = 128 };

enum parse_result {
    PARSE_MORE,   /* took everything, wants more */
    PARSE_HEAD,   /* headers complete; without has_body the message is complete too */
    PARSE_PAUSED, /* on_body() said so; go on with parse_feed(), even if there is nothing to feed */
    PARSE_DONE,   /* message complete */
    PARSE_BAD,    /* error and reason say why; start again */
    PARSE_RESULT_COUNT
};

struct parse_header {
    uint32_t name; /* offsets into text */
    uint32_t value;
};

struct parse {
    /* valid from PARSE_HEAD on */
    enum http_method method;
    const char *method_text; /* as it was sent; static */
    bool is_http11;
    bool is_kept_alive;
    bool has_body;
    bool wants_continue;
    uint64_t content_length; /* 0 for chunks */
    uint32_t target;         /* offsets into text */
    uint32_t path;
    unsigned header_count;
    struct parse_header headers[PARSE_HEADERS_MAX];
    struct buf text;

    /* set by the caller at PARSE_HEAD when there is a body */
    uint64_t body_max;
    bool (*on_body)(struct parse *p, const char *data, size_t len); /* false: pause */

    /* valid with PARSE_BAD */
    int error;          /* a code of sandpool/errors.h */
    const char *reason; /* static text */

    /* the parser's own */
    uint64_t body_seen;
    uint64_t body_raw; /* with chunk sizes, extensions and trailers */
    uint64_t chunks;
    size_t head_max;
    size_t head_seen;
    size_t target_len;
    bool takes_connect; /* set by the caller behind parse_start(): CONNECT with a host and a port */
    bool is_target_done;
    bool is_version_done;
    bool is_head_done;
    bool is_done;
    bool is_paused;
    void *state[PARSE_STATE_SIZE / sizeof(void *)]; /* llhttp's */
};

void parse_init(struct parse *p);
void parse_fini(struct parse *p);
/* A new request; keeps the memory of the last one. `head_max` bounds request line and headers. */
void parse_start(struct parse *p, size_t head_max);
enum parse_result parse_feed(struct parse *p, const char *data, size_t len, size_t *ret_used);

/* NULL when absent; the first one of that name. */
const char *parse_header(const struct parse *p, const char *name);

static inline const char *parse_text(const struct parse *p, uint32_t offset)
{
    return buf_str(&p->text) + offset;
}

#endif
