/* api.h - the native API: requests become events of the engine, replies become JSON. One file per
 * resource; the routes are one table, which docs/openapi.json is checked against. */
#ifndef API_API_H
#define API_API_H

#include "engine/engine.h"
#include "http/http.h"

struct api {
    struct engine *engine;
    uint64_t started_ns;
    /* Reads the configuration file again and applies it. */
    int (*reload)(void *ctx, struct err *err);
    void *reload_ctx;
};

/* Static; ends with .pattern NULL. The server's ctx is a struct api. */
extern const struct http_route api_routes[];

/* struct http_server_config.guard: who may call what. */
/* Of a caller on the Unix socket; `ctx` is the struct api. */
bool api_is_operator(void *ctx, const struct http_peer *peer);
int api_guard(struct http_exchange *ex, const struct http_route *route, struct err *err);

#endif
