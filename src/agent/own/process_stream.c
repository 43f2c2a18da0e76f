/* process_stream.c - sends output to a reader, from an offset on, and continues as it is written.
 * Every reader has its own position and speed. If the record has dropped bytes that a reader still
 * needs, it gets an event for the gap, or is disconnected (bytes): it never gets a stream with a
 * hole. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/own/process_view.h"
#include "base/mem.h"
#include "base/str.h"

enum {
    CHUNK_SIZE = 24 * 1024,       /* a multiple of three: base64 without padding inside */
    BYTES_PER_TURN = 1024 * 1024, /* then the others are served */
};
#define HEARTBEAT_NS (15 * NS_PER_S)

struct reader {
    struct agent *agent;
    struct http_exchange *ex;
    struct process_watch watch;
    struct rt_timer next_turn;
    struct rt_timer heartbeat;
    uint64_t at[PROCESS_STREAM_COUNT];
    uint64_t until[PROCESS_STREAM_COUNT]; /* without follow: where it ends */
    bool wants[PROCESS_STREAM_COUNT];
    bool is_events;
    bool want_follow;
    bool is_full; /* waits for on_drain */
};

static const char *const stream_names[] = {"stdout", "stderr"};

static void reader_free(struct reader *r)
{
    rt_timer_cancel(&r->agent->loop.rt, &r->next_turn);
    rt_timer_cancel(&r->agent->loop.rt, &r->heartbeat);
    process_unwatch(&r->watch);
    free(r);
}

static void on_gone(void *ctx)
{
    reader_free(ctx);
}

static void write_bytes(struct reader *r, const char *data, size_t len)
{
    if (http_write(r->ex, data, len) > HTTP_HIGH_WATER)
        r->is_full = true;
}

static void put_base64(struct buf *out, const unsigned char *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < len; i += 3) {
        unsigned v = (unsigned) data[i] << 16;

        v |= i + 1 < len ? (unsigned) data[i + 1] << 8 : 0;
        v |= i + 2 < len ? data[i + 2] : 0;
        buf_putc(out, digits[v >> 18]);
        buf_putc(out, digits[v >> 12 & 63]);
        buf_putc(out, i + 1 < len ? digits[v >> 6 & 63] : '=');
        buf_putc(out, i + 2 < len ? digits[v & 63] : '=');
    }
}

static void write_event(struct reader *r, unsigned stream, const char *data, size_t len)
{
    struct buf text;

    buf_init(&text, 2 * CHUNK_SIZE);
    buf_printf(&text, "event: %s\ndata: {\"offset\":%llu,\"data\":\"", stream_names[stream],
               (unsigned long long) r->at[stream]);
    put_base64(&text, (const unsigned char *) data, len);
    buf_puts(&text, "\"}\n\n");
    write_bytes(r, buf_str(&text), text.len);
    buf_fini(&text);
}

static void write_gap(struct reader *r, unsigned stream, uint64_t to)
{
    char text[160];
    int len = snprintf(
        text, sizeof(text), "event: gap\ndata: {\"stream\":\"%s\",\"from\":%llu,\"to\":%llu}\n\n",
        stream_names[stream], (unsigned long long) r->at[stream], (unsigned long long) to);

    write_bytes(r, text, (size_t) len);
}

static void write_end(struct reader *r)
{
    struct json_out o;
    struct buf text;

    buf_init(&text, 8 * 1024 * 1024);
    buf_puts(&text, "event: end\ndata: ");
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    process_put(&o, r->watch.process);
    json_end(&o);
    json_out_finish(&o, &text);
    buf_puts(&text, "\n\n");
    write_bytes(r, buf_str(&text), text.len);
    buf_fini(&text);
}

/* Bytes written; 0 when the reader has all. -1: bytes that it needs are lost. */
static int write_chunk(struct reader *r, unsigned stream)
{
    const struct output *o = &r->watch.process->streams[stream].output;
    uint64_t from = output_seek(o, r->at[stream]);
    char chunk[CHUNK_SIZE];
    size_t n;

    if (r->at[stream] >= MIN_OF(r->until[stream], o->end))
        return 0;
    if (from != r->at[stream]) {
        if (!r->is_events)
            return -1;
        write_gap(r, stream, from);
        r->at[stream] = from;
    }
    n = output_read(o, from, chunk, (size_t) MIN_OF(sizeof(chunk), r->until[stream] - from));
    if (n == 0)
        return 0;
    if (r->is_events)
        write_event(r, stream, chunk, n);
    else
        write_bytes(r, chunk, n);
    r->at[stream] += n;
    return (int) n;
}

static void end(struct reader *r, bool is_whole)
{
    if (!is_whole) {
        http_abort(r->ex);
    } else {
        if (r->is_events && !process_is_running(r->watch.process))
            write_end(r);
        http_end(r->ex);
    }
    reader_free(r);
}

static void pump(struct reader *r);

static void on_next_turn(struct rt_timer *timer)
{
    pump(container_of(timer, struct reader, next_turn));
}

static void pump(struct reader *r)
{
    struct rt *rt = &r->agent->loop.rt;
    int total = 0;
    int n = 1;

    while (n > 0 && !r->is_full && total < BYTES_PER_TURN) {
        n = 0;
        for (unsigned i = 0; i < PROCESS_STREAM_COUNT && n >= 0; i++) {
            int got = r->wants[i] && !r->is_full ? write_chunk(r, i) : 0;

            n = got < 0 ? got : n + got;
        }
        total += n;
    }
    if (n < 0)
        end(r, false);
    else if (r->is_full)
        rt_timer_cancel(rt, &r->next_turn);
    else if (n > 0) /* not at once: tasks and timers run before other connections are read */
        rt_timer_set(rt, &r->next_turn, rt_after(rt_now(rt), NS_PER_MS), on_next_turn);
    else if (!r->want_follow || !process_is_running(r->watch.process))
        end(r, true);
}

static void on_change(struct process_watch *w)
{
    struct reader *r = container_of(w, struct reader, watch);

    if (!r->is_full)
        pump(r);
}

static void on_drain(struct http_exchange *ex)
{
    struct reader *r = http_ctx(ex);

    r->is_full = false;
    pump(r);
}

static void on_heartbeat(struct rt_timer *timer)
{
    struct reader *r = container_of(timer, struct reader, heartbeat);
    struct rt *rt = &r->agent->loop.rt;

    rt_timer_set(rt, &r->heartbeat, rt_after(rt_now(rt), HEARTBEAT_NS), on_heartbeat);
    if (!r->is_full)
        (void) http_write(r->ex, ":\n\n", 3); /* a comment: keeps proxies from closing the stream */
}

static bool read_offset(struct http_exchange *ex, const char *name, uint64_t *ret)
{
    char text[24];

    *ret = 0;
    return !http_query(ex, name, text, sizeof(text)) || str_parse_u64(text, 0, INT64_MAX, ret);
}

/* What the query requests; false if it is malformed. */
static bool read_query(struct http_exchange *ex, struct reader *r)
{
    const char *accept = http_header(ex, "accept");
    char stream[16];
    char follow[8];

    if (!http_query(ex, "stream", stream, sizeof(stream)))
        str_copy_cut(stream, sizeof(stream), "stdout");
    r->wants[PROCESS_STDOUT] = strcmp(stream, "stdout") == 0 || strcmp(stream, "both") == 0;
    r->wants[PROCESS_STDERR] = strcmp(stream, "stderr") == 0 || strcmp(stream, "both") == 0;
    r->is_events = strcmp(stream, "both") == 0 ||
                   (accept != NULL && strstr(accept, "text/event-stream") != NULL);
    r->want_follow = http_method(ex) != HTTP_METHOD_HEAD &&
                     http_query(ex, "follow", follow, sizeof(follow)) && strcmp(follow, "0") != 0;
    if (!read_offset(ex, "offset", &r->at[PROCESS_STDOUT]) ||
        !read_offset(ex, "stderr_offset", &r->at[PROCESS_STDERR]))
        return false;
    if (!r->wants[PROCESS_STDOUT])
        (void) read_offset(ex, "offset", &r->at[PROCESS_STDERR]); /* was read a moment ago */
    return r->wants[PROCESS_STDOUT] || r->wants[PROCESS_STDERR];
}

static void begin(struct reader *r, struct process *p)
{
    struct rt *rt = &r->agent->loop.rt;
    unsigned first = r->wants[PROCESS_STDOUT] ? PROCESS_STDOUT : PROCESS_STDERR;
    char offset[24];

    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
        r->until[i] = r->want_follow ? UINT64_MAX : p->streams[i].output.end;
    if (!r->is_events) /* says where the bytes begin */
        r->at[first] = output_seek(&p->streams[first].output, r->at[first]);
    (void) snprintf(offset, sizeof(offset), "%llu", (unsigned long long) r->at[first]);
    http_add_header(r->ex, "X-Sandpool-Offset", offset);
    http_add_header(r->ex, "Cache-Control", "no-cache");
    http_set_ctx(r->ex, r, on_gone);
    http_set_drain(r->ex, on_drain);
    http_begin(r->ex, 200, r->is_events ? "text/event-stream" : "application/octet-stream");
    process_watch(p, &r->watch, on_change);
    if (r->is_events)
        rt_timer_set(rt, &r->heartbeat, rt_after(rt_now(rt), HEARTBEAT_NS), on_heartbeat);
    pump(r);
}

void process_stream_output(struct http_exchange *ex)
{
    struct process *p = process_of(ex);
    struct reader *r;

    if (p == NULL)
        return;
    r = xcalloc(1, sizeof(*r));
    r->agent = http_server_ctx(ex);
    r->ex = ex;
    if (!read_query(ex, r)) {
        free(r);
        http_reply_error(ex, SP_INVALID_FIELD,
                         "'stream' is stdout, stderr or both; offsets are numbers", 0);
        return;
    }
    begin(r, p);
}
