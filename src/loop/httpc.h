/* httpc.h - HTTP client: libcurl's multi interface as operations on the loop.
 *
 * The op's deadline rules; libcurl's own timeouts are only a belt. Bodies are bounded. Redirects
 * are not followed, proxies of the environment are not used. Host names are looked up by the loop's
 * threads, not by libcurl, whose own resolver would make cancelling block; all addresses of a name are
 * tried. localhost is 127.0.0.1. A request that creates
 * something uses a fresh connection, because libcurl resends silently on a reused one. */
#ifndef LOOP_HTTPC_H
#define LOOP_HTTPC_H

#include "base/buf.h"
#include "base/effort.h"
#include "base/list.h"
#include "base/op.h"
#include "loop/httpc_chunks.h"
#include "loop/loop.h"
#include "loop/resolve.h"

struct httpc;

/* For https URLs. Files in PEM, read for each new connection (the authorities at most once a minute);
 * the server's certificate and name are always checked. Trouble with any of it is SP_CONNECT_FAILED, with
 * a sentence. A connection is only reused by a request with the same file names. */
struct httpc_tls {
    const char *ca_file;   /* these authorities and no others; NULL: the system's */
    const char *cert_file; /* ours; NULL: none */
    const char *key_file;  /* its key, without a password; NULL: in cert_file */
};

struct httpc_request {
    struct op op;
    /* set by the caller, borrowed until on_done() */
    const char *method; /* "GET", "POST", "DELETE", ... */
    const char *url;
    const char *unix_socket; /* NULL: TCP */
    /* "Name: value", ends with NULL; or NULL. Content-Length, Transfer-Encoding and Expect are left
     * out: the client writes its own. */
    const char *const *headers;
    const struct httpc_tls *tls; /* NULL: none of our own */
    /* NULL: none. Else the address of an HTTP server through whose CONNECT tunnel the request goes, like
     * "http://127.0.0.1:4711"; the host of `url` is an address as that server sees it. A kept connection is
     * reused only with the same tunnel_key (1 to 32 letters and digits). */
    const char *tunnel;
    const char *tunnel_key;
    const char *const *tunnel_headers; /* as `headers`, for that server and nobody behind it */
    const char *body;
    size_t body_len;
    /* A body that comes in pieces, by httpc_body_write() and httpc_body_end(), instead of `body`.
     * It cannot be sent twice, so it goes over a new connection, unless may_reuse: then the request fails when a
     * kept one breaks, and is never repeated once a byte of the body was sent. */
    bool is_body_streamed;
    bool may_reuse;
    int64_t body_size; /* of a streamed body; -1: not known, sent in chunks */
    /* Called from the loop when all that was written has been taken; may be NULL. Never after
     * on_done() was entered. */
    void (*on_body_drain)(struct httpc_request *r);
    bool want_headers;   /* fill response_headers */
    size_t response_max; /* a longer body fails with SP_TOO_BIG; one of chunks with long extensions
                          * with SP_PROTOCOL */
    bool want_fresh;     /* do not reuse a connection */
    /* For answers without an end; may be NULL. Called from the loop when the header is there (with
     * `status`) and after every piece of the body: it takes what it can use out of `response` with
     * buf_consume(), and response_max bounds what it leaves, unless it pauses. What it left is in
     * `response` in on_done(). Never called after on_done() was entered. */
    void (*on_data)(struct httpc_request *r);
    /* filled in by on_done() with SP_OK (whatever the status) */
    int status;
    int tunnel_status; /* what CONNECT was answered, also in a failure; 0: nothing, or no tunnel */
    struct buf response; /* freed by httpc_request_fini() */
    /* "Name: value\n" each, of the final answer, without control characters; there from the first
     * on_data() on. */
    struct buf response_headers;
    /* the client's own */
    void *easy;
    void *header_list;
    void *connect_list;
    void *resolve_list;
    void *tunnel_list;
    unsigned tunnel_reads; /* of the answer to CONNECT, a byte each */
    bool is_tunnel_open;   /* that answer is over */
    struct resolve lookup;
    bool is_named; /* the URL's host is a name: look it up */
    char host[RESOLVE_HOST];
    char port[8];
    struct httpc *client;
    size_t header_len; /* of the answer's header lines so far: bounded like the body */
    int polled;        /* what libcurl wants to hear of socket_fd */
    int socket_fd;
    struct buf body_queue; /* from body_off on: written, not yet taken */
    size_t body_off;
    uint64_t body_written;
    int fault; /* of the body, by the caller */
    bool is_too_big;
    bool is_chunked; /* the answer, as libcurl sees it too */
    bool is_bad_chunk;
    struct httpc_chunks chunks;
    struct effort effort;
    struct list_node
        resting;         /* until the next turn: its chunks have made enough work in this one */
    bool is_coded;       /* by a transfer encoding that was not asked for */
    bool is_status_line; /* the next header line is one */
    bool is_header_done; /* of the final answer */
    bool is_paused;
    bool is_recv_held; /* libcurl keeps a piece until it is resumed */
    bool is_send_held; /* libcurl waits for a resume: there is no more of the body yet */
    bool is_body_ended;
    bool is_answer_over; /* libcurl reads no more, though the body is not sent */
    bool is_answer_whole;
    bool want_check;
    bool has_news; /* for on_data() */
    struct rt_task data;
    struct rt_task drain;
    struct rt_task wake;
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
/* After the pause on_data() is not called and the server is slowed by TCP, until the resume, which calls
 * it again. May be called from on_data(). An answer that had arrived in full ends in spite of it; a
 * server that hangs up is noticed after the resume. Deadline and cancel work as ever. */
void httpc_pause(struct httpc_request *r);
void httpc_resume(struct httpc_request *r);
/* Copies; gives the bytes not yet taken. The caller stops above its own limit (well below 64 MiB, where
 * the request fails with SP_TOO_BIG) until on_body_drain(). More or less than body_size fails with
 * SP_BAD_REQUEST. After the end of the request both do nothing.
 * A server may answer before it has the whole body: with an error (300 and above) or "Connection: close"
 * the request ends with that answer, otherwise it goes on until httpc_body_end(). */
size_t httpc_body_write(struct httpc_request *r, const char *data, size_t len);
void httpc_body_end(struct httpc_request *r);
/* Frees the response; the request may be used again. */
void httpc_request_fini(struct httpc_request *r);

#endif
