/* httpc.h - HTTP client: libcurl's multi interface as operations on the loop.
 *
 * The op's deadline rules; libcurl's own timeouts are only a belt. Bodies are bounded. Redirects
 * are not followed, proxies of the environment are not used, host names must be IP literals,
 * "localhost" or a Unix socket (a resolver thread would make cancelling block). A request that
 * creates something uses a fresh connection, because libcurl resends silently on a reused one. */
#ifndef LOOP_HTTPC_H
#define LOOP_HTTPC_H

#include "base/buf.h"
#include "base/op.h"
#include "loop/loop.h"

struct httpc;

struct httpc_request {
    struct op op;
    /* set by the caller, borrowed until on_done() */
    const char *method; /* "GET", "POST", "DELETE", ... */
    const char *url;
    const char *unix_socket;    /* NULL: TCP */
    const char *const *headers; /* "Name: value", ends with NULL; or NULL */
    const char *body;
    size_t body_len;
    size_t response_max; /* a longer body fails with SP_TOO_BIG */
    bool want_fresh;     /* do not reuse a connection */
    /* For answers without an end; may be NULL. Told from the loop when the header is there (with
     * `status`) and after every piece of the body: it takes what it can use out of `response` with
     * buf_consume(), and response_max bounds what it leaves. Never after on_done() was entered. */
    void (*on_data)(struct httpc_request *r);
    /* filled in by on_done() with SP_OK (whatever the status) */
    int status;
    struct buf response; /* freed by httpc_request_fini() */
    /* the client's own */
    void *easy;
    void *header_list;
    struct httpc *client;
    size_t header_len; /* of the answer's header lines so far: bounded like the body */
    bool is_too_big;
    struct rt_task data;
    char error_text[256];
};

struct httpc_limits {
    unsigned connections; /* open at once */
    unsigned connections_per_host;
    uint64_t connect_timeout_ms;
};

MUST_CHECK int httpc_new(struct loop *l, const struct httpc_limits *limits, struct httpc **ret,
                         struct err *err);
/* Cancels what is in flight (their on_done() comes), then frees. */
void httpc_close(struct httpc *c, void (*on_closed)(void *ctx), void *ctx);

/* Zero the request first. Errors: SP_CONNECT_FAILED, SP_IO (reset, short answer), SP_PROTOCOL (not
 * HTTP), SP_TOO_BIG, SP_TIMEOUT, SP_CANCELLED, SP_BAD_REQUEST (url). */
void httpc_start(struct httpc *c, struct httpc_request *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
/* Frees the response; the request may be used again. */
void httpc_request_fini(struct httpc_request *r);

#endif
