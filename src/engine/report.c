/* report.c - what the end of a box has released, and what it has used: for the caller who asked for it, and for the audit trail. */
#include "base/json.h"
#include "base/str.h"
#include "engine/internal.h"

void report_note(struct engine *e, struct box_id box, const struct backend_released *released)
{
    const struct pool_box *b = pool_find_box(e->pool, box);
    struct engine_note *note = note_make(e, box);
    uint64_t now_ns = rt_now(e->rt);

    note->report.released = *released;
    note->report.has_lived = b != NULL && b->created_ns != 0 && b->created_ns <= now_ns;
    note->report.lived_ns = note->report.has_lived ? now_ns - b->created_ns : 0;
}

void report_note_used(struct engine *e, struct box_id box, const struct store_used *used)
{
    if (used->is_known && e->config->config->usage.enabled)
        note_make(e, box)->report.used = *used;
}

static void put_count(struct json_out *o, const char *key, struct backend_count c)
{
    if (c.is_known)
        json_put_u64(o, key, c.n);
    else
        json_put_null(o, key);
}

const struct engine_counter engine_counters[STORE_COUNTER_COUNT] = {
    [STORE_CPU_US] = {"cpu_ms", 1000},          [STORE_MEMORY] = {"memory_mb_s", 1000},
    [STORE_NET_IN] = {"net_in_bytes", 1},       [STORE_NET_OUT] = {"net_out_bytes", 1},
    [STORE_DISK_READ] = {"disk_read_bytes", 1}, [STORE_DISK_WRITE] = {"disk_write_bytes", 1},
};

static void put_counts(struct json_out *o, const struct store_counts *c)
{
    for (unsigned k = 0; k < STORE_COUNTER_COUNT; k++)
        put_count(o, engine_counters[k].name,
                  (c->known & (1U << k)) != 0 ? backend_counted(c->n[k] / engine_counters[k].unit)
                                              : (struct backend_count){0});
}

/* As GET /v1/usage adds it up. */
static void put_used(struct json_out *o, const struct store_used *used)
{
    bool has_cost = used->is_known && !used->is_mixed && !str_is_empty(used->currency);
    char text[CONFIG_MICROS_MAX] = "";

    if (used->is_known) {
        json_begin_obj(o, "usage");
        json_put_u64(o, "leased_ms", used->ms[STORE_LEASED]);
        json_put_u64(o, "parked_ms", used->ms[STORE_PARKED]);
        json_put_u64(o, "paused_ms", used->ms[STORE_PAUSED]);
        put_counts(o, &used->counts);
        json_end(o);
    } else {
        json_put_null(o, "usage");
    }
    if (has_cost)
        config_print_micros(store_used_cost(used), text);
    json_put_str(o, "currency", has_cost ? used->currency : NULL);
    json_put_str(o, "cost", has_cost ? text : NULL);
    if (has_cost)
        json_put_u64(o, "cost_micros", store_used_cost(used));
    else
        json_put_null(o, "cost_micros");
}

static void put(struct json_out *o, const struct engine_report *r, const char *text)
{
    json_begin_obj(o, "report");
    json_put_str(o, "text", text);
    put_count(o, "processes", r->released.processes);
    put_count(o, "mounts", r->released.mounts);
    put_count(o, "layers", r->released.layers);
    put_count(o, "bytes", r->released.bytes);
    if (r->has_lived)
        json_put_num(o, "lived_s", (double) (r->lived_ns / NS_PER_MS) / 1000);
    else
        json_put_null(o, "lived_s");
    put_used(o, &r->used);
    json_end(o);
}

void engine_put_report(const struct engine *e, struct box_id box, struct json_out *o)
{
    static const struct engine_report unknown = {.has_lived = false};
    const struct engine_note *note = note_find(e, box);
    const struct engine_report *r = note != NULL ? &note->report : &unknown;

    put(o, r, str_is_empty(r->released.text) ? "the backend no longer had it" : r->released.text);
}

void engine_put_no_report(const char *why, struct json_out *o)
{
    static const struct engine_report unknown = {.has_lived = false};

    put(o, &unknown, why);
}
