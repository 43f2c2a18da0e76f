/* events.c - GET /v1/events: server-sent events from the journal. Each stream has its own position
 * and takes what its reader takes; one that falls behind the journal's ring is told of the gap. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/mem.h"
#include "base/str.h"

#define HEARTBEAT_NS (15 * NS_PER_S)

struct stream {
    struct journal_subscriber subscriber;
    struct api *api;
    struct http_exchange *ex;
    uint64_t next_id;
    bool want_follow;
    bool is_full;    /* waits for on_drain */
    bool is_pumping; /* http_write() may find the client gone while we are in pump() */
    bool is_gone;
    struct rt_timer heartbeat;
};

static void pump(struct stream *s);

static void stream_free(struct stream *s)
{
    journal_unsubscribe(engine_journal(s->api->engine), &s->subscriber);
    rt_timer_cancel(engine_rt(s->api->engine), &s->heartbeat);
    free(s);
}

static void on_gone(void *ctx)
{
    struct stream *s = ctx;

    s->is_gone = true;
    if (!s->is_pumping)
        stream_free(s);
}

static void on_event(struct journal_subscriber *subscriber)
{
    pump(container_of(subscriber, struct stream, subscriber));
}

static void on_drain(struct http_exchange *ex)
{
    struct stream *s = http_ctx(ex);

    s->is_full = false;
    pump(s);
}

static void write_text(struct stream *s, const struct buf *text)
{
    if (http_write(s->ex, buf_str(text), text->len) > HTTP_HIGH_WATER)
        s->is_full = true;
}

static void write_gap(struct stream *s, uint64_t next_id)
{
    struct buf text;

    buf_init(&text, 256);
    buf_printf(&text, "event: gap\ndata: {\"from\":%llu,\"to\":%llu}\n\n",
               (unsigned long long) s->next_id, (unsigned long long) (next_id - 1));
    s->next_id = next_id;
    write_text(s, &text);
    buf_fini(&text);
}

static void write_event(struct stream *s, const struct journal_event *ev)
{
    struct buf text;
    char at[32];

    str_iso8601(at, ev->at_ms);
    buf_init(&text, 16 * 1024);
    buf_printf(&text, "id: %llu\nevent: %s\ndata: {\"at\":\"%s\",\"event\":\"%s\"%s%s\n\n",
               (unsigned long long) ev->id, ev->kind, at, ev->kind,
               strcmp(ev->body, "{}") == 0 ? "" : ",", ev->body + 1);
    s->next_id = ev->id + 1;
    write_text(s, &text);
    buf_fini(&text);
}

static void on_heartbeat(struct rt_timer *timer)
{
    struct stream *s = container_of(timer, struct stream, heartbeat);
    struct rt *rt = engine_rt(s->api->engine);

    rt_timer_set(rt, &s->heartbeat, rt_after(rt_now(rt), HEARTBEAT_NS), on_heartbeat);
    if (!s->is_full)
        (void) http_write(s->ex, ":\n\n", 3); /* a comment: keeps proxies from closing the stream */
}

static void pump(struct stream *s)
{
    const struct journal *j = engine_journal(s->api->engine);

    s->is_pumping = true;
    while (!s->is_gone && !s->is_full && s->next_id <= journal_newest(j)) {
        const struct journal_event *ev = journal_get(j, s->next_id);

        if (ev == NULL)
            write_gap(s, journal_first_from(j, s->next_id));
        else
            write_event(s, ev);
    }
    s->is_pumping = false;
    if (s->is_gone) {
        stream_free(s);
    } else if ((!s->want_follow || j->is_closed) && !s->is_full) {
        http_end(s->ex);
        stream_free(s);
    }
}

/* The position after the last event the client has seen; without one, only what comes from now. */
static bool start_position(struct http_exchange *ex, const struct journal *j, uint64_t *ret)
{
    const char *last = http_header(ex, "Last-Event-ID");
    char since[24];
    uint64_t id;

    *ret = journal_newest(j) + 1;
    if (last == NULL && http_query(ex, "since", since, sizeof(since)))
        last = since;
    if (last == NULL)
        return true;
    if (!str_parse_u64(last, 0, INT64_MAX, &id))
        return false;
    /* An id from before the ring is served from its oldest event on, after a gap. An id that was
     * never given out comes from another store: start over. */
    *ret = id > journal_newest(j) ? 1 : id + 1;
    return true;
}

void api_events(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    struct journal *j = engine_journal(api->engine);
    struct rt *rt = engine_rt(api->engine);
    struct stream *s;
    uint64_t next_id;
    char follow[8];

    if (!start_position(ex, j, &next_id)) {
        http_reply_error(ex, SP_INVALID_FIELD, "'since' and Last-Event-ID must be an event's id",
                         0);
        return;
    }
    s = xcalloc(1, sizeof(*s));
    s->api = api;
    s->ex = ex;
    s->next_id = next_id;
    s->want_follow =
        http_method(ex) != HTTP_METHOD_HEAD &&
        !(http_query(ex, "follow", follow, sizeof(follow)) && strcmp(follow, "0") == 0);
    s->subscriber.on_event = on_event;
    http_set_ctx(ex, s, on_gone);
    http_set_drain(ex, on_drain);
    http_add_header(ex, "Cache-Control", "no-cache");
    http_begin(ex, 200, "text/event-stream");
    journal_subscribe(j, &s->subscriber);
    rt_timer_set(rt, &s->heartbeat, rt_after(rt_now(rt), HEARTBEAT_NS), on_heartbeat);
    pump(s);
}
