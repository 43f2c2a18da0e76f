/* proxy_loss.c - a connection to a box broke in the middle of a request: did the box end, or only the connection? Its
 * caller is answered with the one or the other; where the answer has begun, a stream of events gets a last one that
 * says so, and anything else is cut. */
#include <string.h>

#include "base/str.h"
#include "box/proxy_internal.h"

static void add_end(struct passage *g, bool is_lost)
{
    struct buf text;

    buf_init(&text, 4096);
    proxy_put_end(g->stream, is_lost ? "sandbox_lost" : "transport_lost", g->reason, &text);
    if (!buf_failed(&text))
        (void) http_write(g->ex, text.data, text.len);
    buf_fini(&text);
    http_end(g->ex);
}

void proxy_loss_conclude(struct passage *g, bool is_lost)
{
    if (g->ex == NULL) {
        passage_free(g);
        return;
    }
    if (!g->is_begun || g->is_bodyless)
        g->p->config.refuse_loss(g->ex, is_lost, g->reason);
    else if (g->stream != PROXY_BYTES && g->has_end)
        http_end(g->ex); /* all that matters had come */
    else if (g->stream != PROXY_BYTES && !g->is_torn)
        add_end(g, is_lost);
    else
        http_abort(g->ex); /* only a broken connection says that something is missing */
    passage_free(g);
}

bool proxy_loss_begin(struct passage *g, int result)
{
    struct box_proxy *p = g->p;

    if (p->config.ask_loss == NULL)
        return false;
    if (g->is_cut) {
        proxy_loss_conclude(g, true);
        return true;
    }
    if (result != SP_IO && result != SP_CONNECT_FAILED)
        return false;
    if (g->up.tunnel_status != 0 && g->up.tunnel_status / 100 != 2)
        return false; /* the agent is well, and refused */
    if (p->is_leaving || p->is_closing) {
        str_copy_cut(g->reason, sizeof(g->reason), "the daemon has been replaced meanwhile");
        proxy_loss_conclude(g, false);
        return true;
    }
    list_push_back(&p->judged, &g->judged);
    g->loss.box = g->box->key;
    p->config.ask_loss(p->config.ctx, &g->loss);
    return true;
}

void box_proxy_judged(struct box_proxy_loss *loss, bool is_lost, const char *reason)
{
    struct passage *g = container_of(loss, struct passage, loss);

    str_copy_cut(g->reason, sizeof(g->reason), reason);
    proxy_loss_conclude(g, is_lost);
}

static void drop(struct passage *g, bool is_lost, const char *reason)
{
    g->p->config.drop_loss(g->p->config.ctx, &g->loss);
    box_proxy_judged(&g->loss, is_lost, reason);
}

void proxy_loss_stop(struct box_proxy *p)
{
    p->is_closing = !p->is_leaving;
    while (!list_is_empty(&p->judged))
        drop(container_of(list_first(&p->judged), struct passage, judged), false,
             "the daemon is being replaced or stopped");
}

void box_proxy_cut(struct box_proxy *p, uint64_t box, const char *reason)
{
    struct proxy_load *load = proxy_load_find(&p->boxes, box);
    struct list_node *n = load != NULL ? list_first(&load->passages) : NULL;

    while (n != NULL) { /* the load goes with its last passage */
        struct passage *g = container_of(n, struct passage, link);

        n = list_next(&load->passages, n);
        g->is_cut = true;
        str_copy_cut(g->reason, sizeof(g->reason), reason);
        if (list_is_linked(&g->judged))
            drop(g, true, reason);
        else if (op_is_active(&g->up.op))
            op_cancel(&g->up.op); /* proxy_loss_begin() follows, unless it is over already */
        else if (g->on_cut != NULL)
            g->on_cut(g);
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
