/* rest.h - what a daemon still does after it has handed over: requests on their way to boxes and back, which
 * cannot be passed on and may take long. Their connections end with their answers. */
#ifndef DAEMON_REST_H
#define DAEMON_REST_H

#include <stddef.h>

#include "base/list.h"
#include "base/rt.h"
#include "box/proxy.h"
#include "http/http.h"

struct servers;

struct rest {
    struct loop *loop;
    struct list servers; /* that were left */
    struct list proxies; /* likewise */
    size_t left;         /* servers and proxies */
    struct rt_timer timer;
    void (*on_end)(void *ctx);
    void *ctx;
};

void rest_init(struct rest *r, struct loop *l);
/* Leaves all servers, which must be paused; `on_quiet` comes when there is nothing of them but the rest. */
void rest_leave_servers(struct rest *r, struct servers *s, void (*on_quiet)(void *ctx), void *ctx);
/* NULL is fine. */
void rest_leave_proxy(struct rest *r, struct box_proxy *p);
/* `on_end` comes when all of it is over: by itself, or cut off after `max_ns` (0: at once). */
void rest_wait(struct rest *r, uint64_t max_ns, void (*on_end)(void *ctx), void *ctx);
void rest_cut(struct rest *r);
/* As box_proxy_cut() and box_proxy_cut_caller(), of all of them. */
void rest_cut_box(struct rest *r, uint64_t box, int code, const char *why);
void rest_cut_caller(struct rest *r, uint64_t principal, int code, const char *why);
/* Connections. */
size_t rest_count(const struct rest *r);

#endif
