/* usage.c - what the store meters with: since when a row is true, prices, and until when boxes were watched. A box that is lost
 * while no daemon ran is metered until then: it may have ended with the machine, and time that it did not run is not metered.
 *
 * Rows of local boxes are not forced to the disk one by one. The note of the time is, and with it all that was written before:
 * so a power cut loses the metered time of NOTE_NS at most, and never adds any. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"
#include "store/usage.h"

#define NOTE_NS (30 * NS_PER_S)

enum { SCAN_MAX = 1000 }; /* rows in one step of the store's thread: about a millisecond */

static_assert(CONFIG_CURRENCY_MAX <= STORE_CURRENCY_MAX, "currencies");

/* --- rows --- */

uint64_t usage_true_ms(const struct engine *e, const struct pool_box *box)
{
    if (box->seen_ns == 0) /* of an earlier life, and nobody has seen it since */
        return e->usage.watched_ms;
    if (box->end != POOL_END_NONE && pool_end_is_death(box->end))
        return rt_stored_at(e->rt, box->seen_ns);
    return box->ended_ns != 0 ? rt_stored_at(e->rt, box->ended_ns) : 0;
}

struct store_price usage_price(const struct engine *e, unsigned profile,
                               char currency[CONFIG_CURRENCY_MAX + 1])
{
    if (!e->usage.prices[profile].is_known)
        return (struct store_price){.currency = NULL};
    str_copy_cut(currency, CONFIG_CURRENCY_MAX + 1, e->usage.prices[profile].currency);
    return (struct store_price){.per_hour = e->usage.prices[profile].per_hour,
                                .per_start = e->usage.prices[profile].per_start,
                                .currency = currency};
}

/* --- prices --- */

void usage_take_prices(struct engine *e)
{
    struct pool_stats stats;

    pool_get_stats(e->pool, &stats);
    for (unsigned i = 0; i < stats.profile_count; i++) {
        const struct config_profile *c = profiles_config(e, i);
        uint64_t per_hour;

        if (c == NULL)
            continue; /* its boxes go on at the price they have */
        per_hour = config_hourly(c);
        if (e->usage.prices[i].is_known &&
            (e->usage.prices[i].per_hour != per_hour ||
             strcmp(e->usage.prices[i].currency, c->price.currency) != 0))
            e->usage.prices[i].is_new = true;
        e->usage.prices[i].is_known = true;
        e->usage.prices[i].per_hour = per_hour;
        e->usage.prices[i].per_start =
            str_is_empty(c->price.currency) ? 0 : c->price.rates[CONFIG_RATE_START];
        str_copy_cut(e->usage.prices[i].currency, sizeof(e->usage.prices[i].currency),
                     c->price.currency);
    }
}

void usage_loaded(struct engine *e, unsigned profile, uint64_t per_hour, const char *currency)
{
    if (e->usage.prices[profile].is_known &&
        (e->usage.prices[profile].per_hour != per_hour ||
         strcmp(e->usage.prices[profile].currency, currency) != 0))
        e->usage.prices[profile].is_new = true;
}

struct price_write {
    struct store_write write;
    struct engine *engine;
    char profile[POOL_NAME_MAX + 1];
    char currency[CONFIG_CURRENCY_MAX + 1];
};

static void on_price_written(struct op *op)
{
    struct price_write *w = container_of(op, struct price_write, write.op);
    struct engine *e = w->engine;

    if (op->result != SP_OK)
        log_warn("usage.price_not_stored", LF_STR("profile", w->profile),
                 LF_STR("reason", op->err.msg),
                 LF_STR("effect", "each of its boxes gets the new price when its row changes"));
    free(w);
    engine_op_ended(e);
}

static void submit_price(struct engine *e, unsigned profile)
{
    struct price_write *w = xcalloc(1, sizeof(*w));

    w->engine = e;
    str_copy_cut(w->profile, sizeof(w->profile), profiles_name(e, profile));
    w->write.kind = STORE_REPRICE;
    w->write.u.box.profile = w->profile;
    w->write.u.box.price = usage_price(e, profile, w->currency);
    engine_op_begun(e);
    store_submit(e->store, &w->write, on_price_written);
}

void usage_reprice(struct engine *e)
{
    struct pool_stats stats;

    if (!e->is_recovered || !e->config->config->usage.enabled)
        return;
    pool_get_stats(e->pool, &stats);
    for (unsigned i = 0; i < stats.profile_count; i++) {
        if (!e->usage.prices[i].is_new)
            continue;
        e->usage.prices[i].is_new = false;
        submit_price(e, i);
    }
}

/* --- until when boxes were watched --- */

/* A box that no listing has shown since the start may be gone: then the time before the start is the last that counts. */
static bool is_all_seen(const struct engine *e)
{
    for (unsigned i = 0; i < e->backend_count; i++)
        if (!str_is_empty(e->backends[i].trouble) || e->backends[i].relist_ns != 0)
            return false;
    return e->is_recovered;
}

static void note_watched(struct engine *e)
{
    uint64_t now_ms = rt_stored_at(e->rt, rt_now(e->rt));
    char text[24];

    if (!is_all_seen(e) || !e->config->config->usage.enabled || now_ms == e->usage.noted_ms)
        return;
    e->usage.noted_ms = now_ms;
    (void) snprintf(text, sizeof(text), "%" PRIu64, now_ms);
    meta_put_power(e, META_WATCHED, text);
}

static void on_timer(struct rt_timer *timer)
{
    struct engine *e = container_of(timer, struct engine, usage.timer);
    struct pool_stats stats;

    note_watched(e);
    pool_get_stats(e->pool, &stats);
    if (stats.by_state[POOL_LEASED] + stats.by_state[POOL_LEASING] + stats.by_state[POOL_PARKED] +
            stats.by_state[POOL_PARKING] >
        0)
        usage_arm(e);
}

/* Each row that is written arms it again: so the last ones get to the disk as well. */
void usage_arm(struct engine *e)
{
    if (!heap_has(&e->usage.timer.node) && e->config->config->usage.enabled && !e->is_closing)
        rt_timer_set(e->rt, &e->usage.timer, rt_after(rt_now(e->rt), NOTE_NS), on_timer);
}

void usage_close(struct engine *e)
{
    rt_timer_cancel(e->rt, &e->usage.timer);
    note_watched(e);
}

/* --- read back --- */

struct usage_read {
    struct store_write write;
    struct engine *engine;
    void (*on_done)(void *ctx, const struct err *err);
    void *ctx;
};

static void on_read(struct op *op)
{
    struct usage_read *r = container_of(op, struct usage_read, write.op);
    struct engine *e = r->engine;

    r->on_done(r->ctx, op->result == SP_OK ? NULL : &op->err);
    free(r);
    engine_op_ended(e);
}

void engine_read_usage(struct engine *e, struct store_usage *u,
                       void (*on_done)(void *ctx, const struct err *err), void *ctx)
{
    struct usage_read *r = xcalloc(1, sizeof(*r));

    r->engine = e;
    r->on_done = on_done;
    r->ctx = ctx;
    u->scan_max = SCAN_MAX;
    u->is_stepped = false;
    r->write.kind = STORE_READ_USAGE;
    r->write.u.usage = u;
    engine_op_begun(e);
    store_submit(e->store, &r->write, on_read);
}
