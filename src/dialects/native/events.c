/* events.c - GET /v1/events: server-sent events, live from the journal, older ones from the
 * database. Each stream has its own position and speed. One that falls behind the journal's ring
 * continues from the database, and gets a notice for events that are not there either. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"

#define HEARTBEAT_NS (15 * NS_PER_S)

struct stream {
    struct journal_subscriber subscriber;
    struct api *api;
    struct http_exchange *ex;
    uint64_t next_id;
    uint64_t left;    /* events it may still get */
    uint64_t reloads; /* of the configuration, when its caller was last looked at */
    struct store_history past;
    uint64_t asked_id; /* the database was asked for all below it */
    char kind[JOURNAL_KIND_MAX + 1];
    char box[24];
    char sandbox_id[POOL_ID_MAX + 1];
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1];
    bool is_filtered;
    bool want_follow;
    bool is_full;    /* waits for on_drain */
    bool is_reading; /* the store has `past` */
    bool is_pumping; /* http_write() may find the client gone while we are in pump() */
    bool is_gone;
    struct rt_timer heartbeat;
};

static void pump(struct stream *s);

static void stream_free(struct stream *s)
{
    store_history_fini(&s->past);
    free(s);
}

/* No more is written. The memory is kept until its last user is done. */
static void leave(struct stream *s)
{
    s->is_gone = true;
    journal_unsubscribe(engine_journal(s->api->engine), &s->subscriber);
    rt_timer_cancel(engine_rt(s->api->engine), &s->heartbeat);
    if (!s->is_pumping && !s->is_reading)
        stream_free(s);
}

static void on_gone(void *ctx)
{
    leave(ctx);
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

/* A reader with a filter does not need a notice about other missing events. */
static void write_gap(struct stream *s, uint64_t next_id)
{
    struct buf text;
    uint64_t from = s->next_id;

    s->next_id = next_id;
    if (s->is_filtered)
        return;
    buf_init(&text, 256);
    buf_printf(&text, "event: gap\ndata: {\"from\":%llu,\"to\":%llu}\n\n",
               (unsigned long long) from, (unsigned long long) (next_id - 1));
    write_text(s, &text);
    buf_fini(&text);
}

static void write_event(struct stream *s, uint64_t id, uint64_t at_ms, const char *kind,
                        const char *body)
{
    struct buf text;
    char at[32];

    str_iso8601(at, at_ms);
    buf_init(&text, 128 * 1024);
    buf_printf(&text, "id: %llu\nevent: %s\ndata: {\"at\":\"%s\",\"event\":\"%s\"%s%s\n\n",
               (unsigned long long) id, kind, at, kind, strcmp(body, "{}") == 0 ? "" : ",",
               body + 1);
    s->left--;
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

/* --- what is no longer in memory --- */

static void write_past(struct stream *s)
{
    for (unsigned i = 0; i < s->past.count && !s->is_gone && s->left > 0; i++) {
        const struct store_found *f = &s->past.found[i];

        if (f->id > s->next_id)
            write_gap(s, f->id);
        write_event(s, f->id, f->at_ms, f->kind, f->body);
        s->next_id = f->id + 1;
    }
    if (s->left > 0)
        s->next_id = MAX_OF(s->next_id, s->past.last_id + 1);
}

static void on_past(void *ctx, int result)
{
    struct stream *s = ctx;

    s->is_reading = false;
    if (s->is_gone) {
        stream_free(s);
        return;
    }
    if (result != SP_OK || s->past.is_end)
        s->asked_id = s->past.before_id;
    s->is_pumping = true;
    if (result == SP_OK)
        write_past(s);
    s->is_pumping = false;
    store_history_fini(&s->past);
    if (s->is_gone)
        stream_free(s);
    else
        pump(s);
}

static void read_past(struct stream *s, uint64_t first)
{
    s->past.after_id = s->next_id - 1;
    s->past.before_id = first;
    s->is_reading = true;
    engine_read_history(s->api->engine, &s->past, on_past, s);
}

/* --- all of it --- */

/* The token was removed by a reload, or the caller is no longer an operator. */
static bool is_let_in(struct stream *s)
{
    struct api_caller caller;

    if (s->reloads == engine_reloads(s->api->engine))
        return true;
    s->reloads = engine_reloads(s->api->engine);
    return api_identify(s->ex, &caller) && caller.is_operator;
}

static void step(struct stream *s, const struct journal *j)
{
    const struct journal_event *ev = journal_get(j, s->next_id);
    uint64_t first;

    if (ev == NULL) {
        first = journal_first_from(j, s->next_id);
        if (s->asked_id < first)
            read_past(s, first);
        else
            write_gap(s, first);
        return;
    }
    if (store_history_fits(&s->past, ev->at_ms, ev->kind, ev->body))
        write_event(s, ev->id, ev->at_ms, ev->kind, ev->body);
    s->next_id = ev->id + 1;
}

static void pump(struct stream *s)
{
    const struct journal *j = engine_journal(s->api->engine);
    bool is_over;

    if (s->is_reading)
        return;
    if (!is_let_in(s)) {
        http_abort(s->ex); /* a client would resume a stream that ended in order */
        leave(s);
        return;
    }
    s->is_pumping = true;
    while (!s->is_gone && !s->is_full && !s->is_reading && s->left > 0 &&
           s->next_id <= journal_newest(j))
        step(s, j);
    s->is_pumping = false;
    is_over = s->left == 0 || ((!s->want_follow || j->is_closed) && !s->is_full);
    if (s->is_gone && !s->is_reading) {
        stream_free(s);
    } else if (!s->is_gone && !s->is_reading && is_over) {
        http_end(s->ex);
        leave(s);
    }
}

/* --- the parameters --- */

/* The position after the last event that the client has seen; without one, only new events. */
static bool start_position(struct http_exchange *ex, struct stream *s, const struct journal *j)
{
    const char *last = http_header(ex, "Last-Event-ID");
    char since[24];
    uint64_t id;

    s->next_id = s->past.since_ms > 0 ? 1 : journal_newest(j) + 1;
    s->past.want_seek = s->past.since_ms > 0;
    if (last == NULL && http_query(ex, "since", since, sizeof(since)))
        last = since;
    if (last == NULL)
        return true;
    if (!str_parse_u64(last, 0, INT64_MAX, &id))
        return false;
    /* An id from before the ring is read from the database. An id above the newest one comes from
     * another store: start from the first event. */
    s->next_id = id > journal_newest(j) ? 1 : id + 1;
    return true;
}

static bool number_of(struct http_exchange *ex, const char *name, uint64_t min, uint64_t *ret)
{
    char text[24];

    return !http_query(ex, name, text, sizeof(text)) || str_parse_u64(text, min, INT64_MAX, ret);
}

static bool text_of(struct http_exchange *ex, const char *name, char *dst, size_t cap,
                    struct stream *s)
{
    if (!http_query(ex, name, dst, cap))
        return true;
    s->is_filtered = true;
    return strcmp(dst, HTTP_QUERY_BAD) != 0;
}

static bool read_filter(struct http_exchange *ex, struct stream *s)
{
    s->past.until_ms = UINT64_MAX;
    s->left = UINT64_MAX;
    if (!number_of(ex, "since_ms", 1, &s->past.since_ms) ||
        !number_of(ex, "until_ms", 1, &s->past.until_ms) || !number_of(ex, "limit", 1, &s->left))
        return false;
    if (!text_of(ex, "event", s->kind, sizeof(s->kind), s) ||
        !text_of(ex, "box", s->box, sizeof(s->box), s) ||
        !text_of(ex, "sandbox", s->sandbox_id, sizeof(s->sandbox_id), s) ||
        !text_of(ex, "user", s->user, sizeof(s->user), s) ||
        !text_of(ex, "thread", s->thread, sizeof(s->thread), s))
        return false;
    s->is_filtered = s->is_filtered || s->past.since_ms > 0 || s->past.until_ms != UINT64_MAX;
    s->past.kind = s->kind;
    s->past.box = s->box;
    s->past.sandbox_id = s->sandbox_id;
    s->past.user = s->user;
    s->past.thread = s->thread;
    return true;
}

static bool wants_follow(struct http_exchange *ex, const struct stream *s)
{
    char follow[8];

    return http_method(ex) != HTTP_METHOD_HEAD && s->past.until_ms == UINT64_MAX &&
           !(http_query(ex, "follow", follow, sizeof(follow)) && strcmp(follow, "0") == 0);
}

void api_events(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    struct journal *j = engine_journal(api->engine);
    struct rt *rt = engine_rt(api->engine);
    struct stream *s = xcalloc(1, sizeof(*s));
    bool is_good = read_filter(ex, s);

    if (!is_good || !start_position(ex, s, j)) {
        free(s);
        http_reply_error(ex, SP_INVALID_FIELD,
                         is_good ? "'since' and Last-Event-ID must be an event's id"
                                 : "'since_ms', 'until_ms' and 'limit' must be whole numbers from "
                                   "1; 'event', 'box', 'sandbox', 'user' and 'thread' short texts",
                         0);
        return;
    }
    s->api = api;
    s->ex = ex;
    s->reloads = engine_reloads(api->engine);
    s->want_follow = wants_follow(ex, s);
    s->subscriber.on_event = on_event;
    http_set_ctx(ex, s, on_gone);
    http_set_drain(ex, on_drain);
    http_add_header(ex, "Cache-Control", "no-cache");
    http_begin(ex, 200, "text/event-stream");
    journal_subscribe(j, &s->subscriber);
    rt_timer_set(rt, &s->heartbeat, rt_after(rt_now(rt), HEARTBEAT_NS), on_heartbeat);
    pump(s);
}
