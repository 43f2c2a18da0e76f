/* deeds.c - how operations of backends end: with success, with an error, late, after a cancel, or
 * in spite of it; and the notifications of a backend. */
#include "deeds.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "walk.h"

static void on_closed(struct rt_task *task)
{
    struct walk_backend *b = container_of(task, struct walk_backend, closed);
    void (*fn)(void *ctx) = b->on_closed;
    void *ctx = b->ctx;

    walk.backends[b->index] = NULL;
    free(b);
    fn(ctx);
}

static void on_end(struct rt_timer *timer)
{
    struct deed *d = container_of(timer, struct deed, timer);
    struct walk_backend *b = d->backend;
    struct op *op = d->op;
    struct err err;
    bool is_done = d->fate == FATE_SUCCEED || d->fate == FATE_SECRET;
    bool is_ok = d->fate == FATE_SUCCEED;

    if (!walk.is_frozen)
        d->act(d, is_done, is_ok);
    (void) err_set(&err, d->code, "made to fail");
    is_ok = is_ok && d->code == SP_BACKEND_FAILED;
    list_remove(&b->deeds, &d->link);
    free(d);
    op_finish(op, is_ok ? SP_OK : err.code, &err);
    if (b->is_closing && list_is_empty(&b->ops))
        rt_defer(&walk.loop.rt, &b->closed, on_closed);
}

/* A cancel is only a request: it takes effect, or comes too late, or both. */
static void on_cancel(struct op *op)
{
    static const enum fate fates[] = {FATE_FAIL, FATE_FAIL, FATE_SUCCEED, FATE_SECRET};
    struct deed *d = NULL;

    for (unsigned i = 0; i < WALK_BACKENDS && d == NULL; i++) {
        struct list *deeds = walk.backends[i] != NULL ? &walk.backends[i]->deeds : NULL;

        for (struct list_node *n = deeds != NULL ? list_first(deeds) : NULL; n != NULL;
             n = list_next(deeds, n))
            if (container_of(n, struct deed, link)->op == op)
                d = container_of(n, struct deed, link);
    }
    if (d == NULL)
        walk_fail("an operation is cancelled that is not under way");
    d->fate = fates[rand_below(&walk.rand, ARRAY_LEN(fates))];
    rt_timer_set(&walk.rt, &d->timer,
                 walk_now() + (walk.is_frozen ? 0 : rand_below(&walk.rand, WALK_CANCEL_NS)),
                 on_end);
}

struct deed *deed_start(struct walk_backend *b, struct op *op, uint64_t deadline_ns,
                        void (*on_done)(struct op *),
                        void (*act)(struct deed *d, bool is_done, bool is_reported))
{
    struct deed *d = xcalloc(1, sizeof(*d));

    if (b->is_closing && !walk.is_frozen)
        walk_fail("a backend is asked for something after it was closed");
    d->backend = b;
    d->op = op;
    d->act = act;
    d->fate = FATE_FAIL;
    d->code = SP_BACKEND_FAILED;
    list_push_back(&b->deeds, &d->link);
    op_begin(op, &walk.loop.rt, &b->ops, deadline_ns, on_cancel, on_done);
    rt_timer_set(&walk.rt, &d->timer, walk_now(), on_end);
    return d;
}

void deed_plan(struct deed *d, uint64_t lo_ms, uint64_t hi_ms)
{
    uint64_t dice = walk.is_calm ? 100 : rand_below(&walk.rand, 100);

    if (walk.is_frozen)
        return;
    d->fate = FATE_SUCCEED;
    if (dice < 6)
        d->fate = FATE_FAIL;
    else if (dice < 9)
        d->fate = FATE_SECRET;
    else if (dice < 15)
        d->fate = FATE_HANG;
    rt_timer_set(&walk.rt, &d->timer,
                 d->fate == FATE_HANG ? RT_NEVER : walk_now() + walk_ms(lo_ms, hi_ms), on_end);
}

/* --- the object --- */

int deeds_open(const struct backend_env *env, const struct config_profile *profile,
               struct backend **ret, struct err *err)
{
    unsigned index = backends_index(profile);
    struct walk_backend *b;

    if (walk.backends[index] != NULL)
        walk_fail("a backend is opened twice");
    if (index == WALK_BACKENDS - 1 && walk.is_serving && walk_chance(30))
        return err_set(err, SP_CONFIG, "made not to open");
    if (!walk.is_serving && walk_chance(1))
        return err_set(err, SP_IO, "made not to open");
    b = xcalloc(1, sizeof(*b));
    b->base.ops = backends_ops(index);
    b->index = index;
    b->events = env->events;
    list_init(&b->ops);
    list_init(&b->deeds);
    walk.backends[index] = b;
    *ret = &b->base;
    return SP_OK;
}

void deeds_close(struct backend *base, void (*on_closed_fn)(void *ctx), void *ctx)
{
    struct walk_backend *b = container_of(base, struct walk_backend, base);

    if (b->is_closing)
        walk_fail("a backend is closed twice");
    b->is_closing = true;
    b->on_closed = on_closed_fn;
    b->ctx = ctx;
    op_cancel_all(&b->ops);
    if (list_is_empty(&b->ops))
        rt_defer(&walk.loop.rt, &b->closed, on_closed);
}

bool backends_are_closed(void)
{
    for (unsigned i = 0; i < WALK_BACKENDS; i++)
        if (walk.backends[i] != NULL)
            return false;
    return true;
}

/* What was under way may continue at the other side; its end is not reported. */
void backends_freeze(void)
{
    for (unsigned i = 0; i < WALK_BACKENDS; i++) {
        struct walk_backend *b = walk.backends[i];
        struct list_node *n = b != NULL ? list_first(&b->deeds) : NULL;

        for (; n != NULL; n = list_next(&b->deeds, n)) {
            struct deed *d = container_of(n, struct deed, link);

            if (d->box != NULL && walk_one_in(2))
                d->act(d, true, false);
            d->fate = FATE_FAIL;
            rt_timer_set(&walk.rt, &d->timer, walk_now(), on_end);
        }
    }
}

/* --- notifications --- */

struct news {
    struct rt_timer timer;
    unsigned backend;
    uint64_t box;
};

static void on_news(struct rt_timer *timer)
{
    struct news *n = container_of(timer, struct news, timer);
    struct walk_backend *b = walk.backends[n->backend];

    if (b != NULL && !b->is_closing && !walk.is_frozen) {
        if (n->box % 5 < 3 && b->events->on_alone != NULL)
            b->events->on_alone(b->events->ctx, n->box,
                                n->box % 5 == 0   ? BACKEND_DEATH_NETLESS
                                : n->box % 5 == 1 ? BACKEND_DEATH_UNGUARDED
                                                  : BACKEND_DEATH_KERNEL_MEMORY);
        else
            b->events->on_died(b->events->ctx, n->box, "made to die");
    }
    free(n);
}

void backends_report_death(const struct walk_box *b)
{
    struct news *n;

    if (!backends_ops(b->backend)->is_watched || walk_one_in(4))
        return; /* a listing shows it */
    n = xcalloc(1, sizeof(*n));
    n->backend = b->backend;
    n->box = b->labels.box_id;
    rt_timer_set(&walk.rt, &n->timer, walk_now() + walk_ms(0, 50), on_news);
}

void backends_report_news(void)
{
    struct walk_backend *b = walk.backends[rand_below(&walk.rand, WALK_BACKENDS)];
    struct backend_notice n = {.text = "made up", .image = "walk:latest"};

    if (b == NULL || b->is_closing)
        return;
    n.kind = (enum backend_notice_kind) rand_below(&walk.rand, BACKEND_NOTICE_COUNT);
    if (n.kind == BACKEND_BOX_RESUMED || n.kind == BACKEND_BOX_OOM ||
        n.kind == BACKEND_BOX_KERNEL_MEMORY) {
        n.image = NULL;
        n.box_id = walk.box_count > 0
                       ? walk.boxes[rand_below(&walk.rand, walk.box_count)].labels.box_id
                       : 0;
    }
    if (n.kind == BACKEND_BOX_PAUSED || walk_one_in(2))
        b->events->on_resync(b->events->ctx);
    else
        b->events->on_notice(b->events->ctx, &n);
}
