/* api.h - the native API: requests become events of the engine, replies become JSON. One file per
 * resource; the routes are one table, which docs/openapi.json is checked against. */
#ifndef API_API_H
#define API_API_H

#include "box/proxy.h"
#include "engine/engine.h"
#include "http/http.h"

struct api {
    struct engine *engine;
    uint64_t started_ns;
    struct list destroys;    /* calls that wait for the end of a box; list_init() first */
    struct list acquires;    /* not yet answered; list_init() first */
    struct list lives;       /* streams of the pool; list_init() first */
    struct map requests;     /* acquires with a request id, not yet answered */
    struct box_proxy *proxy; /* for callers on TCP; NULL: there is no such listener */
    unsigned max_requests;   /* through it at once: tcp.max_requests, or what open files allow */
    struct box_proxy *calls; /* for /v1/sandboxes/{id}/exec and the like */
    unsigned max_calls;      /* through that at once: calls.max, or what open files allow */
    struct engine_watcher watcher;
    struct buf losers; /* uint64_t: principals that a reload takes rights from */
    /* Reads the configuration file again and applies it. */
    int (*reload)(void *ctx, struct err *err);
    void *reload_ctx;
};

/* Static; ends with .pattern NULL. The server's ctx is a struct api. */
extern const struct http_route api_routes[];
/* Of an id that names a thread, "thread:user/thread": struct http_server_config.pair_prefix. */
#define API_THREAD_PREFIX "thread:"

/* struct http_server_config.guard: who may call what. */
/* Of a caller on the Unix socket; `ctx` is the struct api. */
bool api_is_operator(void *ctx, const struct http_peer *peer);
int api_guard(struct http_exchange *ex, const struct http_route *route, struct err *err);
/* struct http_server_config.put_message: paths of the host are for operators. */
void api_put_message(struct http_exchange *ex, int code, const char *message, struct buf *out);

/* Sets api->proxy; api_close_proxy() before the engine is closed. */
MUST_CHECK int api_open_proxy(struct api *api, struct loop *l, struct err *err);
/* The same for api->calls. */
MUST_CHECK int api_open_calls(struct api *api, struct loop *l, struct err *err);
/* Whether there was one of the two, whose end is then reported; again until there is none. */
bool api_close_proxy(struct api *api, void (*on_closed)(void *ctx), void *ctx);
/* One of the two, which belongs to the caller from now on and has to be ended by it; NULL: there is none left. */
struct box_proxy *api_take_proxy(struct api *api);
/* Before a reload: notes who loses rights by it. */
void api_note_losers(struct api *api, const struct config *next);
/* Ends the calls of one caller that it could not begin any more. */
void api_check_caller(struct api *api, uint64_t principal);
/* After that: the same for all of them. `on_loser` gets each. */
void api_check_calls(struct api *api, void (*on_loser)(void *ctx, uint64_t principal), void *ctx);
/* After a reload or the end of a token: refuses acquires that wait and that their callers could not ask for any more. */
void api_check_waiting(struct api *api);
/* Answers callers that wait for the end of a recorded destroy: it continues without them. */
void api_end_destroys(struct api *api);

#endif
