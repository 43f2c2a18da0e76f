/* live.c - GET /v1/pool/live: the pool again and again as server-sent events, for the web page. What it costs depends on how
 * often it is asked for, never on what happens in the pool. And GET /v1/pool/history, the last hour of it. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "engine/trend.h"

enum { EVERY_MIN_MS = 200, EVERY_MAX_MS = 60000, EVERY_MS = 1000 };
enum { STREAMS_MAX = 32 }; /* of a caller */

/* Each stream adds this to the time between the events of all: there are 200 a second at most. */
#define SHARE_NS (5 * NS_PER_MS)

/* --- acquires by source --- */

struct rate {
    uint64_t warm;
    uint64_t cold;
};

/* What took longer than the last bucket is null, and counted. */
static void put_quantiles(struct json_out *o, const struct histogram *h)
{
    json_put_u64(o, "count", histogram_count(h));
    json_put_num(o, "p50_ms", histogram_quantile_of(h, 0.5) * 1000);
    json_put_num(o, "p99_ms", histogram_quantile_of(h, 0.99) * 1000);
}

static void put_rate(struct json_out *o, const char *key, const struct rate *r)
{
    if (r->warm + r->cold > 0)
        json_put_num(o, key, (double) r->warm / (double) (r->warm + r->cold));
    else
        json_put_null(o, key);
}

static void add_rate(struct rate *r, enum pool_source source, const struct histogram *h)
{
    if (source == POOL_SRC_WARM)
        r->warm = histogram_count(h);
    else if (source == POOL_SRC_COLD)
        r->cold = histogram_count(h);
}

static void put_acquires(struct json_out *o, struct api *api)
{
    struct rate all = {0};
    struct rate minute = {0};

    json_begin_arr(o, "acquires");
    for (int i = POOL_SRC_KEPT; i < POOL_SRC_COUNT; i++) {
        enum pool_source source = (enum pool_source) i;
        struct histogram ever;
        struct histogram recent;

        engine_acquires(api->engine, source, &ever, &recent);
        add_rate(&all, source, &ever);
        add_rate(&minute, source, &recent);
        json_begin_obj(o, NULL);
        json_put_str(o, "source", pool_source_name(source));
        put_quantiles(o, &ever);
        json_begin_obj(o, "last_minute");
        put_quantiles(o, &recent);
        json_end(o);
        json_end(o);
    }
    json_end(o);
    put_rate(o, "hit_rate", &all);
    put_rate(o, "hit_rate_last_minute", &minute);
}

/* --- live --- */

struct live {
    struct journal_subscriber subscriber; /* to notice the end */
    struct list_node link;                /* api->lives */
    struct api *api;
    struct http_exchange *ex;
    struct api_caller caller;
    uint64_t every_ns;
    uint64_t reloads; /* of the configuration, when its caller was last looked at */
    bool is_full;     /* waits for on_drain */
    bool is_gone;
    bool is_writing; /* http_write() may find the client gone */
    struct rt_timer timer;
};

static void leave(struct live *s)
{
    s->is_gone = true;
    list_remove(&s->api->lives, &s->link);
    journal_unsubscribe(engine_journal(s->api->engine), &s->subscriber);
    rt_timer_cancel(engine_rt(s->api->engine), &s->timer);
    if (!s->is_writing)
        free(s);
}

static void on_gone(void *ctx)
{
    leave(ctx);
}

static void on_drain(struct http_exchange *ex)
{
    struct live *s = http_ctx(ex);

    s->is_full = false;
}

static void put_pool(struct live *s, struct buf *text)
{
    struct engine *e = s->api->engine;
    struct json_out o;

    buf_puts(text, "event: pool\ndata: ");
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_obj(&o, "pool");
    api_put_pool(&o, s->api, &s->caller);
    json_end(&o);
    put_acquires(&o, s->api);
    json_put_u64(&o, "steps", engine_trend(e)->count);
    json_put_u64(&o, "newest_event", journal_newest(engine_journal(e)));
    json_put_bool(&o, "operator", s->caller.who.is_operator);
    json_end(&o);
    json_out_finish(&o, text);
    buf_puts(text, "\n\n");
}

/* Not when its token was removed by a reload. */
static bool is_let_in(struct live *s)
{
    if (s->reloads == engine_reloads(s->api->engine))
        return true;
    s->reloads = engine_reloads(s->api->engine);
    return api_identify(s->ex, &s->caller);
}

static void on_timer(struct rt_timer *timer);

static void send_pool(struct live *s)
{
    struct rt *rt = engine_rt(s->api->engine);
    struct buf text;

    rt_timer_set(rt, &s->timer,
                 rt_after(rt_now(rt), MAX_OF(s->every_ns, s->api->lives.len * SHARE_NS)), on_timer);
    if (s->is_full)
        return; /* who reads slowly gets fewer */
    buf_init(&text, 4 * 1024 * 1024);
    put_pool(s, &text);
    s->is_writing = true;
    if (buf_failed(&text))
        http_abort(s->ex);
    else if (http_write(s->ex, text.data, text.len) > HTTP_HIGH_WATER)
        s->is_full = true;
    s->is_writing = false;
    if (s->is_gone)
        free(s);
    else if (buf_failed(&text))
        leave(s);
    buf_fini(&text);
}

static void on_timer(struct rt_timer *timer)
{
    send_pool(container_of(timer, struct live, timer));
}

/* Also without an event: after a reload, and when the daemon ends. */
static void on_event(struct journal_subscriber *subscriber)
{
    struct live *s = container_of(subscriber, struct live, subscriber);

    if (engine_journal(s->api->engine)->is_closed) {
        http_end(s->ex);
        leave(s);
    } else if (!is_let_in(s)) {
        http_abort(s->ex);
        leave(s);
    }
}

static bool has_too_many(const struct api *api, const struct api_caller *caller)
{
    unsigned count = 0;

    for (struct list_node *n = list_first(&api->lives); n != NULL; n = list_next(&api->lives, n))
        count += container_of(n, struct live, link)->caller.principal == caller->principal ? 1 : 0;
    return count >= STREAMS_MAX;
}

void api_pool_live(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    char text[16];
    uint64_t every_ms = EVERY_MS;
    struct api_caller caller;
    struct live *s;

    if (http_query(ex, "every_ms", text, sizeof(text)) &&
        !str_parse_u64(text, EVERY_MIN_MS, EVERY_MAX_MS, &every_ms)) {
        http_reply_error(ex, SP_INVALID_FIELD, "'every_ms' must be 200 to 60000", 0);
        return;
    }
    (void) api_identify(ex, &caller); /* the guard has let it in */
    if (has_too_many(api, &caller)) {
        http_reply_error(ex, SP_TOO_MANY_CALLS, "this caller has 32 streams of the pool", 1000);
        return;
    }
    http_add_header(ex, "Cache-Control", "no-cache");
    http_begin(ex, 200, "text/event-stream");
    if (http_method(ex) == HTTP_METHOD_HEAD || engine_journal(api->engine)->is_closed) {
        http_end(ex);
        return;
    }
    s = xcalloc(1, sizeof(*s));
    *s = (struct live){.api = api,
                       .ex = ex,
                       .caller = caller,
                       .every_ns = every_ms * NS_PER_MS,
                       .reloads = engine_reloads(api->engine)};
    list_push_back(&api->lives, &s->link);
    s->subscriber.on_event = on_event;
    http_set_ctx(ex, s, on_gone);
    http_set_drain(ex, on_drain);
    journal_subscribe(engine_journal(api->engine), &s->subscriber);
    send_pool(s);
}

/* --- history --- */

static const char *const state_names[TREND_STATE_COUNT] = {"starting", "blank", "leased", "parked",
                                                           "deleting"};

static void put_ms(struct json_out *o, uint32_t us)
{
    if (us == TREND_NONE || us == TREND_LONGER)
        json_put_null(o, NULL);
    else
        json_put_num(o, NULL, (double) us / 1000);
}

static void put_column(struct json_out *o, const char *key, const struct trend *t, uint64_t first,
                       uint32_t (*get)(const struct trend_step *s, int i), int i)
{
    json_begin_arr(o, key);
    for (uint64_t n = first; n < t->count; n++)
        json_put_u64(o, NULL, get(trend_step(t, n), i));
    json_end(o);
}

static uint32_t boxes_of(const struct trend_step *s, int i)
{
    return s->boxes[i];
}

static uint32_t waiting_of(const struct trend_step *s, int i UNUSED)
{
    return s->waiting;
}

static uint32_t refused_of(const struct trend_step *s, int i UNUSED)
{
    return s->refused;
}

static uint32_t acquires_of(const struct trend_step *s, int i)
{
    return s->acquires[i];
}

static void put_source(struct json_out *o, const struct trend *t, uint64_t first, int source)
{
    json_begin_obj(o, pool_source_name((enum pool_source) source));
    put_column(o, "count", t, first, acquires_of, source);
    json_begin_arr(o, "p50_ms");
    for (uint64_t n = first; n < t->count; n++)
        put_ms(o, trend_step(t, n)->p50_us[source]);
    json_end(o);
    json_begin_arr(o, "p99_ms");
    for (uint64_t n = first; n < t->count; n++)
        put_ms(o, trend_step(t, n)->p99_us[source]);
    json_end(o);
    json_end(o);
}

void api_pool_history(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    const struct trend *t = engine_trend(api->engine);
    uint64_t first = t->count > TREND_STEPS ? t->count - TREND_STEPS : 0;
    uint64_t since = 0;
    struct json_out o;
    char text[24];

    if (http_query(ex, "since", text, sizeof(text)) && !str_parse_u64(text, 0, INT64_MAX, &since)) {
        http_reply_error(ex, SP_INVALID_FIELD, "'since' must be what 'steps' said", 0);
        return;
    }
    /* More than there are: they are of a daemon before this one. */
    first = MAX_OF(first, since <= t->count ? since : 0);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_u64(&o, "step_s", TREND_STEP_S);
    json_put_u64(&o, "first", first);
    json_put_u64(&o, "steps", t->count);
    api_put_time(&o, "until", api, t->end_ns);
    json_begin_obj(&o, "boxes");
    for (int i = 0; i < TREND_STATE_COUNT; i++)
        put_column(&o, state_names[i], t, first, boxes_of, i);
    json_end(&o);
    put_column(&o, "waiting", t, first, waiting_of, 0);
    put_column(&o, "refused", t, first, refused_of, 0);
    json_begin_obj(&o, "acquires");
    for (int i = POOL_SRC_KEPT; i < POOL_SRC_COUNT; i++)
        put_source(&o, t, first, i);
    json_end(&o);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}
