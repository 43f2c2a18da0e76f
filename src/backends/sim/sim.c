/* sim.c - the `sim` backend with the machine in this process. The machine decides at once what
 * becomes of a create; the operation only waits until its answer is due. */
#include "backends/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/host.h"
#include "base/mem.h"
#include "base/str.h"
#include "sim/wire.h"

struct sim {
    struct backend base;
    struct rt *rt;
    const struct backend_events *events;
    char instance[BACKEND_LABEL_MAX + 1];
    struct world world;
    struct list ops;
    struct list deaths;
    struct rt_task report;
    bool is_closing;
    struct rt_task closed;
    void (*on_closed)(void *ctx);
    void *ctx;
};

/* An answer that is not due yet; `priv` of the request. */
struct sim_wait {
    struct rt_timer due;
    struct sim *sim;
    struct op *op;
    bool can_undo; /* a cancelled create takes its box back */
    int result;
    struct err err;
};

struct sim_death {
    struct list_node link;
    uint64_t box_id;
    char reason[64];
};

static struct sim *sim_of(struct backend *b)
{
    return container_of(b, struct sim, base);
}

static void on_closed_task(struct rt_task *task)
{
    struct sim *s = container_of(task, struct sim, closed);
    void (*on_closed)(void *ctx) = s->on_closed;
    void *ctx = s->ctx;

    while (!list_is_empty(&s->deaths))
        free(container_of(list_pop_front(&s->deaths), struct sim_death, link));
    rt_undefer(s->rt, &s->report);
    world_fini(&s->world);
    free(s);
    on_closed(ctx);
}

static void finish(struct sim *s, struct op *op, int result, const struct err *err)
{
    op_finish(op, result, err);
    /* Deferred after the completion, so every on_done() comes before on_closed(). */
    if (s->is_closing && list_is_empty(&s->ops))
        rt_defer(s->rt, &s->closed, on_closed_task);
}

/* --- deaths --- */

static void report_deaths(struct rt_task *task)
{
    struct sim *s = container_of(task, struct sim, report);

    while (!list_is_empty(&s->deaths) && !s->is_closing) {
        struct sim_death *d = container_of(list_pop_front(&s->deaths), struct sim_death, link);

        if (s->events != NULL && s->events->on_died != NULL)
            s->events->on_died(s->events->ctx, d->box_id, d->reason);
        free(d);
    }
}

static void on_died(void *ctx, uint64_t box_id, const char *reason)
{
    struct sim *s = ctx;
    struct sim_death *d = xcalloc(1, sizeof(*d));

    d->box_id = box_id;
    str_copy_cut(d->reason, sizeof(d->reason), reason);
    list_push_back(&s->deaths, &d->link);
    rt_defer(s->rt, &s->report, report_deaths);
}

bool sim_kill(struct backend *b, uint64_t box_id, const char *reason)
{
    assert(b->ops == &sim_ops);
    return world_kill(&sim_of(b)->world, box_id, reason);
}

const struct world *sim_world(const struct backend *b)
{
    assert(b->ops == &sim_ops);
    return &container_of(b, const struct sim, base)->world;
}

/* --- open and close --- */

static int sim_open(const struct backend_env *env, const struct config_profile *profile,
                    struct backend **ret, struct err *err)
{
    struct sim *s;

    if (!str_is_empty(profile->sim.socket))
        return sim_host_open(env, profile, ret, err);
    s = xcalloc(1, sizeof(*s));
    s->base.ops = &sim_ops;
    s->rt = &env->loop->rt;
    s->events = env->events;
    str_copy_cut(s->instance, sizeof(s->instance), env->instance);
    list_init(&s->ops);
    list_init(&s->deaths);
    world_init(&s->world, s->rt, WORLD_BOXES_MAX, on_died, s);
    *ret = &s->base;
    return SP_OK;
}

static void sim_close(struct backend *b, void (*on_closed)(void *ctx), void *ctx)
{
    struct sim *s = sim_of(b);

    assert(!s->is_closing);
    s->on_closed = on_closed;
    s->ctx = ctx;
    s->is_closing = true;
    op_cancel_all(&s->ops);
    if (list_is_empty(&s->ops))
        rt_defer(s->rt, &s->closed, on_closed_task);
}

/* --- answers --- */

static bool fill_box(const struct world_box *from, struct backend_box *ret)
{
    char hex[17];
    char url[32];
    struct world_spec spec;

    str_hex64(hex, from->box_id);
    (void) snprintf(url, sizeof(url), "sim://%s", hex);
    world_box_spec(from, &spec);
    if (!sim_box_from_spec(&spec, url, ret))
        return false;
    ret->is_ready = true;
    return true;
}

static struct sim_wait *wait_until(struct sim *s, struct op *op, uint64_t at_ns,
                                   void (*fire)(struct rt_timer *))
{
    struct sim_wait *w = xcalloc(1, sizeof(*w));

    w->sim = s;
    w->op = op;
    rt_timer_set(s->rt, &w->due, at_ns, fire);
    return w;
}

static void end_wait(struct sim_wait *w, int result, const struct err *err)
{
    struct sim *s = w->sim;
    struct op *op = w->op;

    rt_timer_cancel(s->rt, &w->due);
    finish(s, op, result, err);
    free(w);
}

static void on_create_due(struct rt_timer *timer)
{
    struct sim_wait *w = container_of(timer, struct sim_wait, due);

    end_wait(w, w->result, &w->err);
}

static void on_create_cancel(struct op *op)
{
    struct backend_create *r = container_of(op, struct backend_create, op);
    struct sim_wait *w = r->priv;

    r->priv = NULL;
    if (w->can_undo)
        (void) world_destroy(&w->sim->world, r->labels.box_id); /* absent is as good */
    end_wait(w, SP_CANCELLED, NULL);
}

/* The machine writes down what it did to a box; this comes first. */
static void write_down(struct sim *s, uint64_t box_id, const struct backend_extras *extras)
{
    struct json_out o;
    struct buf text;

    json_out_init(&o);
    sim_put_extras(&o, NULL, extras);
    buf_init(&text, WIRE_UPDATE_MAX);
    json_out_finish(&o, &text);
    world_update_end(&s->world, box_id, buf_str(&text));
    buf_fini(&text);
}

static void sim_create(struct backend *b, struct backend_create *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    struct world_manners manners;
    struct world_spec spec;
    struct sim_wait *w;
    struct err err = {0};
    uint64_t at_ns;
    bool is_new;
    int rc;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, on_create_cancel, on_done);
    sim_spec_from_labels(&r->labels, r->token, &spec);
    sim_manners_from_profile(r->profile, &manners);
    rc = sim_check_extras(r->extras, &err);
    if (rc != SP_OK) {
        finish(s, &r->op, rc, &err);
        return;
    }
    rc = world_create(&s->world, &spec, &manners, &at_ns, &is_new, &err);
    if (rc == SP_OK && !fill_box(world_find(&s->world, spec.box_id), &r->box))
        rc = err_set(&err, SP_INTERNAL, "a label of the box is too long");
    if (rc == SP_OK && is_new && r->extras != NULL &&
        world_update_begin(&s->world, spec.box_id, &err) == SP_OK)
        write_down(s, spec.box_id, r->extras);
    if (at_ns <= rt_now(s->rt)) {
        finish(s, &r->op, rc, &err);
        return;
    }
    w = wait_until(s, &r->op, at_ns, on_create_due);
    w->can_undo = is_new && at_ns != RT_NEVER;
    w->result = rc;
    w->err = err;
    r->priv = w;
}

static void destroy_now(struct sim *s, struct backend_destroy *r)
{
    bool is_removed = world_destroy(&s->world, r->box.labels.box_id);

    (void) snprintf(r->report, sizeof(r->report), "%s",
                    is_removed ? "the simulated box was removed" : "the box was not there");
}

static void on_destroy_due(struct rt_timer *timer)
{
    struct sim_wait *w = container_of(timer, struct sim_wait, due);

    destroy_now(w->sim, container_of(w->op, struct backend_destroy, op));
    end_wait(w, SP_OK, NULL);
}

static void on_destroy_cancel(struct op *op)
{
    end_wait(container_of(op, struct backend_destroy, op)->priv, SP_CANCELLED, NULL);
}

static void sim_destroy(struct backend *b, struct backend_destroy *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    uint64_t destroy_ms = r->profile != NULL ? r->profile->sim.destroy_ms : 0;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, on_destroy_cancel, on_done);
    if (destroy_ms > 0) {
        uint64_t at_ns = rt_after(rt_now(s->rt), destroy_ms * NS_PER_MS);

        r->priv = wait_until(s, &r->op, at_ns, on_destroy_due);
        return;
    }
    destroy_now(s, r);
    finish(s, &r->op, SP_OK, NULL);
}

static void sim_is_alive(struct backend *b, struct backend_check *r, uint64_t deadline_ns,
                         void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    bool is_there = world_find(&s->world, r->box.labels.box_id) != NULL;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    r->verdict = is_there ? BACKEND_ALIVE : BACKEND_DEAD;
    finish(s, &r->op, SP_OK, NULL);
}

static void sim_discover(struct backend *b, struct backend_discover *r, uint64_t deadline_ns,
                         void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    const struct world_box *box = world_find_sandbox(&s->world, s->instance, r->sandbox_id);

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    r->is_found = box != NULL && fill_box(box, &r->box);
    finish(s, &r->op, SP_OK, NULL);
}

static void sim_list(struct backend *b, struct backend_list *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    const struct world_box *box;
    size_t cursor = 0;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    r->count = 0;
    r->boxes = NULL;
    if (world_count(&s->world) > 0)
        r->boxes = try_realloc(NULL, world_count(&s->world) * sizeof(struct backend_box));
    if (world_count(&s->world) > 0 && r->boxes == NULL) {
        struct err err;

        finish(s, &r->op, err_set(&err, SP_NO_MEMORY, "no memory for a list of boxes"), &err);
        return;
    }
    for (box = world_next(&s->world, &cursor); box != NULL; box = world_next(&s->world, &cursor))
        if (r->boxes != NULL && strcmp(world_box_text(box, WORLD_INSTANCE), s->instance) == 0 &&
            fill_box(box, &r->boxes[r->count]))
            r->count++;
    finish(s, &r->op, SP_OK, NULL);
}

static void sim_bind(struct backend *b, struct backend_bind *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    struct world_spec spec;
    struct err err;
    int rc;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    sim_spec_from_labels(&r->box.labels, "", &spec);
    rc = world_bind(&s->world, &spec, &err);
    finish(s, &r->op, rc, &err);
}

static void end_update(struct sim_wait *w, int result, const struct err *err)
{
    const struct backend_update *r = container_of(w->op, struct backend_update, op);

    if (result == SP_OK)
        write_down(w->sim, r->box.labels.box_id, &r->extras);
    else
        world_update_end(&w->sim->world, r->box.labels.box_id, NULL);
    end_wait(w, result, err);
}

static void on_update_due(struct rt_timer *timer)
{
    struct sim_wait *w = container_of(timer, struct sim_wait, due);
    struct err err = w->err;

    end_update(w, w->result, &err);
}

static void on_update_cancel(struct op *op)
{
    end_update(container_of(op, struct backend_update, op)->priv, SP_CANCELLED, NULL);
}

static void sim_update(struct backend *b, struct backend_update *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);
    struct sim_update_manners manners;
    struct sim_wait *w;
    struct err err;
    int rc;

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, on_update_cancel, on_done);
    sim_update_manners(&r->extras, &manners);
    rc = world_update_begin(&s->world, r->box.labels.box_id, &err);
    if (rc != SP_OK) {
        finish(s, &r->op, rc, &err);
        return;
    }
    w = wait_until(s, &r->op, rt_after(rt_now(s->rt), manners.update_ms * NS_PER_MS),
                   on_update_due);
    r->priv = w;
    if (manners.error != NULL)
        w->result = err_set(&w->err, sp_error_from_name(manners.error),
                            "the simulated machine was asked to fail");
}

static void sim_examine(struct backend *b, struct backend_exam *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *))
{
    struct sim *s = sim_of(b);

    op_begin(&r->op, s->rt, &s->ops, deadline_ns, NULL, on_done);
    backend_report(r, BACKEND_FINDING_WARN, "simulated boxes",
                   "nothing runs in them, and they end with the daemon");
    finish(s, &r->op, SP_OK, NULL);
}

const struct backend_ops sim_ops = {
    .name = CONFIG_BACKEND_SIM,
    .is_local = true,
    .is_watched = true,
    .can_discover = true,
    .can_bind = true,
    .late = BACKEND_LATE_ALL,
    .late_of = sim_late_of,
    .at_create = BACKEND_LATE_ALL,
    .open = sim_open,
    .close = sim_close,
    .create = sim_create,
    .destroy = sim_destroy,
    .is_alive = sim_is_alive,
    .discover = sim_discover,
    .list = sim_list,
    .bind = sim_bind,
    .update = sim_update,
    .examine = sim_examine,
};
