/* proxy_life.c - how a proxy begins and ends. */
#include <stdlib.h>

#include "base/mem.h"
#include "box/proxy_internal.h"

enum { CONNECT_MS = 5000 };

int box_proxy_new(const struct box_proxy_config *config, struct box_proxy **ret, struct err *err)
{
    struct httpc_limits limits = {.connections = config->connections,
                                  .connections_per_host = config->connections,
                                  .connect_timeout_ms = CONNECT_MS};
    struct box_proxy *p = xcalloc(1, sizeof(*p));
    int r = httpc_new(config->loop, &limits, &p->http, err);

    if (r != SP_OK) {
        free(p);
        return r;
    }
    p->config = *config;
    list_init(&p->judged);
    map_init(&p->boxes, 256);
    map_init(&p->callers, 256);
    *ret = p;
    return SP_OK;
}

static void on_http_closed(void *ctx)
{
    struct box_proxy *p = ctx;
    void (*on_closed)(void *) = p->on_closed;
    void *closed_ctx = p->closed_ctx;

    map_fini(&p->boxes);
    map_fini(&p->callers);
    free(p);
    on_closed(closed_ctx);
}

void proxy_end(struct box_proxy *p)
{
    httpc_close(p->http, on_http_closed, p);
}

void box_proxy_close(struct box_proxy *p, void (*on_closed)(void *ctx), void *ctx)
{
    p->on_closed = on_closed;
    p->closed_ctx = ctx;
    proxy_loss_stop(p);
    proxy_end(p);
}

void box_proxy_leave(struct box_proxy *p, void (*on_closed)(void *ctx), void *ctx)
{
    p->on_closed = on_closed;
    p->closed_ctx = ctx;
    p->is_leaving = true;
    proxy_loss_stop(p);
    if (p->passages == 0)
        proxy_end(p);
}

struct httpc *box_proxy_http(struct box_proxy *p)
{
    return p->http;
}
