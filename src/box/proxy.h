/* proxy.h - requests to boxes through the daemon: a request goes to its box with the box's own token, which its
 * caller does not need, and the answer comes back, both as they arrive. Who may do that is decided before. */
#ifndef BOX_PROXY_H
#define BOX_PROXY_H

#include "http/http.h"

struct box_proxy;

/* A request whose connection to its box broke. */
struct box_proxy_loss {
    uint64_t box;
    void *judge; /* of ask_loss() */
};

struct box_proxy_config {
    struct loop *loop;
    unsigned connections; /* to boxes, at once */
    void *ctx;
    /* A request to this box begins (1) or ends (-1). */
    void (*on_use)(void *ctx, uint64_t box, int delta);
    /* Answers what cannot be passed on; retry_after_ms 0: no idea. */
    void (*refuse)(struct http_exchange *ex, int status, uint64_t retry_after_ms, const char *text);
    /* Answers when the agent refused the way to a port, with this status. Only for requests with a port. */
    void (*refuse_port)(struct http_exchange *ex, uint16_t port, int status);
    /* Answers a request that was cut, or whose connection to the box broke, when no answer has begun. `code` is an error
     * of the table: SP_SANDBOX_LOST, SP_TRANSPORT_LOST and what box_proxy_cut() was given. */
    void (*refuse_loss)(struct http_exchange *ex, int code, const char *reason);
    /* Both, or NULL: then a broken connection is answered by refuse() like other trouble.
     * Find out what became of the box and call box_proxy_judged(), also from inside. */
    void (*ask_loss)(void *ctx, struct box_proxy_loss *loss);
    /* Nobody wants to know any more: no call of box_proxy_judged() from here on. */
    void (*drop_loss)(void *ctx, struct box_proxy_loss *loss);
};

struct box_proxy_limits {
    uint64_t requests;         /* at once; one more is refused with 503 */
    uint64_t requests_per_box; /* 429 */
    unsigned
        share_percent; /* of what one caller has and what is free: its most; 429. 0: no share */
    uint64_t idle_ns;  /* one that stands still for longer is given up */
};

enum { BOX_LOCAL_MAX = 108 }; /* what an address of a Unix socket holds */

struct box_proxy_to {
    uint64_t box;
    uint64_t caller; /* whose box it is */
    const char *url;
    char local[BOX_LOCAL_MAX]; /* a Unix socket that leads to the same server; "": none */
    const char *token;
    const char *rest;   /* of the target: what the box gets */
    uint16_t port;      /* of the box's loopback, through its agent; 0: the agent itself */
    const char *prefix; /* with a port: what stands before `rest` for the caller; NULL: not said */
    bool is_by_path; /* with `port`: by the server of the box, which passes /proxy/{port}/... on */
    bool want_tcp;   /* with `port`: a request with "Upgrade: tcp" becomes a connection to it */
};

MUST_CHECK int box_proxy_new(const struct box_proxy_config *config, struct box_proxy **ret,
                             struct err *err);
/* After the server that gives it requests: what still runs is cancelled, and ends before. */
void box_proxy_close(struct box_proxy *p, void (*on_closed)(void *ctx), void *ctx);
/* The server has been left (http_server_leave()): what still runs goes on, without on_use(), and the proxy is
 * freed after the last. */
void box_proxy_leave(struct box_proxy *p, void (*on_closed)(void *ctx), void *ctx);
/* For a handler of a route with HTTP_STREAM. Answers in any case; `to` is read during the call only. */
void box_proxy_pass(struct box_proxy *p, struct http_exchange *ex,
                    const struct box_proxy_limits *limits, const struct box_proxy_to *to);
/* What became of the box: it is gone (SP_SANDBOX_LOST), or it lives and only the connection broke (SP_TRANSPORT_LOST). */
void box_proxy_judged(struct box_proxy_loss *loss, int code, const char *reason);
/* Its callers have this box no longer: its requests end with that at once, whatever their connections do. A stream of
 * events gets its last one, connections that have become something else are closed. */
void box_proxy_cut(struct box_proxy *p, uint64_t box, int code, const char *reason);
/* The same for one caller, who may have lost the right to some of its requests: those of which `may_go_on` says so, and
 * NULL says it of none, go on. */
void box_proxy_cut_caller(struct box_proxy *p, uint64_t caller,
                          bool (*may_go_on)(void *ctx, struct http_exchange *ex, uint64_t box),
                          void *ctx, int code, const char *reason);
/* How many requests there are: in all, to the box, of the caller. */
struct box_proxy_counts {
    uint64_t all;
    uint64_t box;
    uint64_t caller;
};
void box_proxy_count(const struct box_proxy *p, uint64_t box, uint64_t caller,
                     struct box_proxy_counts *ret);
struct httpc *box_proxy_http(struct box_proxy *p); /* for other calls to boxes */

#endif
