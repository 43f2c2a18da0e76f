/* proxy_headers.c - which headers pass, and what is added. The same for requests and for upgrades. */
#include "box/proxy_headers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "box/address.h"
#include "box/proxy_head.h"

static bool is_named_by_client(const struct http_exchange *ex, const char *name)
{
    const char *other;
    const char *value;

    for (unsigned i = 0; http_header_at(ex, i, &other, &value); i++) {
        if (strcasecmp(other, "Connection") == 0 && proxy_names(value, name))
            return true;
    }
    return false;
}

/* The program behind a port gets what its callers say of themselves, also who they are to it: on a Unix socket that
 * is not meant for the daemon. */
static bool passes(const struct http_exchange *ex, const struct box_proxy_to *to, const char *name)
{
    if (is_named_by_client(ex, name))
        return false;
    if (to->port == 0)
        return proxy_passes_request(name);
    return proxy_passes_to_port(name, !http_peer(ex)->is_tcp);
}

/* Without the token that a browser's WebSocket has there. */
static void put_protocols(void (*put)(struct buf *out, const char *name, const char *value),
                          struct buf *out, const char *name, const char *value)
{
    struct buf left;

    buf_init(&left, 64 * 1024);
    proxy_put_protocols(&left, value);
    if (left.len > 0)
        put(out, name, buf_str(&left));
    buf_fini(&left);
}

void proxy_put_headers(const struct http_exchange *ex, const struct box_proxy_to *to,
                       void (*put)(struct buf *out, const char *name, const char *value),
                       struct buf *out)
{
    const char *host = http_header(ex, "Host");
    char token[BOX_TOKEN_MAX + 16];
    const char *name;
    const char *value;

    for (unsigned i = 0; http_header_at(ex, i, &name, &value); i++) {
        if (!passes(ex, to, name))
            continue;
        if (strcasecmp(name, "Sec-WebSocket-Protocol") == 0)
            put_protocols(put, out, name, value);
        else
            put(out, name, value);
    }
    if (to->port == 0) { /* the box's own token: for its agent, never for a program behind a port */
        (void) snprintf(token, sizeof(token), "Bearer %s", to->token);
        if (!str_is_empty(to->token))
            put(out, "Authorization", token);
        explicit_bzero(token, sizeof(token));
        return;
    }
    if (to->is_by_path && !str_is_empty(to->token))
        put(out, "X-AIO-API-Key", to->token); /* its programs know it: it is in their environment */
    put(out, "X-Forwarded-Proto", http_peer(ex)->is_secure ? "https" : "http");
    if (!str_is_empty(host))
        put(out, "X-Forwarded-Host", host);
    if (to->prefix != NULL)
        put(out, "X-Forwarded-Prefix", to->prefix);
}
