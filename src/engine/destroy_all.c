/* destroy_all.c - for a daemon that shall leave nothing behind: every box is destroyed, also
 * leased ones. The pool is paused, so that it makes no new ones; the mode it had is what the store
 * remembers at the end. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/internal.h"

#define LOOK_EVERY_NS (10 * NS_PER_MS)

struct destroyer {
    struct engine *engine;
    struct rt_timer timer;
    uint64_t deadline_ns;
    char *modes_before;
    void (*on_done)(void *ctx, size_t left);
    void *ctx;
};

static void pause_pool(struct engine *e)
{
    struct pool_event ev = {.kind = POOL_EV_MODE};

    ev.u.mode.mode = POOL_PAUSED;
    engine_post(e, &ev);
}

/* Boxes that are being destroyed already are left alone; the reply goes to nobody. */
static size_t destroy_each(struct engine *e)
{
    size_t left = 0;

    for (size_t i = 0; i < pool_slot_count(e->pool); i++) {
        const struct pool_box *box = pool_slot(e->pool, i);
        struct pool_event ev = {.kind = POOL_EV_DESTROY};

        if (box == NULL)
            continue;
        left++;
        if (box->state >= POOL_DOOMED)
            continue;
        ev.box = box->id;
        ev.req.v = e->next_req;
        e->next_req++;
        ev.u.on.is_operator = true;
        ev.u.on.is_quick = true;
        engine_post(e, &ev);
    }
    return left;
}

static void on_stored(void *ctx, int result UNUSED)
{
    struct destroyer *d = ctx;
    struct pool_stats stats;

    pool_get_stats(d->engine->pool, &stats);
    d->on_done(d->ctx, stats.total);
    free(d->modes_before);
    free(d);
}

static void on_look(struct rt_timer *timer)
{
    struct destroyer *d = container_of(timer, struct destroyer, timer);
    struct engine *e = d->engine;

    if (destroy_each(e) > 0 && rt_now(e->rt) < d->deadline_ns) {
        rt_timer_set(e->rt, timer, rt_after(rt_now(e->rt), LOOK_EVERY_NS), on_look);
        return;
    }
    /* Only in the store: a pool that runs again would make boxes again. */
    meta_put(e, META_MODE, d->modes_before);
    engine_sync(e, on_stored, d);
}

void engine_destroy_all(struct engine *e, uint64_t deadline_ns,
                        void (*on_done)(void *ctx, size_t left), void *ctx)
{
    struct destroyer *d = xcalloc(1, sizeof(*d));
    struct pool_stats stats;

    pool_get_stats(e->pool, &stats);
    d->engine = e;
    d->deadline_ns = deadline_ns;
    d->modes_before = modes_text(e, stats.mode, stats.mode_text);
    d->on_done = on_done;
    d->ctx = ctx;
    pause_pool(e);
    on_look(&d->timer);
}
