/* passage.c - a request on its way to a box, whatever is said to the box for it: it is counted, its box counts as used,
 * and it ends when nothing moves for too long. */
#include <stdlib.h>

#include "base/mem.h"
#include "box/proxy_internal.h"

enum { HEAD_MAX = 1024 * 1024 }; /* what the server lets in is less */

/* --- how many --- */

/* True: it has been refused. */
static bool is_too_much(struct box_proxy *p, struct http_exchange *ex,
                        const struct box_proxy_limits *limits, const struct box_proxy_to *to)
{
    const struct proxy_load *box = proxy_load_find(&p->boxes, to->box);
    const struct proxy_load *caller = proxy_load_find(&p->callers, to->caller);
    uint64_t own = caller != NULL ? caller->count : 0;
    uint64_t room = limits->requests > p->passages ? limits->requests - p->passages : 0;

    if (room == 0)
        p->config.refuse(ex, 503, 1000, "Too many requests are being passed on");
    else if (box != NULL && box->count >= limits->requests_per_box)
        p->config.refuse(ex, 429, 1000, "Too many requests to this sandbox");
    else if (own > 0 && own * 100 >= (own + room) * limits->share_percent &&
             limits->share_percent > 0)
        p->config.refuse(ex, 429, 1000, "This caller has its share of the requests to sandboxes");
    else
        return false;
    return true;
}

/* --- in and out --- */

struct passage *passage_new(struct box_proxy *p, struct http_exchange *ex,
                            const struct box_proxy_limits *limits, const struct box_proxy_to *to,
                            size_t size)
{
    struct passage *g;

    assert(size >= sizeof(*g));
    if (is_too_much(p, ex, limits, to))
        return NULL;
    g = xcalloc(1, size);
    g->p = p;
    g->ex = ex;
    g->port = to->port;
    g->idle_ns = limits->idle_ns;
    buf_init(&g->url, HEAD_MAX);
    buf_init(&g->text, HEAD_MAX);
    buf_init(&g->tunnel, HEAD_MAX);
    g->box = proxy_load_get(&p->boxes, to->box);
    g->caller = proxy_load_get(&p->callers, to->caller);
    g->box->count++;
    g->caller->count++;
    p->passages++;
    list_push_back(&g->box->passages, &g->link);
    list_push_back(&g->caller->passages, &g->caller_link);
    return g;
}

/* A box that is at work is not idle. */
void passage_begin(struct passage *g)
{
    struct box_proxy *p = g->p;

    g->is_use = true;
    if (!p->is_leaving) /* else nobody is left to be notified */
        p->config.on_use(p->config.ctx, g->box->key, 1);
}

void passage_free(struct passage *g)
{
    struct box_proxy *p = g->p;
    uint64_t box = g->box->key;
    bool is_use = g->is_use;

    if (g->fini != NULL)
        g->fini(g);
    list_remove(&p->judged, &g->judged);
    rt_timer_cancel(&p->config.loop->rt, &g->timer);
    list_remove(&g->box->passages, &g->link);
    list_remove(&g->caller->passages, &g->caller_link);
    proxy_load_put(&p->boxes, g->box);
    proxy_load_put(&p->callers, g->caller);
    p->passages--;
    httpc_request_fini(&g->up);
    buf_fini(&g->url);
    buf_fini(&g->text);
    buf_fini(&g->tunnel);
    free(g);
    if (is_use && !p->is_leaving)
        p->config.on_use(p->config.ctx, box, -1);
    if (p->is_leaving && p->passages == 0)
        proxy_end(p);
}

/* --- standing still --- */

static void on_timer(struct rt_timer *timer)
{
    struct passage *g = container_of(timer, struct passage, timer);
    struct rt *rt = &g->p->config.loop->rt;
    uint64_t at_ns = rt_after(g->moved_ns, g->idle_ns);

    if (rt_now(rt) < at_ns) {
        rt_timer_set(rt, timer, at_ns, on_timer);
        return;
    }
    g->is_timed_out = true;
    if (!op_is_idle(&g->up.op))
        op_cancel(&g->up.op); /* on_done() answers; if it is over already this does nothing */
    else if (g->on_idle != NULL)
        g->on_idle(g);
}

void passage_moved(struct passage *g)
{
    g->moved_ns = rt_now(&g->p->config.loop->rt);
}

void passage_watch(struct passage *g)
{
    passage_moved(g);
    rt_timer_set(&g->p->config.loop->rt, &g->timer, rt_after(g->moved_ns, g->idle_ns), on_timer);
    http_may_stay(g->ex);
}
