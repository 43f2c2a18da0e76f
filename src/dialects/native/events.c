/* events.c - GET /v1/events: server-sent events, live from the journal, older ones from the
 * database. Each stream has its own position and speed. One that falls behind the journal's ring
 * continues from the database, and gets a notice for events that are not there either. With
 * `format=json` it is a page: a stream that ends, written as one object. Operators see all of it,
 * others what is about their own boxes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hide.h"
#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"

#define HEARTBEAT_NS (15 * NS_PER_S)

enum { PAGE_DEFAULT = 100, PAGE_MAX = 1000, PAGE_READS = 40 /* pieces of the database */ };

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
    bool is_operator;
    bool is_page;
    bool has_events;     /* a page: one was written */
    bool is_unread;      /* the database could not be read */
    unsigned reads_left; /* of a page */
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
    if (s->is_filtered || s->is_page)
        return;
    buf_init(&text, 256);
    buf_printf(&text, "event: gap\ndata: {\"from\":%llu,\"to\":%llu}\n\n",
               (unsigned long long) from, (unsigned long long) (next_id - 1));
    write_text(s, &text);
    buf_fini(&text);
}

/* What went wrong with a box names files of the host, for operators only. */
static void put_body(const struct stream *s, struct buf *out, const char *body)
{
    static const char key[] = "\"reason\":\"";
    const char *reason = s->is_operator ? NULL : strstr(body, key);
    size_t len;

    if (reason != NULL) {
        reason += sizeof(key) - 1;
        buf_append(out, body, (size_t) (reason - body));
        for (len = 0; reason[len] != '\0' && reason[len] != '"'; len++)
            len += reason[len] == '\\' && reason[len + 1] != '\0';
        hide_paths(out, reason, len);
        body = reason + len;
    }
    buf_puts(out, body);
}

static void write_event(struct stream *s, uint64_t id, uint64_t at_ms, const char *kind,
                        const char *body)
{
    struct buf text;
    char at[32];

    str_iso8601(at, at_ms);
    buf_init(&text, 128 * 1024);
    if (s->is_page)
        buf_printf(&text, "%s{\"id\":%llu,", s->has_events ? "," : "", (unsigned long long) id);
    else
        buf_printf(&text, "id: %llu\nevent: %s\ndata: {", (unsigned long long) id, kind);
    buf_printf(&text, "\"at\":\"%s\",\"event\":\"%s\"%s", at, kind,
               strcmp(body, "{}") == 0 ? "" : ",");
    put_body(s, &text, body + 1);
    buf_puts(&text, s->is_page ? "" : "\n\n");
    s->has_events = true;
    s->left--;
    write_text(s, &text);
    buf_fini(&text);
}

/* A page ends with where the next one begins. */
static void write_end(struct stream *s, const struct journal *j)
{
    struct buf text;

    if (!s->is_page)
        return;
    buf_init(&text, 64);
    buf_printf(&text, "],\"complete\":%s,\"next\":", s->is_unread ? "false" : "true");
    if (s->next_id <= journal_newest(j))
        buf_printf(&text, "%llu}\n", (unsigned long long) (s->next_id - 1));
    else
        buf_puts(&text, "null}\n");
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
    s->is_unread = s->is_unread || result != SP_OK;
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
    if (s->reads_left > 0)
        s->reads_left--;
    engine_read_history(s->api->engine, &s->past, on_past, s);
}

/* --- all of it --- */

/* Not when the token was removed by a reload, or the caller is an operator no longer. */
static bool is_let_in(struct stream *s)
{
    struct api_caller caller;

    if (s->reloads == engine_reloads(s->api->engine))
        return true;
    s->reloads = engine_reloads(s->api->engine);
    return api_identify(s->ex, &caller) && (caller.is_operator || !s->is_operator);
}

static void step(struct stream *s, const struct journal *j)
{
    const struct journal_event *ev = journal_get(j, s->next_id);
    struct store_event shown;
    uint64_t first;

    if (ev == NULL) {
        first = journal_first_from(j, s->next_id);
        if (s->asked_id < first && s->is_page && s->reads_left == 0)
            s->left = 0; /* the rest is for the next page */
        else if (s->asked_id < first)
            read_past(s, first);
        else
            write_gap(s, first);
        return;
    }
    shown = (struct store_event){
        .at_ms = ev->at_ms, .kind = ev->kind, .body = ev->body, .principal = ev->principal};
    if (store_history_fits(&s->past, &shown))
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
        s->is_pumping = true;
        write_end(s, j);
        s->is_pumping = false;
        if (s->is_gone) {
            stream_free(s);
            return;
        }
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

/* False when it is none that there is. */
static bool read_format(struct http_exchange *ex, struct stream *s)
{
    char format[8];
    bool has_format = http_query(ex, "format", format, sizeof(format));

    s->is_page = has_format && strcmp(format, "json") == 0;
    s->reads_left = PAGE_READS;
    s->left = s->is_page ? PAGE_DEFAULT : UINT64_MAX;
    return !has_format || s->is_page || strcmp(format, "sse") == 0;
}

/* `id`: a box by any of its names. */
static bool read_id(struct http_exchange *ex, struct stream *s)
{
    char id[2 * POOL_OWNER_MAX + 16];
    struct box_id box;

    if (!http_query(ex, "id", id, sizeof(id)))
        return true;
    s->is_filtered = true;
    if (!api_parse_id(id, s->sandbox_id, &box))
        return false;
    if (box.v != 0)
        str_hex64(s->box, box.v);
    return true;
}

static bool read_filter(struct http_exchange *ex, struct stream *s)
{
    s->past.until_ms = UINT64_MAX;
    s->past.principal = STORE_NOBODY;
    if (!number_of(ex, "since_ms", 1, &s->past.since_ms) ||
        !number_of(ex, "until_ms", 1, &s->past.until_ms) || !number_of(ex, "limit", 1, &s->left) ||
        (s->is_page && s->left > PAGE_MAX))
        return false;
    if (!text_of(ex, "event", s->kind, sizeof(s->kind), s) ||
        !text_of(ex, "box", s->box, sizeof(s->box), s) ||
        !text_of(ex, "sandbox", s->sandbox_id, sizeof(s->sandbox_id), s) ||
        !text_of(ex, "user", s->user, sizeof(s->user), s) ||
        !text_of(ex, "thread", s->thread, sizeof(s->thread), s) || !read_id(ex, s))
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

    return http_method(ex) != HTTP_METHOD_HEAD && s->past.until_ms == UINT64_MAX && !s->is_page &&
           !(http_query(ex, "follow", follow, sizeof(follow)) && strcmp(follow, "0") == 0);
}

void api_events(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    struct journal *j = engine_journal(api->engine);
    struct rt *rt = engine_rt(api->engine);
    struct stream *s = xcalloc(1, sizeof(*s));
    struct api_caller caller;
    bool is_good = read_format(ex, s) && read_filter(ex, s);

    (void) api_identify(ex, &caller); /* the guard has let it in */
    s->is_operator = caller.is_operator;
    if (!caller.is_operator) {
        s->past.principal = caller.principal;
        s->is_filtered = true;
    }
    s->want_follow = wants_follow(ex, s);
    if (is_good && !s->is_page && !caller.is_operator) {
        free(s);
        http_reply_error(
            ex, SP_FORBIDDEN,
            "the stream is for operators (see operator_uids): format=json is a page of "
            "your own events",
            0);
        return;
    }
    if (!is_good || !start_position(ex, s, j)) {
        free(s);
        http_reply_error(ex, SP_INVALID_FIELD,
                         is_good
                             ? "'since' and Last-Event-ID must be an event's id"
                             : "'since_ms', 'until_ms' and 'limit' must be whole numbers from "
                               "1 (the limit of a page is at most 1000); 'event', 'box', "
                               "'sandbox', 'user' and 'thread' short texts; 'id' names a sandbox; "
                               "'format' is sse or json",
                         0);
        return;
    }
    s->api = api;
    s->ex = ex;
    s->reloads = engine_reloads(api->engine);
    s->subscriber.on_event = on_event;
    http_set_ctx(ex, s, on_gone);
    http_set_drain(ex, on_drain);
    http_add_header(ex, "Cache-Control", "no-cache");
    http_begin(ex, 200, s->is_page ? "application/json" : "text/event-stream");
    if (s->is_page)
        (void) http_write(ex, "{\"events\":[", strlen("{\"events\":["));
    journal_subscribe(j, &s->subscriber);
    rt_timer_set(rt, &s->heartbeat, rt_after(rt_now(rt), HEARTBEAT_NS), on_heartbeat);
    pump(s);
}
