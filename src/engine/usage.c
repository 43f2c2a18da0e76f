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
    const struct engine_price *p = &e->usage.prices[profile];
    struct store_price ret = {.per_hour = p->per_hour, .per_start = p->per_start};

    if (!p->is_known)
        return (struct store_price){.currency = NULL};
    str_copy_cut(currency, CONFIG_CURRENCY_MAX + 1, p->currency);
    memcpy(ret.per_use, p->per_use, sizeof(ret.per_use));
    ret.currency = currency;
    return ret;
}

/* --- prices --- */

static_assert(CONFIG_RATE_USED + STORE_RATE_CPU == CONFIG_RATE_USED_CPU_HOUR &&
                  CONFIG_RATE_USED + STORE_RATE_MEMORY == CONFIG_RATE_USED_GB_HOUR &&
                  CONFIG_RATE_USED + STORE_RATE_NET == CONFIG_RATE_USED_NET_GB &&
                  CONFIG_RATE_USED + STORE_RATE_DISK == CONFIG_RATE_USED_DISK_GB &&
                  CONFIG_RATE_USED + STORE_RATE_COUNT == CONFIG_RATE_COUNT,
              "one rate of use for another");

/* What is paid for the start does not matter: boxes that were started have paid. */
static void note_price(struct engine_price *have, const struct store_price *price)
{
    if (have->is_known && (have->per_hour != price->per_hour ||
                           memcmp(have->per_use, price->per_use, sizeof(have->per_use)) != 0 ||
                           strcmp(have->currency, price->currency) != 0))
        have->is_new = true;
}

static void take_price(struct engine_price *to, const struct config_profile *c)
{
    struct store_price price = {.per_hour = config_hourly(c), .currency = c->price.currency};

    if (!str_is_empty(c->price.currency)) {
        price.per_start = c->price.rates[CONFIG_RATE_START];
        memcpy(price.per_use, &c->price.rates[CONFIG_RATE_USED], sizeof(price.per_use));
    }
    note_price(to, &price);
    to->is_known = true;
    to->per_hour = price.per_hour;
    to->per_start = price.per_start;
    memcpy(to->per_use, price.per_use, sizeof(to->per_use));
    str_copy_cut(to->currency, sizeof(to->currency), price.currency);
}

void usage_take_prices(struct engine *e)
{
    struct pool_stats stats;

    pool_get_stats(e->pool, &stats);
    for (unsigned i = 0; i < stats.profile_count; i++) {
        const struct config_profile *c = profiles_config(e, i);

        if (c != NULL) /* else its boxes go on at the price they have */
            take_price(&e->usage.prices[i], c);
    }
}

void usage_loaded(struct engine *e, unsigned profile, const struct store_price *price)
{
    note_price(&e->usage.prices[profile], price);
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
