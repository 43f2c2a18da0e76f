/* prepare.c - commands of its profile that are run in a new box before anybody gets it: first setup, then warm_up. A box
 * in which one fails is not ready, and counts like one that could not be made. */
#include <string.h>

#include "base/str.h"
#include "engine/internal.h"
#include "engine/prepare.h"

enum { SETUP, WARM_UP, STEP_COUNT };

struct step {
    const char *name;
    const char *command;
    uint64_t timeout_s;
    bool is_root;
};

/* In a container the agent may not be root: there everything is run by the container's user. */
static struct step step_of(const struct config_profile *c, unsigned step)
{
    bool is_oci = strcmp(c->backend, CONFIG_BACKEND_OCI) == 0;

    if (step == SETUP)
        return (struct step){"setup", c->setup.command, c->setup.timeout_s, is_oci};
    return (struct step){"warm_up", c->warm_up.command, c->warm_up.timeout_s, false};
}

/* A box that was ready before, in an earlier life of the daemon too, is not new. */
bool prepare_is_needed(struct engine *e, const struct pool_box *box)
{
    const struct config_profile *c = profiles_of_box(e, box);

    return c != NULL && box->state == POOL_STARTING && box->ready_ns == 0 &&
           (!str_is_empty(c->setup.command) || !str_is_empty(c->warm_up.command));
}

static void on_step(struct op *op);

static void end(struct prepare *p, const struct err *err)
{
    config_ref_put(p->config);
    p->on_done(p, err);
}

/* The first from `p->step` on that there is. */
static void run(struct prepare *p)
{
    struct step s;

    while (p->step < STEP_COUNT && str_is_empty(step_of(p->profile, p->step).command))
        p->step++;
    if (p->step == STEP_COUNT || p->engine->is_closing) {
        struct err err = {.code = p->step == STEP_COUNT ? SP_OK : SP_CANCELLED};

        end(p, &err);
        return;
    }
    s = step_of(p->profile, p->step);
    p->command = (struct box_command){.url = p->box.url,
                                      .token = p->box.token,
                                      .command = s.command,
                                      .is_root = s.is_root,
                                      .timeout_s = s.timeout_s};
    box_command_start(p->engine->http, p->engine->rt, &p->command, &p->engine->probes, on_step);
}

static void on_step(struct op *op)
{
    struct prepare *p = container_of(op, struct prepare, command.op);
    const char *name = step_of(p->profile, p->step).name;
    struct err err = op->err;

    if (op->result == SP_OK) {
        p->step++;
        run(p);
        return;
    }
    err.code = op->result;
    (void) err_wrap(&err, "%s failed", name);
    if (op->result != SP_CANCELLED)
        log_warn("box.not_prepared", LF_HEX("box", p->box.id.v),
                 LF_STR("profile", p->profile->name), LF_STR("reason", err.msg),
                 LF_STR("output", p->command.tail));
    end(p, &err);
}

void prepare_start(struct engine *e, struct prepare *p, const struct pool_box *box,
                   void (*on_done)(struct prepare *p, const struct err *err))
{
    p->engine = e;
    p->box = *box;
    p->config = config_ref_get(e->config);
    p->profile = profiles_of_box(e, box);
    p->step = 0;
    p->on_done = on_done;
    run(p);
}
