/* httpc.h - HTTP client: libcurl's multi interface as operations on the loop.
 *
 * The op's deadline rules; libcurl's own timeouts are only a belt. Bodies are bounded. Redirects
 * are not followed, proxies of the environment are not used. Host names are looked up by the loop's
 * threads, not by libcurl, whose own resolver would make cancelling block. A request that creates
 * something uses a fresh connection, because libcurl resends silently on a reused one. */
#ifndef LOOP_HTTPC_H
#define LOOP_HTTPC_H

#include "base/buf.h"
#include "base/op.h"
#include "loop/loop.h"

struct httpc;

/* For https URLs. Files in PEM; the server's certificate and name are always checked. */
struct httpc_tls {
    const char *ca_file;   /* NULL: the system's authorities */
    const char *cert_file; /* ours, and its key; NULL: none */
    const char *key_file;
};

struct httpc_request {
    struct op op;
    /* set by the caller, borrowed until on_done() */
    const char *method; /* "GET", "POST", "DELETE", ... */
    const char *url;
    const char *unix_socket;     /* NULL: TCP */
    const char *const *headers;  /* "Name: value", ends with NULL; or NULL */
    const struct httpc_tls *tls; /* NULL: none of our own */
    const char *body;
    size_t body_len;
    /* A body that comes in pieces, by httpc_body_write() and httpc_body_end(), instead of `body`. */
    bool is_body_streamed;
    int64_t body_size; /* of a streamed body; -1: not known, sent in chunks */
    /* Told from the loop when all that was written has been taken; may be NULL. */
    void (*on_body_drain)(struct httpc_request *r);
    bool want_headers;   /* fill response_headers */
    size_t response_max; /* a longer body fails with SP_TOO_BIG */
    bool want_fresh;     /* do not reuse a connection */
    /* For answers without an end; may be NULL. Told from the loop when the header is there (with
     * `status`) and after every piece of the body: it takes what it can use out of `response` with
     * buf_consume(), and response_max bounds what it leaves. Never after on_done() was entered. */
    void (*on_data)(struct httpc_request *r);
    /* filled in by on_done() with SP_OK (whatever the status) */
    int status;
    struct buf response; /* freed by httpc_request_fini() */
    /* "Name: value\n" each, of the final answer; there from the first on_data() on. */
    struct buf response_headers;
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
/* For a request with on_data(): after the pause it is not told and the server is slowed by TCP, until
 * the resume. May be called from on_data(). */
void httpc_pause(struct httpc_request *r);
void httpc_resume(struct httpc_request *r);
/* Copies; gives the bytes not yet taken. The caller stops above its own limit until on_body_drain(). */
size_t httpc_body_write(struct httpc_request *r, const char *data, size_t len);
void httpc_body_end(struct httpc_request *r);
/* Frees the response; the request may be used again. */
void httpc_request_fini(struct httpc_request *r);

#endif
