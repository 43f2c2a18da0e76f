/* metrics.c - GET /metrics: the numbers of the pool for Prometheus. Labels are profiles, states, sources and error codes, never
 * boxes, threads or users: how many lines there are depends on the configuration alone, and so does what they cost. */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/prometheus.h"
#include "dialects/native/internal.h"
#include "engine/hibernate.h"
#include "engine/holders.h"
#include "sandpool/version.h"

enum { METRICS_MAX = 4 * 1024 * 1024, US_PER_S = 1000000 };

/* --- the profiles --- */

struct profile_state {
    const char *name;
    unsigned (*count)(const struct pool_profile_view *view);
};

static unsigned starting(const struct pool_profile_view *v)
{
    return v->by_state[POOL_INTENT] + v->by_state[POOL_CREATING] + v->by_state[POOL_STARTING];
}

static unsigned blank(const struct pool_profile_view *v)
{
    return v->by_state[POOL_BLANK];
}

static unsigned leased(const struct pool_profile_view *v)
{
    return v->by_state[POOL_LEASING] + v->by_state[POOL_LEASED] + v->by_state[POOL_PARKING];
}

static unsigned parked(const struct pool_profile_view *v)
{
    return v->by_state[POOL_PARKED];
}

static unsigned deleting(const struct pool_profile_view *v)
{
    return v->by_state[POOL_DOOMED] + v->by_state[POOL_DESTROYING] + v->by_state[POOL_FORGETTING];
}

static const struct profile_state states[] = {
    {"starting", starting}, {"blank", blank},       {"leased", leased},
    {"parked", parked},     {"deleting", deleting},
};

static uint64_t target(const struct pool_profile_view *v)
{
    return v->target;
}

static uint64_t waiting(const struct pool_profile_view *v)
{
    return v->waiting;
}

static uint64_t is_open(const struct pool_profile_view *v)
{
    return v->is_open;
}

static uint64_t failures(const struct pool_profile_view *v)
{
    return v->failures;
}

static uint64_t warm_hits(const struct pool_profile_view *v)
{
    return v->warm_hits;
}

static uint64_t cold_starts(const struct pool_profile_view *v)
{
    return v->cold_starts;
}

static uint64_t oldest_wait(const struct pool_profile_view *v)
{
    return v->oldest_wait_ns;
}

static uint64_t provision(const struct pool_profile_view *v)
{
    return v->provision_ns;
}

/* One number of each profile. */
static const struct profile_number {
    const char *name;
    enum prom_type type;
    bool is_time; /* in nanoseconds */
    uint64_t (*get)(const struct pool_profile_view *view);
    const char *help;
} numbers[] = {
    {"sandpool_blank_target", PROM_GAUGE, false, target, "Blank boxes wanted now."},
    {"sandpool_waiting", PROM_GAUGE, false, waiting, "Acquires that wait for a box."},
    {"sandpool_oldest_wait_seconds", PROM_GAUGE, true, oldest_wait,
     "How long the oldest of them has waited."},
    {"sandpool_provision_seconds", PROM_GAUGE, true, provision,
     "Time from the decision to make a box until it is ready, a moving average."},
    {"sandpool_breaker_open", PROM_GAUGE, false, is_open,
     "1 while no box is made because too many tries failed."},
    {"sandpool_consecutive_failures", PROM_GAUGE, false, failures,
     "Tries to make a box that failed since the last that did not."},
    {"sandpool_warm_hits_total", PROM_COUNTER, false, warm_hits,
     "Acquires that found a blank box."},
    {"sandpool_cold_starts_total", PROM_COUNTER, false, cold_starts,
     "Acquires that had to wait for a new box."},
};

/* Whether each profile can be served, and the cause when not: a line for every cause, so that their number stays. */
static void put_ready(struct prom *p, struct api *api, unsigned count)
{
    const struct pool *pool = engine_pool(api->engine);
    enum engine_cause causes[POOL_PROFILES_MAX];
    char why[ENGINE_TROUBLE_MAX];

    prom_family(p, "sandpool_profile_ready", PROM_GAUGE,
                "1 when an acquire of the profile can succeed now or soon.");
    for (unsigned i = 0; i < count; i++) {
        bool is_ready;

        causes[i] = engine_profile_cause(api->engine, i, &is_ready, why, sizeof(why));
        prom_put(p, (struct prom_label[]){{"profile", pool_profile(pool, i)->name}, {NULL, NULL}},
                 is_ready);
    }
    prom_family(p, "sandpool_profile_trouble", PROM_GAUGE,
                "1 for what keeps the profile from being served, or from new boxes.");
    for (unsigned i = 0; i < count; i++)
        for (int c = ENGINE_CAUSE_NONE + 1; c < ENGINE_CAUSE_COUNT; c++)
            prom_put(p,
                     (struct prom_label[]){{"profile", pool_profile(pool, i)->name},
                                           {"cause", engine_cause_name((enum engine_cause) c)},
                                           {NULL, NULL}},
                     causes[i] == (enum engine_cause) c);
}

static void put_leaks(struct prom *p, struct api *api, unsigned count)
{
    const struct pool *pool = engine_pool(api->engine);
    struct engine_leaks leaks;

    prom_family(p, "sandpool_leases_leaking", PROM_GAUGE,
                "Leases that have lasted longer than leak_after_s of their profile.");
    for (unsigned i = 0; i < count; i++) {
        engine_get_leaks(api->engine, i, &leaks);
        prom_put(p, (struct prom_label[]){{"profile", pool_profile(pool, i)->name}, {NULL, NULL}},
                 leaks.now);
    }
    prom_family(p, "sandpool_lease_leaks_total", PROM_COUNTER, "Leases that were reported so.");
    for (unsigned i = 0; i < count; i++) {
        engine_get_leaks(api->engine, i, &leaks);
        prom_put(p, (struct prom_label[]){{"profile", pool_profile(pool, i)->name}, {NULL, NULL}},
                 leaks.total);
    }
}

static void put_profiles(struct prom *p, struct api *api, unsigned count)
{
    const struct pool *pool = engine_pool(api->engine);
    uint64_t now_ns = rt_now(engine_rt(api->engine));
    struct pool_profile_view view;

    prom_family(p, "sandpool_boxes", PROM_GAUGE, "Boxes by state.");
    for (unsigned i = 0; i < count; i++) {
        pool_get_profile(pool, now_ns, i, &view);
        for (size_t s = 0; s < ARRAY_LEN(states); s++)
            prom_put(p,
                     (struct prom_label[]){
                         {"profile", view.profile->name}, {"state", states[s].name}, {NULL, NULL}},
                     states[s].count(&view));
    }
    put_ready(p, api, count);
    put_leaks(p, api, count);
    for (size_t n = 0; n < ARRAY_LEN(numbers); n++) {
        prom_family(p, numbers[n].name, numbers[n].type, numbers[n].help);
        for (unsigned i = 0; i < count; i++) {
            struct prom_label of[] = {{"profile", pool_profile(pool, i)->name}, {NULL, NULL}};

            pool_get_profile(pool, now_ns, i, &view);
            if (numbers[n].is_time)
                prom_put_seconds(p, of, numbers[n].get(&view));
            else
                prom_put(p, of, numbers[n].get(&view));
        }
    }
}

/* --- acquires --- */

static void put_acquires(struct prom *p, struct api *api)
{
    const struct engine_counts *c = engine_counts(api->engine);

    prom_family(p, "sandpool_acquire_duration_seconds", PROM_HISTOGRAM,
                "Acquires that got a box, by where it came from.");
    for (int i = POOL_SRC_KEPT; i < POOL_SRC_COUNT; i++)
        prom_put_histogram(
            p,
            (struct prom_label[]){{"source", pool_source_name((enum pool_source) i)}, {NULL, NULL}},
            &c->acquires[i]);
    prom_family(p, "sandpool_acquires_refused_total", PROM_COUNTER,
                "Acquires that got no box, by error code.");
    for (int i = 1; i < SP_ERROR_INDEX_COUNT; i++)
        if (c->refused[i] > 0)
            prom_put(p, (struct prom_label[]){{"code", sp_error_info(-i)->name}, {NULL, NULL}},
                     c->refused[i]);
}

/* --- the whole --- */

static void put_pool(struct prom *p, struct api *api, const struct pool_stats *s)
{
    prom_one(p, "sandpool_boxes_max", PROM_GAUGE, "pool.max_boxes.", s->max_boxes);
    prom_one(p, "sandpool_waiting_max", PROM_GAUGE, "pool.max_waiters.", s->max_waiters);
    prom_one(p, "sandpool_hibernated_sandboxes", PROM_GAUGE, "Sandboxes that are snapshots now.",
             engine_hibernated_count(api->engine));
    prom_one(p, "sandpool_box_creates_total", PROM_COUNTER, "Boxes made.", s->creates);
    prom_one(p, "sandpool_box_create_failures_total", PROM_COUNTER, "Boxes that could not be made.",
             s->create_failures);
    prom_one(p, "sandpool_box_destroys_total", PROM_COUNTER, "Boxes destroyed.", s->destroys);
    prom_one(p, "sandpool_boxes_lost_total", PROM_COUNTER, "Boxes that died by themselves.",
             s->lost);
    prom_family(p, "sandpool_mode", PROM_GAUGE, "1 for the mode that the pool is in.");
    for (int i = POOL_RUNNING; i <= POOL_DRAINING; i++)
        prom_put(p,
                 (struct prom_label[]){{"mode", pool_mode_name((enum pool_mode) i)}, {NULL, NULL}},
                 s->mode == (enum pool_mode) i);
}

static void put_store(struct prom *p, struct api *api, bool is_up)
{
    const struct engine_disk *d = engine_disk(api->engine);
    struct store_stats s;

    engine_get_store_stats(api->engine, &s);
    prom_one(p, "sandpool_store_up", PROM_GAUGE, "1 while the database can be written.", is_up);
    prom_one(p, "sandpool_store_writes_total", PROM_COUNTER, "Rows written.", s.writes);
    prom_one(p, "sandpool_store_commits_total", PROM_COUNTER, "Commits.", s.commits);
    prom_one(p, "sandpool_store_failures_total", PROM_COUNTER, "Writes that failed.", s.failures);
    prom_one(p, "sandpool_events_dropped_total", PROM_COUNTER,
             "Audit events that could not be stored.", engine_events_dropped(api->engine));
    if (!d->is_known)
        return;
    prom_one(p, "sandpool_disk_free_bytes", PROM_GAUGE, "Free where boxes and the database are.",
             d->free_bytes);
    prom_one(p, "sandpool_disk_size_bytes", PROM_GAUGE, "Size of that file system.",
             d->total_bytes);
    prom_one(p, "sandpool_disk_floor_bytes", PROM_GAUGE, "Below this no new box is made.",
             d->floor_bytes);
}

static void put_calls(struct prom *p, struct api *api)
{
    struct box_proxy_counts n = {0};

    if (api->calls == NULL)
        return;
    box_proxy_count(api->calls, 0, 0, &n);
    prom_one(p, "sandpool_calls", PROM_GAUGE, "Calls to boxes that run now.", n.all);
    prom_one(p, "sandpool_calls_max", PROM_GAUGE, "So many may.", api->max_calls);
}

/* Under the names that every exporter uses for them. */
static void put_process(struct prom *p, struct api *api)
{
    uint64_t up_ms = (rt_now(engine_rt(api->engine)) - api->started_ns) / NS_PER_MS;
    struct rusage used;
    unsigned long pages;
    FILE *f;

    if (getrusage(RUSAGE_SELF, &used) == 0) {
        prom_family(p, "process_cpu_seconds_total", PROM_COUNTER, "Processor time of the daemon.");
        prom_put_num(p, NULL,
                     (double) (used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                         (double) (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / US_PER_S);
    }
    if ((f = fopen("/proc/self/statm", "re")) != NULL) {
        if (fscanf(f, "%*u %lu", &pages) == 1)
            prom_one(p, "process_resident_memory_bytes", PROM_GAUGE,
                     "Resident memory of the daemon.",
                     (uint64_t) pages * (uint64_t) sysconf(_SC_PAGESIZE));
        (void) fclose(f);
    }
    prom_family(p, "process_start_time_seconds", PROM_GAUGE,
                "When the daemon started, by the clock of the wall.");
    prom_put_seconds(p, NULL, (rt_wall_ms(engine_rt(api->engine)) - up_ms) * NS_PER_MS);
    prom_family(p, "sandpool_build_info", PROM_GAUGE, "Always 1.");
    prom_put(p, (struct prom_label[]){{"version", SANDPOOL_VERSION}, {NULL, NULL}}, 1);
}

void api_metrics(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    struct pool_stats stats;
    struct buf out;
    struct prom p = {.out = &out};

    rt_refresh(engine_rt(api->engine));
    pool_get_stats(engine_pool(api->engine), &stats);
    buf_init(&out, METRICS_MAX);
    put_profiles(&p, api, stats.profile_count);
    put_acquires(&p, api);
    put_pool(&p, api, &stats);
    put_store(&p, api, stats.is_store_up);
    put_calls(&p, api);
    put_process(&p, api);
    if (buf_failed(&out))
        http_reply_error(ex, SP_NO_MEMORY, "not enough memory for the metrics", 0);
    else
        http_reply(ex, 200, "text/plain; version=0.0.4; charset=utf-8", out.data, out.len);
    buf_fini(&out);
}
