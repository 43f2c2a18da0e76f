/* proxy_request.c - the request as the box gets it: where it goes and with which headers. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "box/proxy_head.h"
#include "box/proxy_internal.h"

static bool is_named_by_client(struct http_exchange *ex, const char *name)
{
    const char *other;
    const char *value;

    for (unsigned i = 0; http_header_at(ex, i, &other, &value); i++) {
        if (strcasecmp(other, "Connection") == 0 && proxy_names(value, name))
            return true;
    }
    return false;
}

/* libcurl leaves a header without a value out when it ends with a colon. */
static void put_header(struct buf *text, const char *name, const char *value)
{
    buf_puts(text, name);
    buf_puts(text, str_is_empty(value) ? ";" : ": ");
    buf_append(text, value, strlen(value) + 1);
}

/* The program behind a port gets what its callers say of themselves, also who they are to it: on a Unix socket that
 * is not meant for the daemon. */
static bool passes(const struct passage *g, const char *name)
{
    if (is_named_by_client(g->ex, name))
        return false;
    if (g->port == 0)
        return proxy_passes_request(name);
    return proxy_passes_to_port(name, !http_peer(g->ex)->is_tcp);
}

/* Where the box's own token goes: to its agent, never to a program behind a port. */
static void put_own_headers(struct passage *g, const struct box_proxy_to *to)
{
    const char *host = http_header(g->ex, "Host");

    if (g->port == 0 && !str_is_empty(to->token)) {
        buf_puts(&g->text, "Authorization: Bearer ");
        buf_append(&g->text, to->token, strlen(to->token) + 1);
    }
    if (g->port == 0)
        return;
    if (to->is_by_path && !str_is_empty(to->token))
        put_header(&g->text, "X-AIO-API-Key",
                   to->token); /* its programs know it: it is in their environment */
    put_header(&g->text, "X-Forwarded-Proto", "http");
    if (!str_is_empty(host))
        put_header(&g->text, "X-Forwarded-Host", host);
    if (to->prefix != NULL)
        put_header(&g->text, "X-Forwarded-Prefix", to->prefix);
}

static bool make_headers(struct passage *g, const struct box_proxy_to *to)
{
    const char *name;
    const char *value;
    unsigned n = 0;

    for (unsigned i = 0; http_header_at(g->ex, i, &name, &value); i++) {
        if (passes(g, name))
            put_header(&g->text, name, value);
    }
    if (http_header(g->ex, "Accept") == NULL)
        buf_append(&g->text, "Accept:", sizeof("Accept:")); /* or libcurl makes one up */
    put_own_headers(g, to);
    if (buf_failed(&g->text))
        return false;
    for (size_t at = 0; at < g->text.len && n < PROXY_HEADERS_MAX;
         at += strlen(g->text.data + at) + 1)
        g->headers[n++] = g->text.data + at;
    return true;
}

/* A port of the box's loopback is reached through its agent, or its server. */
static bool set_target(struct passage *g, const struct box_proxy_to *to)
{
    char address[40];

    if (g->port == 0)
        return proxy_url(to->url, to->rest, &g->url);
    if (to->is_by_path) {
        buf_printf(&g->tunnel, "/proxy/%u%s", (unsigned) g->port, to->rest);
        return !buf_failed(&g->tunnel) && proxy_url(to->url, buf_str(&g->tunnel), &g->url);
    }
    (void) snprintf(address, sizeof(address), "http://127.0.0.1:%u", (unsigned) g->port);
    (void) snprintf(g->tunnel_key, sizeof(g->tunnel_key), "b%016llx", (unsigned long long) to->box);
    (void) snprintf(g->tunnel_auth, sizeof(g->tunnel_auth), "Authorization: Bearer %s", to->token);
    buf_puts(&g->tunnel, to->url);
    if (buf_failed(&g->tunnel) || !proxy_url(address, to->rest, &g->url))
        return false;
    g->tunnel_headers[0] = str_is_empty(to->token) ? NULL : g->tunnel_auth;
    g->up.tunnel = buf_str(&g->tunnel);
    g->up.tunnel_key = g->tunnel_key;
    g->up.tunnel_headers = g->tunnel_headers;
    return true;
}

bool proxy_make_request(struct passage *g, const struct box_proxy_to *to)
{
    return set_target(g, to) && make_headers(g, to);
}
