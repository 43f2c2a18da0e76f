/* proxy_request.c - the request as the box gets it: where it goes and with which headers. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "box/proxy_head.h"
#include "box/proxy_headers.h"
#include "box/proxy_internal.h"

/* libcurl leaves a header without a value out when it ends with a colon. */
static void put_header(struct buf *text, const char *name, const char *value)
{
    buf_puts(text, name);
    buf_puts(text, str_is_empty(value) ? ";" : ": ");
    buf_append(text, value, strlen(value) + 1);
}

static bool make_headers(struct passage *g, const struct box_proxy_to *to)
{
    unsigned n = 0;

    proxy_put_headers(g->ex, to, put_header, &g->text);
    if (http_header(g->ex, "Accept") == NULL)
        buf_append(&g->text, "Accept:", sizeof("Accept:")); /* or libcurl makes one up */
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

    if (g->port == 0) {
        memcpy(g->local, to->local, sizeof(g->local));
        g->up.unix_socket = str_is_empty(g->local) ? NULL : g->local;
        return proxy_url(to->url, to->rest, &g->url);
    }
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
