/* sampler.c - what boxes use is read now and then and given to the store, which adds it up. The boxes take turns: a few of
 * the pool's places are looked at in each tick, so that each comes once in usage.sample_s, however many there are. A box is
 * also read when it is ready, so that what was used to make it is nobody's, and before its end is written, so that its
 * owner's last interval has all of it. */
#include "engine/sampler.h"

#include <stdlib.h>

#include "base/fault.h"
#include "base/mem.h"
#include "engine/internal.h"

#define TICK_MIN_NS (100 * NS_PER_MS)
#define TICK_MAX_NS (10 * NS_PER_S)
#define TURN_NS (3 * NS_PER_S)
#define LAST_NS (500 * NS_PER_MS) /* an end waits no longer for the last sample */

enum {
    RUNNING_MAX = 32, /* samples of boxes whose turn it is */
    HELD_MAX = 1024   /* ends that wait for one; of more at once the last sample is what counts */
};

static bool is_on(const struct engine *e)
{
    const struct config *c = e->config->config;

    return c->usage.enabled && c->usage.sample_s > 0 && !e->is_closing;
}

/* --- into the store --- */

struct sample_write {
    struct store_write write;
    struct engine *engine;
};

static void on_written(struct op *op)
{
    struct sample_write *w = container_of(op, struct sample_write, write.op);
    struct engine *e = w->engine;

    FAULT_POINT("usage.after_sample");
    if (op->result != SP_OK) /* the next one has what this one had */
        log_debug("usage.sample_not_stored", LF_HEX("box", w->write.u.sample.box),
                  LF_STR("reason", op->err.msg));
    free(w);
    engine_op_ended(e);
}

static void put(struct store_counts *to, enum store_counter k, struct backend_count c)
{
    if (!c.is_known || c.n > INT64_MAX)
        return;
    to->n[k] = c.n;
    to->known |= 1U << k;
}

static void submit(struct engine *e, struct box_id box, const struct backend_counters *c)
{
    struct sample_write *w = xcalloc(1, sizeof(*w));
    struct store_counts *now = &w->write.u.sample.now;

    put(now, STORE_CPU_US, c->cpu_us);
    put(now, STORE_MEMORY, c->memory);
    put(now, STORE_NET_IN, c->net_in);
    put(now, STORE_NET_OUT, c->net_out);
    put(now, STORE_DISK_READ, c->disk_read);
    put(now, STORE_DISK_WRITE, c->disk_write);
    if (now->known == 0) {
        free(w);
        return;
    }
    FAULT_POINT("usage.before_sample");
    w->engine = e;
    w->write.kind = STORE_SAMPLE;
    w->write.u.sample.box = box.v;
    engine_op_begun(e);
    store_submit(e->store, &w->write, on_written);
}

/* --- one box --- */

struct sample {
    struct engine *engine;
    struct box_id box;
    bool is_turn;
    struct pool_fx *end; /* the write that waits for it; NULL: none does */
};

static void on_counted(void *ctx, const struct backend_counters *c)
{
    struct sample *s = ctx;
    struct engine *e = s->engine;

    if (c != NULL && pool_find_box(e->pool, s->box) != NULL)
        submit(e, s->box, c);
    e->sampler.running -= s->is_turn ? 1 : 0;
    if (s->end != NULL) {
        e->sampler.held--;
        fx_store_now(e, s->end);
        engine_op_ended(e);
    }
    free(s->end);
    free(s);
}

static struct sample *sample_new(struct engine *e, struct box_id box)
{
    struct sample *s = xcalloc(1, sizeof(*s));

    s->engine = e;
    s->box = box;
    return s;
}

void sampler_ready(struct engine *e, struct box_id id)
{
    const struct pool_box *box = pool_find_box(e->pool, id);

    if (is_on(e) && box != NULL && engine_can_count(e, box))
        stats_start(e, box, TURN_NS, on_counted, sample_new(e, id));
}

/* One that has died has nobody to ask, unless its backend still knows. */
static bool is_countable(const struct engine *e, const struct pool_box *box)
{
    bool has_died = pool_end_is_death(box->end);

    return engine_can_count(e, box) && (!has_died || (box->end != POOL_END_RESTARTED &&
                                                      e->backends[box->backend].ops->counts_ended));
}

bool sampler_hold_end(struct engine *e, const struct pool_fx *fx)
{
    const struct pool_box *box = &fx->snapshot;
    struct sample *s;

    if (!is_on(e) || fx->u.store.what != POOL_WRITE_DELETING || box->state != POOL_DOOMED ||
        box->sandbox_id[0] == '\0' || box->seen_ns == 0 || e->sampler.held == HELD_MAX ||
        !is_countable(e, box) || !store_is_up(e->store))
        return false;
    s = sample_new(e, box->id);
    s->end = xcalloc(1, sizeof(*s->end));
    *s->end = *fx;
    e->sampler.held++;
    engine_op_begun(e);
    stats_start(e, box, LAST_NS, on_counted, s);
    return true;
}

/* --- in turn --- */

static void on_tick(struct rt_timer *timer);

static bool is_sampled(const struct pool_box *box)
{
    return box->end == POOL_END_NONE && box->seen_ns != 0 &&
           (box->state == POOL_BLANK || box->state == POOL_LEASING || box->state == POOL_LEASED ||
            box->state == POOL_PARKING || box->state == POOL_PARKED);
}

static uint64_t round_ns(const struct engine *e)
{
    return FAULT_TIME(e->config->config->usage.sample_s * NS_PER_S);
}

/* Of so many places that each comes once in a round. */
static uint64_t tick_ns(const struct engine *e)
{
    uint64_t places = MAX_OF((uint64_t) pool_slot_count(e->pool), 1);

    return MIN_OF(MAX_OF(round_ns(e) / places, TICK_MIN_NS), TICK_MAX_NS);
}

static void look(struct engine *e)
{
    uint64_t places = pool_slot_count(e->pool);
    uint64_t count = MIN_OF(places * tick_ns(e) / round_ns(e) + 1, places);

    for (; count > 0 && e->sampler.running < RUNNING_MAX; count--) {
        const struct pool_box *box;
        struct sample *s;

        e->sampler.place = e->sampler.place + 1 < places ? e->sampler.place + 1 : 0;
        box = pool_slot(e->pool, e->sampler.place);
        if (box == NULL || !is_sampled(box) || !engine_can_count(e, box))
            continue;
        s = sample_new(e, box->id);
        s->is_turn = true;
        e->sampler.running++;
        stats_start(e, box, TURN_NS, on_counted, s);
    }
}

static void on_tick(struct rt_timer *timer)
{
    struct engine *e = container_of(timer, struct engine, sampler.timer);
    struct pool_stats stats;

    if (!is_on(e))
        return;
    look(e);
    pool_get_stats(e->pool, &stats);
    if (stats.total > 0)
        sampler_arm(e);
}

void sampler_arm(struct engine *e)
{
    if (is_on(e) && !heap_has(&e->sampler.timer.node))
        rt_timer_set(e->rt, &e->sampler.timer, rt_after(rt_now(e->rt), tick_ns(e)), on_tick);
}

void sampler_close(struct engine *e)
{
    rt_timer_cancel(e->rt, &e->sampler.timer);
}
