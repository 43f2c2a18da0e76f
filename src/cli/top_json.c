/* top_json.c - the model of `sandpool top` as one document. */
#include <math.h>

#include "base/str.h"
#include "cli/top.h"

static void put_known(struct json_out *o, const char *key, struct top_count c)
{
    if (c.is_known)
        json_put_u64(o, key, c.n);
    else
        json_put_null(o, key);
}

/* Below 0: not known. */
static void put_num(struct json_out *o, const char *key, double v)
{
    if (v >= 0 && isfinite(v))
        json_put_num(o, key, v);
    else
        json_put_null(o, key);
}

static void put_text(struct json_out *o, const char *key, const char *text)
{
    json_put_str(o, key, str_is_empty(text) ? NULL : text);
}

static void put_profile(struct json_out *o, const struct top_profile *p)
{
    uint64_t new_boxes = p->warm_hits + p->cold_starts;

    json_begin_obj(o, NULL);
    json_put_str(o, "name", p->name);
    put_text(o, "mode", p->mode);
    json_put_u64(o, "target", p->target);
    json_put_u64(o, "blank", p->blank);
    json_put_u64(o, "leased", p->leased);
    json_put_u64(o, "parked", p->parked);
    json_put_u64(o, "starting", p->starting);
    json_put_u64(o, "deleting", p->deleting);
    json_put_u64(o, "failures", p->failures);
    json_put_u64(o, "waiting", p->waiting);
    json_put_num(o, "oldest_wait_ms", p->oldest_wait_ms);
    put_num(o, "hit_rate", new_boxes > 0 ? (double) p->warm_hits / (double) new_boxes : -1);
    json_put_bool(o, "ready", p->is_ready);
    json_put_bool(o, "breaker_open", p->is_open);
    put_text(o, "reason", p->reason);
    json_end(o);
}

static void put_span(struct json_out *o, const char *key, const struct top *t, unsigned source,
                     bool is_recent)
{
    struct top_acquires a;

    top_acquires_of(t, source, is_recent, &a);
    json_begin_obj(o, key);
    json_put_u64(o, "count", a.count);
    put_num(o, "p50_s", a.p50_s);
    put_num(o, "p99_s", a.p99_s);
    json_end(o);
}

static void put_acquires(struct json_out *o, const struct top *t)
{
    json_begin_obj(o, "acquires");
    for (unsigned i = 0; i < t->acquires.count; i++) {
        json_begin_obj(o, t->acquires.sources[i].name);
        put_span(o, "all", t, i, false);
        put_span(o, "recent", t, i, true);
        json_end(o);
    }
    json_end(o);
}

static void put_box(struct json_out *o, const struct top_box *b)
{
    json_begin_obj(o, NULL);
    json_put_str(o, "name", b->name);
    json_put_str(o, "state", b->state);
    put_text(o, "profile", b->profile);
    put_text(o, "user_id", b->user);
    put_text(o, "thread_id", b->thread);
    put_num(o, "age_s", b->age_s);
    put_num(o, "idle_s", b->idle_s);
    put_num(o, "cpu_percent", b->use.cpu_percent);
    put_known(o, "memory_bytes", b->use.memory);
    put_known(o, "disk_bytes", b->disk);
    put_num(o, "io_bytes_per_s", b->use.io_per_s);
    json_end(o);
}

void top_put_json(const struct top *t, struct json_out *o)
{
    uint64_t starting = 0;

    for (unsigned i = 0; i < t->profile_count; i++)
        starting += t->profiles[i].starting;
    json_begin_obj(o, NULL);
    put_text(o, "instance", t->instance);
    put_text(o, "mode", t->mode);
    put_text(o, "store", t->store);
    put_text(o, "trouble", t->trouble);
    json_put_u64(o, "total", t->total);
    json_put_u64(o, "max_boxes", t->max_boxes);
    json_put_u64(o, "creating", starting);
    json_put_u64(o, "waiting", t->waiting);
    json_put_num(o, "oldest_wait_ms", t->oldest_wait_ms);
    put_num(o, "hit_rate", top_hit_rate(t, false));
    put_num(o, "recent_hit_rate", top_hit_rate(t, true));
    put_num(o, "acquires_per_s", top_acquires_per_s(t));
    put_known(o, "disk_free_bytes", t->disk_free);
    put_known(o, "disk_total_bytes", t->disk_total);
    put_acquires(o, t);
    json_begin_arr(o, "profiles");
    for (unsigned i = 0; i < t->profile_count; i++)
        put_profile(o, &t->profiles[i]);
    json_end(o);
    json_begin_arr(o, "boxes");
    for (size_t i = 0; i < t->box_count; i++)
        put_box(o, &t->boxes[i]);
    json_end(o);
    json_put_bool(o, "has_more_boxes", t->has_more);
    json_end(o);
}
