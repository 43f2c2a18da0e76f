/* rest.c - see rest.h. A take-over that failed leaves a rest as well, beside servers that are new. */
#include "daemon/rest.h"

#include <stdlib.h>

#include "base/mem.h"
#include "daemon/servers.h"
#include "loop/loop.h"

struct part {
    struct list_node link;
    struct rest *rest;
    struct http_server *http; /* or */
    struct box_proxy *proxy;
};

void rest_init(struct rest *r, struct loop *l)
{
    *r = (struct rest){.loop = l};
    list_init(&r->servers);
    list_init(&r->proxies);
}

static void end_one(struct rest *r)
{
    void (*on_end)(void *) = r->on_end;

    r->left--;
    if (r->left > 0 || on_end == NULL)
        return;
    rt_timer_cancel(&r->loop->rt, &r->timer);
    r->on_end = NULL;
    on_end(r->ctx);
}

static void on_server_closed(void *ctx)
{
    struct part *part = ctx;
    struct rest *r = part->rest;

    list_remove(&r->servers, &part->link);
    free(part);
    end_one(r);
}

static void on_proxy_closed(void *ctx)
{
    struct part *part = ctx;
    struct rest *r = part->rest;

    list_remove(&r->proxies, &part->link);
    free(part);
    end_one(r);
}

static void leave_server(void *ctx, struct http_server *http, void (*on_quiet)(void *ctx),
                         void *quiet_ctx)
{
    struct rest *r = ctx;
    struct part *part = xcalloc(1, sizeof(*part));

    part->rest = r;
    part->http = http;
    list_push_back(&r->servers, &part->link);
    r->left++;
    http_server_leave(http, on_quiet, quiet_ctx, on_server_closed, part);
}

void rest_leave_servers(struct rest *r, struct servers *s, void (*on_quiet)(void *ctx), void *ctx)
{
    servers_leave(s, leave_server, r, on_quiet, ctx);
}

void rest_leave_proxy(struct rest *r, struct box_proxy *p)
{
    struct part *part;

    if (p == NULL)
        return;
    part = xcalloc(1, sizeof(*part));
    part->rest = r;
    part->proxy = p;
    list_push_back(&r->proxies, &part->link);
    r->left++;
    box_proxy_leave(p, on_proxy_closed, part);
}

void rest_cut_box(struct rest *r, uint64_t box, int code, const char *why)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&r->proxies); n != NULL; n = next) {
        next = list_next(&r->proxies, n); /* a proxy ends with its last request */
        box_proxy_cut(container_of(n, struct part, link)->proxy, box, code, why);
    }
}

void rest_cut_caller(struct rest *r, uint64_t principal, int code, const char *why)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&r->proxies); n != NULL; n = next) {
        next = list_next(&r->proxies, n);
        box_proxy_cut_caller(container_of(n, struct part, link)->proxy, principal, NULL, NULL, code,
                             why);
    }
}

void rest_cut(struct rest *r)
{
    for (struct list_node *n = list_first(&r->servers); n != NULL; n = list_next(&r->servers, n))
        http_server_cut_staying(container_of(n, struct part, link)->http);
}

static void on_timer(struct rt_timer *timer)
{
    rest_cut(container_of(timer, struct rest, timer));
}

void rest_wait(struct rest *r, uint64_t max_ns, void (*on_end)(void *ctx), void *ctx)
{
    if (r->left == 0) {
        on_end(ctx);
        return;
    }
    r->on_end = on_end;
    r->ctx = ctx;
    if (max_ns == 0)
        rest_cut(r);
    else
        rt_timer_set(&r->loop->rt, &r->timer, rt_after(rt_now(&r->loop->rt), max_ns), on_timer);
}

size_t rest_count(const struct rest *r)
{
    size_t sum = 0;

    for (struct list_node *n = list_first(&r->servers); n != NULL; n = list_next(&r->servers, n))
        sum += http_server_connections(container_of(n, struct part, link)->http);
    return sum;
}
