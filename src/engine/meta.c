/* meta.c - small facts about the daemon itself, and waiting for the store. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

struct meta_write {
    struct store_write write;
    struct engine *engine;
    char key[32];
    char *value;
    void (*on_done)(void *ctx, int result); /* somebody waits for it, or NULL */
    void *ctx;
    struct rt_timer timer; /* until when that one waits */
};

static void on_meta_written(struct op *op)
{
    struct meta_write *w = container_of(op, struct meta_write, write.op);
    struct engine *e = w->engine;

    rt_timer_cancel(e->rt, &w->timer);
    if (w->on_done != NULL)
        w->on_done(w->ctx, op->result);
    free(w->value);
    free(w);
    engine_op_ended(e);
}

/* The disk hangs: the write stays in flight, but nobody waits for it any more. */
static void on_overdue(struct rt_timer *timer)
{
    struct meta_write *w = container_of(timer, struct meta_write, timer);

    TAKE_PTR(w->on_done)(w->ctx, SP_STORE_UNAVAILABLE);
}

static void submit(struct engine *e, const char *key, const char *value, bool want_power,
                   void (*on_done)(void *ctx, int result), void *ctx)
{
    struct meta_write *w = xcalloc(1, sizeof(*w));

    w->engine = e;
    w->value = xstrdup(value);
    w->on_done = on_done;
    w->ctx = ctx;
    str_copy_cut(w->key, sizeof(w->key), key);
    w->write.kind = STORE_PUT_META;
    w->write.want_power = want_power;
    w->write.u.meta.key = w->key;
    w->write.u.meta.value = w->value;
    engine_op_begun(e);
    if (on_done != NULL)
        rt_timer_set(e->rt, &w->timer,
                     rt_after(rt_now(e->rt), e->config->config->store.timeout_s * NS_PER_S),
                     on_overdue);
    store_submit(e->store, &w->write, on_meta_written);
}

void meta_put(struct engine *e, const char *key, const char *value)
{
    submit(e, key, value, false, NULL, NULL);
}

void meta_put_power(struct engine *e, const char *key, const char *value)
{
    submit(e, key, value, true, NULL, NULL);
}

void engine_sync(struct engine *e, void (*on_done)(void *ctx, int result), void *ctx)
{
    /* Writes are committed in the order they were submitted, so any write is a barrier. */
    submit(e, "synced", "", false, on_done, ctx);
}

void engine_prove_store(struct engine *e, void (*on_done)(void *ctx, int result), void *ctx)
{
    submit(e, "synced", "", true, on_done, ctx);
}
