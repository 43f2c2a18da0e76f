/* fx_use.c - is anything at work in a box? The answer of its agent becomes one event. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "box/activity.h"
#include "engine/internal.h"

struct use_op {
    struct box_activity activity;
    struct list_node link;
    struct engine *engine;
    struct box_id box;
    uint64_t epoch;
};

static enum pool_use pool_use_of(enum box_use use)
{
    switch (use) {
    case BOX_USE_NONE:
        return POOL_USE_NONE;
    case BOX_USE_BUSY:
        return POOL_USE_BUSY;
    case BOX_USE_CANNOT:
        return POOL_USE_CANNOT;
    case BOX_USE_UNKNOWN:
        break;
    }
    return POOL_USE_UNKNOWN;
}

static void on_activity(struct op *op)
{
    struct use_op *u = container_of(op, struct use_op, activity.request.op);
    struct engine *e = u->engine;
    struct pool_event ev = {.kind = POOL_EV_USED, .box = u->box, .epoch = u->epoch};
    uint64_t now_ns = rt_now(e->rt);
    uint64_t idle_ms;

    ev.u.used.use = pool_use_of(box_activity_result(&u->activity, &idle_ms));
    ev.u.used.active_ns = idle_ms < now_ns / NS_PER_MS ? now_ns - idle_ms * NS_PER_MS : 0;
    if (ev.u.used.use == POOL_USE_UNKNOWN)
        log_debug("box.use_unknown", LF_HEX("box", u->box.v),
                  LF_STR("reason", op->result == SP_OK ? "not an answer" : op->err.msg));
    list_remove(&e->uses, &u->link);
    box_activity_fini(&u->activity);
    free(u);
    if (!e->is_closing) /* else the next start asks */
        engine_post(e, &ev);
    engine_op_ended(e);
}

void uses_cancel(struct engine *e)
{
    for (struct list_node *n = list_first(&e->uses); n != NULL; n = list_next(&e->uses, n))
        op_cancel(&container_of(n, struct use_op, link)->activity.request.op); /* ends later */
}

void fx_ask_use(struct engine *e, const struct pool_fx *fx)
{
    static const char scheme[] = "http";
    struct use_op *u;

    if (strncmp(fx->snapshot.url, scheme, strlen(scheme)) != 0) { /* simulated in this process */
        struct pool_event ev = {.kind = POOL_EV_USED, .box = fx->box, .epoch = fx->epoch};

        ev.u.used.use = POOL_USE_CANNOT;
        engine_post(e, &ev);
        return;
    }
    u = xcalloc(1, sizeof(*u));
    u->engine = e;
    u->box = fx->box;
    u->epoch = fx->epoch;
    list_push_back(&e->uses, &u->link);
    engine_op_begun(e);
    box_activity_start(e->http, &u->activity, fx->snapshot.url, fx->snapshot.token, fx->deadline_ns,
                       on_activity);
}
