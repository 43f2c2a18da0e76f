/* process_stream.c - sends output to a reader, from an offset on, and continues as it is written.
 * Every reader has its own position and speed; the program waits for one that follows it
 * (process/follow.h). If the record has dropped bytes that a reader still needs, it gets an event for
 * the gap, or is disconnected (bytes): it never gets a stream with a hole. */
#include "agent/own/process_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/follow.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"

enum {
    CHUNK_SIZE = 64 * 1024,
    EVENT_SIZE = 24 * 1024,             /* a multiple of three: base64 without padding inside */
    BYTES_PER_TURN = 1024 * 1024,       /* then the others are served */
    EVENT_MAX = 8 * 1024 * 1024 + 1024, /* the text of one event */
};
#define HEARTBEAT_NS FAULT_TIME(15 * NS_PER_S)

struct reader {
    struct agent *agent;
    struct http_exchange *ex;
    struct process_watch watch;
    struct process_follower follower;
    struct rt_timer next_turn;
    struct rt_timer heartbeat;
    struct stream_options options;        /* its offsets move */
    uint64_t until[PROCESS_STREAM_COUNT]; /* without follow: where it ends */
    uint64_t written_ns;                  /* when it last got something */
    bool is_full;                         /* waits for on_drain */
    bool is_broken;                       /* no memory for an event */
};

static bool is_events(const struct reader *r)
{
    return r->options.form != STREAM_BYTES;
}

static void reader_free(struct reader *r)
{
    rt_timer_cancel(&r->agent->loop.rt, &r->next_turn);
    rt_timer_cancel(&r->agent->loop.rt, &r->heartbeat);
    process_unfollow(&r->follower);
    process_unwatch(&r->watch);
    free(r);
}

static void on_gone(void *ctx)
{
    struct reader *r = ctx;

    if (r->options.want_kill)
        process_kill(r->watch.process);
    reader_free(r);
}

static void write_bytes(struct reader *r, const char *data, size_t len)
{
    r->written_ns = rt_now(&r->agent->loop.rt);
    if (http_write(r->ex, data, len) > HTTP_HIGH_WATER)
        r->is_full = true;
}

/* Writes one or more events, and frees their text. */
static void write_events(struct reader *r, struct buf *text)
{
    if (buf_failed(text))
        r->is_broken = true;
    else
        write_bytes(r, buf_str(text), text->len);
    buf_fini(text);
}

/* Bytes written; 0 when the reader has all. -1: bytes that it needs are lost. */
static int write_chunk(struct reader *r, unsigned stream)
{
    const struct output *o = &r->watch.process->streams[stream].output;
    uint64_t *at = &r->options.at[stream];
    uint64_t from = output_seek(o, *at);
    char chunk[CHUNK_SIZE];
    struct buf text;
    size_t n;

    if (*at >= MIN_OF(r->until[stream], o->end))
        return 0;
    if (from != *at && !is_events(r))
        return -1;
    buf_init(&text, EVENT_MAX);
    if (from != *at)
        stream_put_gap(&text, r->options.form, stream, *at, from);
    *at = from;
    n = is_events(r) ? EVENT_SIZE : sizeof(chunk);
    n = from < r->until[stream] ? (size_t) MIN_OF(n, r->until[stream] - from) : 0;
    n = n > 0 ? output_read(o, from, chunk, n) : 0;
    if (n > 0 && is_events(r))
        stream_put_data(&text, r->options.form, stream, from, chunk, n);
    else if (n > 0)
        write_bytes(r, chunk, n);
    *at += n;
    if (is_events(r) && (text.len > 0 || buf_failed(&text)))
        write_events(r, &text);
    else
        buf_fini(&text);
    return r->is_broken ? -1 : (int) n;
}

static void write_end(struct reader *r)
{
    struct buf text;

    buf_init(&text, EVENT_MAX);
    stream_put_end(&text, r->options.form, &r->agent->loop.rt,
                   &(struct job){.process = r->watch.process});
    write_events(r, &text);
}

static void end(struct reader *r, bool is_whole)
{
    if (is_whole && is_events(r) && !process_is_running(r->watch.process))
        write_end(r);
    if (is_whole && !r->is_broken)
        http_end(r->ex);
    else
        http_abort(r->ex);
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
            int got = r->options.wants[i] && !r->is_full ? write_chunk(r, i) : 0;

            n = got < 0 ? got : n + got;
        }
        total += n;
    }
    if (r->follower.process != NULL)
        process_followed(&r->follower, r->options.at);
    if (n < 0)
        end(r, false);
    else if (r->is_full)
        rt_timer_cancel(rt, &r->next_turn);
    else if (n > 0) /* not at once: tasks and timers run before other connections are read */
        rt_timer_set(rt, &r->next_turn, rt_after(rt_now(rt), NS_PER_MS), on_next_turn);
    else if (!r->options.want_follow || !process_is_running(r->watch.process))
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

/* Keeps proxies from closing a silent stream, and finds readers that are gone. */
static void on_heartbeat(struct rt_timer *timer)
{
    struct reader *r = container_of(timer, struct reader, heartbeat);
    struct rt *rt = &r->agent->loop.rt;
    struct buf text;

    if (rt_now(rt) >= rt_after(r->written_ns, HEARTBEAT_NS) && !r->is_full) {
        buf_init(&text, EVENT_MAX);
        stream_put_keepalive(&text, r->options.form);
        write_events(r, &text);
    }
    rt_timer_set(rt, &r->heartbeat,
                 rt_after(r->is_full || r->is_broken ? rt_now(rt) : r->written_ns, HEARTBEAT_NS),
                 on_heartbeat);
}

static void send_head(struct http_exchange *ex, enum stream_form form, uint64_t offset)
{
    char text[24];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) offset);
    http_add_header(ex, "X-Sandpool-Offset", text); /* says where the bytes begin */
    http_add_header(ex, "Cache-Control", "no-cache");
    http_begin(ex, 200, stream_content_type(form));
}

static void follow(struct reader *r)
{
    uint64_t at[PROCESS_STREAM_COUNT];

    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
        at[i] = r->options.wants[i] ? r->options.at[i] : FOLLOW_NOT;
    process_follow(r->watch.process, &r->follower, at);
}

void process_stream_begin(struct http_exchange *ex, struct process *p,
                          const struct stream_options *options)
{
    struct reader *r = xcalloc(1, sizeof(*r));
    unsigned first = options->wants[PROCESS_STDOUT] ? PROCESS_STDOUT : PROCESS_STDERR;
    struct rt *rt = &http_loop(ex)->rt;
    struct buf text;

    r->agent = http_server_ctx(ex);
    r->ex = ex;
    r->options = *options;
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
        r->until[i] = options->want_follow ? UINT64_MAX : p->streams[i].output.end;
    if (!is_events(r))
        r->options.at[first] = output_seek(&p->streams[first].output, r->options.at[first]);
    http_set_ctx(ex, r, on_gone);
    http_set_drain(ex, on_drain);
    send_head(ex, options->form, r->options.at[first]);
    process_watch(p, &r->watch, on_change);
    if (options->want_follow)
        follow(r);
    if (is_events(r))
        rt_timer_set(rt, &r->heartbeat, rt_after(rt_now(rt), HEARTBEAT_NS), on_heartbeat);
    if (options->want_start) {
        buf_init(&text, EVENT_MAX);
        stream_put_start(&text, options->form, p);
        write_events(r, &text);
    }
    pump(r);
}

static bool read_offset(struct http_exchange *ex, const char *name, uint64_t *ret)
{
    char text[24];

    *ret = 0;
    return !http_query(ex, name, text, sizeof(text)) || str_parse_u64(text, 0, INT64_MAX, ret);
}

/* What the query requests; false if it is malformed. */
static bool read_query(struct http_exchange *ex, struct stream_options *w)
{
    char stream[16];
    char follow[8];

    if (!http_query(ex, "stream", stream, sizeof(stream)))
        str_copy_cut(stream, sizeof(stream), "stdout");
    w->wants[PROCESS_STDOUT] = strcmp(stream, "stdout") == 0 || strcmp(stream, "both") == 0;
    w->wants[PROCESS_STDERR] = strcmp(stream, "stderr") == 0 || strcmp(stream, "both") == 0;
    w->form = stream_accepted(ex);
    if (w->form == STREAM_BYTES && strcmp(stream, "both") == 0)
        w->form = STREAM_SSE;
    w->want_follow = http_method(ex) != HTTP_METHOD_HEAD &&
                     http_query(ex, "follow", follow, sizeof(follow)) && strcmp(follow, "0") != 0;
    if (!read_offset(ex, "offset", &w->at[PROCESS_STDOUT]) ||
        !read_offset(ex, "stderr_offset", &w->at[PROCESS_STDERR]))
        return false;
    if (!w->wants[PROCESS_STDOUT])
        (void) read_offset(ex, "offset", &w->at[PROCESS_STDERR]); /* was read a moment ago */
    return w->wants[PROCESS_STDOUT] || w->wants[PROCESS_STDERR];
}

/* All of its output is lost. */
static void answer_record(struct http_exchange *ex, const struct job *job,
                          const struct stream_options *w)
{
    unsigned first = w->wants[PROCESS_STDOUT] ? PROCESS_STDOUT : PROCESS_STDERR;
    struct buf text;

    buf_init(&text, EVENT_MAX);
    for (unsigned i = 0; w->form != STREAM_BYTES && i < PROCESS_STREAM_COUNT; i++)
        if (w->wants[i] && w->at[i] < job->record->bytes[i])
            stream_put_gap(&text, w->form, i, w->at[i], job->record->bytes[i]);
    if (w->form != STREAM_BYTES)
        stream_put_end(&text, w->form, &http_loop(ex)->rt, job);
    send_head(ex, w->form, w->form == STREAM_BYTES ? job->record->bytes[first] : w->at[first]);
    if (text.len > 0 && !buf_failed(&text))
        (void) http_write(ex, buf_str(&text), text.len); /* little: it need not wait */
    if (buf_failed(&text))
        http_abort(ex);
    else
        http_end(ex);
    buf_fini(&text);
}

void process_stream_output(struct http_exchange *ex)
{
    struct stream_options options = {.form = STREAM_BYTES};
    struct job job;

    if (!job_of(ex, &job))
        return;
    if (!read_query(ex, &options))
        http_reply_error(ex, SP_INVALID_FIELD,
                         "'stream' is stdout, stderr or both; offsets are numbers", 0);
    else if (job.process != NULL)
        process_stream_begin(ex, job.process, &options);
    else
        answer_record(ex, &job, &options);
}
