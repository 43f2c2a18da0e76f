/* proxy_loss.c - a connection to a box broke in the middle of a request: did the box end, or only the connection? Its
 * caller is answered with the one or the other; where the answer has begun, a stream of events gets a last one that
 * says so, and anything else is cut. The same for requests whose callers have their box no longer. */
#include <string.h>

#include "base/str.h"
#include "box/proxy_internal.h"

/* In the words that clients of a stream know: a box that is not theirs any more is lost for them. */
static void add_end(struct passage *g, int code)
{
    struct buf text;

    buf_init(&text, 4096);
    proxy_put_end(g->stream, code == SP_TRANSPORT_LOST ? "transport_lost" : "sandbox_lost",
                  g->reason, &text);
    if (!buf_failed(&text))
        (void) http_write(g->ex, text.data, text.len);
    buf_fini(&text);
    http_end(g->ex);
}

void proxy_loss_conclude(struct passage *g, int code)
{
    if (g->ex == NULL) {
        passage_free(g);
        return;
    }
    if (!g->is_begun || g->is_bodyless)
        g->p->config.refuse_loss(g->ex, code, g->reason);
    else if (g->stream != PROXY_BYTES && g->has_end)
        http_end(g->ex); /* all that matters had come */
    else if (g->stream != PROXY_BYTES && !g->is_torn)
        add_end(g, code);
    else
        http_abort(g->ex); /* only a broken connection says that something is missing */
    passage_free(g);
}

bool proxy_loss_begin(struct passage *g, int result)
{
    struct box_proxy *p = g->p;

    if (g->cut != 0) {
        proxy_loss_conclude(g, g->cut);
        return true;
    }
    if (p->config.ask_loss == NULL)
        return false;
    if (result != SP_IO && result != SP_CONNECT_FAILED)
        return false;
    if (g->up.tunnel_status != 0 && g->up.tunnel_status / 100 != 2)
        return false; /* the agent is well, and refused */
    if (p->is_leaving || p->is_closing) {
        str_copy_cut(g->reason, sizeof(g->reason), "the daemon has been replaced meanwhile");
        proxy_loss_conclude(g, SP_TRANSPORT_LOST);
        return true;
    }
    list_push_back(&p->judged, &g->judged);
    g->loss.box = g->box->key;
    p->config.ask_loss(p->config.ctx, &g->loss);
    return true;
}

void box_proxy_judged(struct box_proxy_loss *loss, int code, const char *reason)
{
    struct passage *g = container_of(loss, struct passage, loss);

    str_copy_cut(g->reason, sizeof(g->reason), reason);
    proxy_loss_conclude(g, code);
}

static void drop(struct passage *g, int code, const char *reason)
{
    g->p->config.drop_loss(g->p->config.ctx, &g->loss);
    box_proxy_judged(&g->loss, code, reason);
}

void proxy_loss_stop(struct box_proxy *p)
{
    p->is_closing = !p->is_leaving;
    while (!list_is_empty(&p->judged))
        drop(container_of(list_first(&p->judged), struct passage, judged), SP_TRANSPORT_LOST,
             "the daemon is being replaced or stopped");
}

static void cut(struct passage *g, int code, const char *reason)
{
    if (g->upgrade != NULL) {
        tunnel_cut(g->upgrade, code, reason);
        return;
    }
    g->cut = code;
    str_copy_cut(g->reason, sizeof(g->reason), reason);
    if (list_is_linked(&g->judged))
        drop(g, code, reason);
    else if (!op_is_idle(&g->up.op))
        op_cancel(&g->up.op); /* proxy_loss_begin() follows, unless it is over already */
    else if (g->on_cut != NULL)
        g->on_cut(g);
}

void box_proxy_cut(struct box_proxy *p, uint64_t box, int code, const char *reason)
{
    struct proxy_load *load = proxy_load_find(&p->boxes, box);
    struct list_node *n = load != NULL ? list_first(&load->passages) : NULL;

    while (n != NULL) { /* the load goes with its last passage */
        struct passage *g = container_of(n, struct passage, link);

        n = list_next(&load->passages, n);
        cut(g, code, reason);
    }
}

/* The end of one may end others, by way of on_use(): so none is remembered from one to the next. */
static struct passage *next_of_caller(const struct box_proxy *p, uint64_t caller)
{
    const struct proxy_load *load = proxy_load_find(&p->callers, caller);
    struct list_node *n = load != NULL ? list_first(&load->passages) : NULL;
    struct passage *g = n != NULL ? container_of(n, struct passage, caller_link) : NULL;

    return g != NULL && g->round != p->rounds ? g : NULL;
}

void box_proxy_cut_caller(struct box_proxy *p, uint64_t caller,
                          bool (*may_go_on)(void *ctx, struct http_exchange *ex, uint64_t box),
                          void *ctx, int code, const char *reason)
{
    struct http_exchange *ex;
    struct passage *g;
    bool is_last;

    p->rounds++;
    for (g = next_of_caller(p, caller); g != NULL; g = next_of_caller(p, caller)) {
        g->round = p->rounds;
        list_remove(&g->caller->passages, &g->caller_link);
        list_push_back(&g->caller->passages, &g->caller_link);
        ex = g->upgrade != NULL ? tunnel_exchange(g->upgrade) : g->ex;
        is_last = p->is_leaving && p->passages == 1; /* with it the proxy is freed */
        if (ex != NULL && (may_go_on == NULL || !may_go_on(ctx, ex, g->box->key)))
            cut(g, code, reason);
        if (is_last)
            return;
    }
}

void box_proxy_count(const struct box_proxy *p, uint64_t box, uint64_t caller,
                     struct box_proxy_counts *ret)
{
    const struct proxy_load *of_box = proxy_load_find(&p->boxes, box);
    const struct proxy_load *of_caller = proxy_load_find(&p->callers, caller);

    ret->all = p->passages;
    ret->box = of_box != NULL ? of_box->count : 0;
    ret->caller = of_caller != NULL ? of_caller->count : 0;
}
