/* tunnel_head.h - what a tunnel sends to a box before it is open, and what it makes of the answer, which comes from a
 * stranger: strict, bounded, and without I/O. */
#ifndef BOX_TUNNEL_HEAD_H
#define BOX_TUNNEL_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "box/proxy.h"
#include "http/http.h"
#include "loop/resolve.h"

enum {
    TUNNEL_HEAD_MAX = 16 * 1024,
    TUNNEL_BODY_MAX = 256 * 1024, /* of an answer that opens nothing */
};

/* The address of a box: http only. */
struct tunnel_address {
    char host[RESOLVE_HOST]; /* without brackets */
    uint16_t port;
    const char *authority; /* in the url; its length */
    size_t authority_len;
    const char *path; /* in the url: "", or from the slash on */
};

bool tunnel_read_url(const char *url, struct tunnel_address *ret);

/* Request line and headers for the box: those of proxy_put_headers(), `host` and the upgrade. */
void tunnel_put_request(struct buf *out, const struct http_exchange *ex,
                        const struct box_proxy_to *to, const char *path, const char *host,
                        size_t host_len);

enum tunnel_state {
    TUNNEL_MORE,
    TUNNEL_OPEN,  /* 101 with Upgrade; for CONNECT any 2xx */
    TUNNEL_OTHER, /* another answer, and it is whole */
    TUNNEL_BAD,   /* no HTTP, or too long */
    TUNNEL_STATE_COUNT
};

enum chunk_state { CHUNK_SIZE, CHUNK_EXTENSION, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER };

struct tunnel_answer {
    bool is_connect; /* set by the caller: the answer to a CONNECT */
    int status;      /* 0: the head is not there */
    struct buf head; /* as it comes; then "Name: value\n" lines */
    struct buf body; /* of TUNNEL_OTHER; with TUNNEL_OPEN the bytes behind the head */
    int64_t length;  /* of the body; -1: until the end */
    bool is_chunked;
    bool has_upgrade;
    enum chunk_state chunk;
    uint64_t chunk_left;
    size_t line_len;
    size_t raw; /* bytes of body and framing */
};

void tunnel_answer_init(struct tunnel_answer *a, bool is_connect);
void tunnel_answer_fini(struct tunnel_answer *a);
enum tunnel_state tunnel_answer_feed(struct tunnel_answer *a, const char *data, size_t len);
/* The box has closed. */
enum tunnel_state tunnel_answer_end(const struct tunnel_answer *a);
/* Adds the headers that are for the client; those of an upgrade with TUNNEL_OPEN. Splits the lines: once. */
void tunnel_add_headers(struct tunnel_answer *a, struct http_exchange *ex, bool is_open);

#endif
