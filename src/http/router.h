/* router.h - which route serves a target. Pure. A literal part beats a parameter; otherwise the
 * order of the table decides. */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include "http/http.h"

struct router_match {
    const struct http_route *route; /* NULL: see allowed */
    unsigned allowed;               /* bit per method the path has; 0: no such path */
    unsigned param_count;
    struct http_param params[HTTP_PARAMS_MAX];
};

/* Asserts what the matcher relies on: patterns begin with a slash, have at most HTTP_PARAMS_MAX
 * parameters and names that fit. True when there is one for CONNECT. */
bool router_check(const struct http_route *routes);
/* `target` is raw: it is split first and decoded then. `pair_prefix`: see struct http_server_config. */
void router_find(const struct http_route *routes, const char *pair_prefix, enum http_method method,
                 const char *target, struct router_match *ret);
/* "GET, HEAD, POST" for the Allow header. */
void router_allow(unsigned allowed, struct buf *out);

#endif
