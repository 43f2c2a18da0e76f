/* tunnel.h - a request that wants its connection to become something else (a WebSocket, a raw TCP connection) goes to its
 * box, or to a port inside of it, and then bytes go both ways. */
#ifndef BOX_TUNNEL_H
#define BOX_TUNNEL_H

#include "box/proxy.h"
#include "http/http.h"
#include "loop/loop.h"

struct tunnel;

struct tunnel_owner {
    void *ctx;
    /* Answers what cannot be passed on, as box_proxy_config.refuse. */
    void (*refuse)(struct http_exchange *ex, int status, uint64_t retry_after_ms, const char *text);
    /* Answers one that was cut before it was open, as box_proxy_config.refuse_loss. */
    void (*refuse_loss)(struct http_exchange *ex, int code, const char *reason);
    /* Once, and the last: nothing is left of it. May come from inside tunnel_start() and tunnel_cut(). */
    void (*on_over)(void *ctx);
};

/* Whether the request is for tunnel_start(). Plain HTTP/2 is not asked for on behalf of a client: such a request is one of
 * HTTP/1.1 like others. */
bool tunnel_is_wanted(const struct http_exchange *ex);
/* `to` is read during the call only. Answers in any case, and ends with the exchange; one that stands still for longer than
 * `idle_ns` is closed. `*ret` is set first, and valid until on_over(). */
void tunnel_start(struct loop *l, struct http_exchange *ex, const struct box_proxy_to *to,
                  uint64_t idle_ns, const struct tunnel_owner *owner, struct tunnel **ret);
/* NULL: its client has gone. */
struct http_exchange *tunnel_exchange(const struct tunnel *t);
/* Ends it now, whatever its two connections do. */
void tunnel_cut(struct tunnel *t, int code, const char *reason);

#endif
