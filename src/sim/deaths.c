/* deaths.c - the ring of deaths and the clients that wait for one. Waiting clients are answered
 * once per turn, so that many deaths at once make one answer. */
#include "sim/deaths.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"

struct death {
    uint64_t box_id;
    char reason[56];
};

struct waiter {
    struct list_node link;
    struct rt_timer patience;
    struct deaths *deaths;
    struct http_exchange *ex;
    uint64_t since;
};

void deaths_init(struct deaths *d, struct rt *rt)
{
    d->rt = rt;
    rand_secure(&d->epoch, sizeof(d->epoch));
    d->count = 0;
    d->ring = xcalloc(DEATHS_KEPT, sizeof(struct death));
    list_init(&d->waiting);
    d->notify.link.prev = NULL;
    d->notify.link.next = NULL;
}

void deaths_fini(struct deaths *d)
{
    assert(list_is_empty(&d->waiting));
    rt_undefer(d->rt, &d->notify);
    free(d->ring);
    d->ring = NULL;
}

static void answer(struct deaths *d, struct http_exchange *ex, uint64_t since, bool want_resync)
{
    uint64_t last = MIN_OF(d->count, since + DEATHS_ANSWER);
    struct json_out o;
    char hex[17];

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    str_hex64(hex, d->epoch);
    json_put_str(&o, "epoch", hex);
    json_put_u64(&o, "since", want_resync ? d->count : last);
    json_put_bool(&o, "resync", want_resync);
    json_begin_arr(&o, "deaths");
    for (uint64_t n = since + 1; n <= last && !want_resync; n++) {
        const struct death *death = &d->ring[n % DEATHS_KEPT];

        json_begin_obj(&o, NULL);
        str_hex64(hex, death->box_id);
        json_put_str(&o, "box_id", hex);
        json_put_str(&o, "reason", death->reason);
        json_end(&o);
    }
    json_end(&o);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static void drop_waiter(struct waiter *w)
{
    list_remove(&w->deaths->waiting, &w->link);
    rt_timer_cancel(w->deaths->rt, &w->patience);
    free(w);
}

static void answer_waiter(struct waiter *w)
{
    struct deaths *d = w->deaths;
    struct http_exchange *ex = w->ex;
    uint64_t since = w->since;

    drop_waiter(w);
    answer(d, ex, since, d->count - since > DEATHS_KEPT);
}

static void on_gone(void *ctx)
{
    drop_waiter(ctx);
}

static void on_patience(struct rt_timer *timer)
{
    answer_waiter(container_of(timer, struct waiter, patience));
}

static void notify_waiters(struct rt_task *task)
{
    struct deaths *d = container_of(task, struct deaths, notify);

    while (!list_is_empty(&d->waiting))
        answer_waiter(container_of(list_pop_front(&d->waiting), struct waiter, link));
}

void deaths_add(struct deaths *d, uint64_t box_id, const char *reason)
{
    struct death *death = &d->ring[++d->count % DEATHS_KEPT];

    death->box_id = box_id;
    str_copy_cut(death->reason, sizeof(death->reason), reason);
    if (!list_is_empty(&d->waiting))
        rt_defer(d->rt, &d->notify, notify_waiters);
}

static uint64_t query_u64(const struct http_exchange *ex, const char *name, uint64_t max)
{
    char text[24];
    uint64_t v = 0;

    if (!http_query(ex, name, text, sizeof(text)) || !str_parse_u64(text, 0, max, &v))
        return 0;
    return v;
}

void deaths_watch(struct deaths *d, struct http_exchange *ex)
{
    uint64_t since = query_u64(ex, "since", INT64_MAX);
    uint64_t wait_ms = query_u64(ex, "wait_ms", DEATHS_WAIT_MAX_MS);
    char hex[24];
    uint64_t epoch = d->epoch;
    struct waiter *w;

    if (http_query(ex, "epoch", hex, sizeof(hex)) && !str_parse_hex64(hex, &epoch)) {
        http_reply_error(ex, SP_INVALID_FIELD, "'epoch' must be sixteen hex digits", 0);
        return;
    }
    if (epoch != d->epoch || since > d->count || d->count - since > DEATHS_KEPT) {
        answer(d, ex, d->count, true);
        return;
    }
    if (since < d->count || wait_ms == 0) {
        answer(d, ex, since, false);
        return;
    }
    rt_refresh(d->rt); /* the loop may have slept until this request came */
    w = xcalloc(1, sizeof(*w));
    w->deaths = d;
    w->ex = ex;
    w->since = since;
    list_push_back(&d->waiting, &w->link);
    rt_timer_set(d->rt, &w->patience, rt_after(rt_now(d->rt), wait_ms * NS_PER_MS), on_patience);
    http_set_ctx(ex, w, on_gone);
}
