/* host.c - the `sim` backend as a client of sandpool-sim. Every operation is one request (a
 * list: one per page). No answer is never taken for "no such box": only sandpool-sim's own
 * not_found counts as that. */
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "backends/sim/internal.h"
#include "base/mem.h"
#include "base/str.h"
#include "sim/wire.h"

/* --- open and close --- */

int sim_host_open(const struct backend_env *env, const struct config_profile *profile,
                  struct backend **ret, struct err *err)
{
    struct sim_host *h;

    if (strlen(profile->sim.socket) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
        return err_set(err, SP_CONFIG, "sim.socket is too long for a Unix socket: '%.120s'",
                       profile->sim.socket);
    h = xcalloc(1, sizeof(*h));
    h->base.ops = &sim_host_ops;
    h->rt = &env->loop->rt;
    h->http = env->http;
    h->events = env->events;
    str_copy_cut(h->instance, sizeof(h->instance), env->instance);
    str_copy_cut(h->socket, sizeof(h->socket), profile->sim.socket);
    list_init(&h->ops);
    sim_watch_start(h);
    *ret = &h->base;
    return SP_OK;
}

static void on_closed_task(struct rt_task *task)
{
    struct sim_host *h = container_of(task, struct sim_host, closed);
    void (*on_closed)(void *ctx) = h->on_closed;
    void *ctx = h->ctx;

    free(h);
    on_closed(ctx);
}

void sim_host_settle(struct sim_host *h)
{
    /* Deferred after the last completion, so every on_done() comes before on_closed(). */
    if (h->is_closing && list_is_empty(&h->ops) && !h->watch.is_asking)
        rt_defer(h->rt, &h->closed, on_closed_task);
}

static void host_close(struct backend *b, void (*on_closed)(void *ctx), void *ctx)
{
    struct sim_host *h = sim_host_of(b);

    assert(!h->is_closing);
    h->on_closed = on_closed;
    h->ctx = ctx;
    h->is_closing = true;
    sim_watch_stop(h);
    op_cancel_all(&h->ops);
    sim_host_settle(h);
}

/* --- requests and answers in common --- */

void sim_call_box(struct sim_call *c, uint64_t box_id, const char *tail)
{
    char hex[17];

    str_hex64(hex, box_id);
    buf_printf(&c->url, "/boxes/%s%s?instance=", hex, tail);
    buf_put_escaped(&c->url, c->host->instance);
}

int sim_call_get(const struct json *obj, struct backend_box *ret, struct err *err)
{
    struct wire_box box;
    int rc = wire_get_box(obj, &box, err);

    if (rc != SP_OK)
        return err_wrap(err, "sandpool-sim's answer");
    if (!sim_box_from_spec(&box.spec, box.url, ret))
        return err_set(err, SP_PROTOCOL, "sandpool-sim's answer: a text is too long");
    return SP_OK;
}

const struct backend_ops sim_host_ops = {
    .name = CONFIG_BACKEND_SIM,
    .is_local = true,
    .is_watched = true,
    .can_discover = true,
    .can_bind = true,
    .late = BACKEND_LATE_ALL,
    .late_of = sim_late_of,
    .at_create = BACKEND_LATE_ALL,
    .open = sim_host_open,
    .close = host_close,
    .create = sim_host_create,
    .destroy = sim_host_destroy,
    .is_alive = sim_host_is_alive,
    .discover = sim_host_discover,
    .list = sim_host_list,
    .bind = sim_host_bind,
    .update = sim_host_update,
    .examine = sim_host_examine,
};
