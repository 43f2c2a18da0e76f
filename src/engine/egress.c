/* egress.c - what a running box may reach, and another list for it. The box's backend has it; the profile's list is the
 * bound for callers that are no operators. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

#define CHANGE_NS (15 * NS_PER_S)

struct egress_change {
    struct backend_egress request;
    struct engine *engine;
    struct box_id box;
    char *allow;
    void (*on_done)(void *ctx, int code, const char *reason);
    void *ctx;
};

const char *engine_allowed(const struct engine *e, const struct pool_box *box)
{
    const struct backend *backend = e->backends[box->backend].backend;

    return backend != NULL && backend->ops->allowed != NULL
               ? backend->ops->allowed(e->backends[box->backend].backend, box->id.v)
               : NULL;
}

int engine_check_allow(struct engine *e, const struct pool_box *box, const char *allow,
                       struct err *err)
{
    const struct config_profile *p = engine_profile(e, box->profile);
    const char *bound = p != NULL ? config_egress(p) : NULL;
    char why[EGRESS_WHY_MAX];

    if (p == NULL || (bound == NULL && p->network.mode != CONFIG_NETWORK_NAT))
        return err_set(err, SP_FORBIDDEN,
                       "'allow': the profile of this box has no such network any more; only an "
                       "operator may change it");
    if (bound != NULL && !egress_is_within(allow, bound, why))
        return err_set(err, SP_FORBIDDEN, "'allow': %s; only an operator may ask for that", why);
    return SP_OK;
}

static void on_changed(struct op *op)
{
    struct egress_change *c = container_of(op, struct egress_change, request.op);
    struct engine *e = c->engine;
    int code = engine_code_for_caller(e, op->result);

    if (op->result == SP_OK)
        log_info("box.network_changed", LF_HEX("box", c->box.v), LF_STR("allow", c->allow));
    else
        log_warn("box.network_not_changed", LF_HEX("box", c->box.v), LF_STR("reason", op->err.msg));
    c->on_done(c->ctx, code, op->err.msg);
    free(c->allow);
    free(c);
    engine_op_ended(e);
}

void engine_set_allowed(struct engine *e, const struct pool_box *box, const char *allow,
                        void (*on_done)(void *ctx, int code, const char *reason), void *ctx)
{
    struct backend *backend = e->backends[box->backend].backend;
    struct egress_change *c = xcalloc(1, sizeof(*c));

    c->engine = e;
    c->box = box->id;
    c->allow = xstrdup(allow);
    c->on_done = on_done;
    c->ctx = ctx;
    c->request.allow = c->allow;
    box_to_backend(e, box, &c->request.box);
    engine_op_begun(e);
    backend->ops->egress(backend, &c->request, rt_after(rt_now(e->rt), CHANGE_NS), on_changed);
}
