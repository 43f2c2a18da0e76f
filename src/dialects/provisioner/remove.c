/* remove.c - DELETE: ends what is under way for the id, destroys its box and waits until it is
 * gone, but not longer than the caller waits. The destroy continues after that. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/provisioner/internal.h"

#define DELETE_WAIT_NS (12 * NS_PER_S) /* DeerFlow's client waits 15 s */

struct removal {
    struct engine_call call;
    struct provisioner *p;
    struct http_exchange *ex;
    struct rt_timer timer;
    char sandbox_id[POOL_ID_MAX + 1];
};

static void reply_gone(struct http_exchange *ex, const char *sandbox_id)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "ok", true);
    json_put_str(&o, "sandbox_id", sandbox_id);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static void on_reply(struct engine_call *call, const struct pool_fx *fx)
{
    struct removal *m = container_of(call, struct removal, call);
    int code = fx->u.reply.code;

    rt_timer_cancel(&m->p->loop->rt, &m->timer);
    if (code == SP_OK && fx->snapshot.state == POOL_DESTROYING)
        provisioner_refuse(m->ex, 500, 0,
                           "Partial cleanup: pod: it is tried again until it is gone");
    else if (code == SP_OK || code == SP_NOT_FOUND || code == SP_SANDBOX_LOST)
        reply_gone(m->ex, m->sandbox_id);
    else
        provisioner_refuse(m->ex, 500, 0, "Partial cleanup: pod: %s",
                           str_is_empty(fx->reason) ? sp_error_info(code)->text : fx->reason);
    free(m);
}

static void on_timer(struct rt_timer *timer)
{
    struct removal *m = container_of(timer, struct removal, timer);

    engine_call_abandon(m->p->engine, &m->call);
    provisioner_refuse(m->ex, 500, 0, "Partial cleanup: pod: it is still being destroyed");
    free(m);
}

static void on_gone(void *ctx)
{
    struct removal *m = ctx;

    rt_timer_cancel(&m->p->loop->rt, &m->timer);
    engine_call_abandon(m->p->engine, &m->call);
    free(m);
}

void provisioner_delete(struct http_exchange *ex)
{
    struct provisioner *p = provisioner_of(ex);
    const char *id = http_path_param(ex, "id");
    struct pool_event ev = {.kind = POOL_EV_DESTROY};
    const struct pool_box *box;
    struct removal *m;

    provisioner_end_creates(p, id);
    box = provisioner_find(p, id);
    if (box == NULL)
        box = provisioner_find_ending(p, id);
    if (box == NULL) {
        reply_gone(ex, id);
        return;
    }
    m = xcalloc(1, sizeof(*m));
    m->p = p;
    m->ex = ex;
    m->call.on_reply = on_reply;
    str_copy_cut(m->sandbox_id, sizeof(m->sandbox_id), box->sandbox_id);
    ev.box = box->id;
    ev.u.on.principal = p->principal;
    http_set_ctx(ex, m, on_gone);
    http_may_repeat(ex);
    rt_timer_set(&p->loop->rt, &m->timer, rt_after(rt_now(&p->loop->rt), DELETE_WAIT_NS), on_timer);
    engine_call_start(p->engine, &m->call, &ev);
}
