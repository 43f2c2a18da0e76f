/* stream.c - the agent's side of a streamed call. Of a body one buffer is sent to the helper while the next one
 * fills; if both are full, the client is paused. While the client is slow, nothing is read from the helper. */
#include "agent/file/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent.h"
#include "agent/core/helper.h"
#include "agent/file/frame.h"
#include "agent/file/lane.h"
#include "base/mem.h"

#define STALL_NS (60 * NS_PER_S) /* a file system that does nothing for so long */

enum { FLUSH = 256 * 1024, BUFFER_MAX = 2 * FLUSH };

struct stream {
    struct http_exchange *ex;
    struct agent *agent;
    const struct file_stream_call *call;
    void *request;
    struct helper *helper;
    struct rt_timer stall;
    struct file_result result;
    bool is_begun;
    bool is_full; /* waits for on_drain */
    /* The frame of the answer that is being received. */
    struct file_frame in;
    size_t in_have;   /* of its head */
    uint32_t in_left; /* of its bytes */
    /* The body of the request. */
    struct buf fill;
    struct buf flight; /* being sent */
    struct file_frame out;
    bool is_sending;
    bool is_paused;
    bool is_complete;
    bool is_over; /* the last frame was sent */
};

/* --- in the helper --- */

static const struct identity *choose(void *ctx)
{
    const struct stream *s = ctx;

    return s->call->choose(s->request);
}

static void run(void *ctx, int fd)
{
    const struct stream *s = ctx;
    struct file_wire wire;

    file_wire_init(&wire, fd);
    s->call->run(s->request, &wire);
    file_wire_fini(&wire);
}

/* --- in the agent --- */

static unsigned *count_of(const struct stream *s)
{
    return s->call->is_watch ? &s->agent->files->watches : &s->agent->files->transfers;
}

static void free_stream(struct stream *s)
{
    rt_timer_cancel(&s->agent->loop.rt, &s->stall);
    if (s->helper != NULL) {
        helper_leave(s->helper);
        (*count_of(s))--;
    }
    file_result_fini(&s->result);
    buf_fini(&s->fill);
    buf_fini(&s->flight);
    free(s->request);
    free(s);
}

static void on_gone(void *ctx)
{
    free_stream(ctx);
}

static void fail(struct stream *s, int status, const char *message)
{
    if (s->is_begun)
        http_abort(s->ex);
    else
        s->call->dialect->refuse(s->ex, status, message);
    free_stream(s);
}

static void on_stall(struct rt_timer *timer)
{
    fail(container_of(timer, struct stream, stall), 504, "the file system did not answer in time");
}

/* While the client is slow nobody waits for the helper. */
static void set_stall(struct stream *s)
{
    struct rt *rt = &s->agent->loop.rt;
    bool is_client = s->is_full || (s->call->has_body && !s->is_sending && !s->is_over);

    if (is_client)
        rt_timer_cancel(rt, &s->stall);
    else
        rt_timer_set(rt, &s->stall, rt_after(rt_now(rt), STALL_NS), on_stall);
}

/* --- the answer --- */

static void end(struct stream *s)
{
    http_end(s->ex);
    free_stream(s);
}

static void write_bytes(struct stream *s, const char *data, size_t len)
{
    if (len > 0 && http_write(s->ex, data, len) >= HTTP_HIGH_WATER)
        s->is_full = true;
}

/* False: it was the last, or not valid; the stream is freed. */
static bool take_frame_head(struct stream *s)
{
    s->in_have = 0;
    s->in_left = s->in.len;
    if (s->in.kind == FILE_FRAME_DATA)
        return true;
    if (s->in.kind == FILE_FRAME_END && s->in.len == 0)
        end(s);
    else
        fail(s, 500, "the file helper gave no valid answer");
    return false;
}

/* False: the stream is freed. */
static bool take_frames(struct stream *s, const char *data, size_t len)
{
    while (len > 0) {
        size_t n = MIN_OF(len, s->in_left);

        if (n > 0) {
            write_bytes(s, data, n);
            s->in_left -= (uint32_t) n;
        } else {
            n = MIN_OF(len, sizeof(s->in) - s->in_have);
            memcpy((char *) &s->in + s->in_have, data, n);
            s->in_have += n;
            if (s->in_have == sizeof(s->in) && !take_frame_head(s))
                return false;
        }
        data += n;
        len -= n;
    }
    return true;
}

/* False: the stream is freed. */
static bool pass_on(struct stream *s, const char *data, size_t len)
{
    const struct file_result *r = &s->result;

    if (s->call->begin == NULL) {
        fail(s, 500, "the file helper gave no valid answer");
        return false;
    }
    if (!s->is_begun) {
        s->call->begin(s->ex, &r->head, s->request);
        s->is_begun = true;
    }
    if (r->head.form == FILE_FORM_FRAMES)
        return take_frames(s, data, len);
    write_bytes(s, data, len);
    if (!file_result_is_done(r))
        return true;
    end(s);
    return false;
}

static void reply_whole(struct stream *s)
{
    const struct file_result *r = &s->result;
    char text[48];

    if (r->head.status == 416) {
        (void) snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long) r->head.size);
        http_add_header(s->ex, "Content-Range", text);
    }
    http_reply(s->ex, (int) r->head.status, "application/json", buf_str(&r->body), r->body.len);
    free_stream(s);
}

static void on_data(void *ctx, const char *data, size_t len)
{
    struct stream *s = ctx;
    struct file_result *r = &s->result;

    len = file_result_feed(r, data, len, &data);
    if (r->is_bad || buf_failed(&r->body)) {
        fail(s, 500, "the file helper gave no valid answer");
        return;
    }
    if (file_result_has_head(r)) {
        if (r->head.status >= 300 || r->head.form == FILE_FORM_WHOLE) {
            if (file_result_is_done(r)) {
                reply_whole(s);
                return;
            }
        } else if (!pass_on(s, data, len)) {
            return;
        }
    }
    helper_read(s->helper, !s->is_full);
    set_stall(s);
}

static void on_end(void *ctx)
{
    fail(ctx, 500, "the file helper died before its answer was complete (out of memory?)");
}

static void on_drain(struct http_exchange *ex)
{
    struct stream *s = http_ctx(ex);

    s->is_full = false;
    helper_read(s->helper, true);
    set_stall(s);
}

/* --- the body of the request --- */

/* Sends what has arrived or, when all has been sent, the end. */
static void send_next(struct stream *s)
{
    struct buf empty = s->flight;
    bool is_end = s->is_complete && s->fill.len == 0;

    s->flight = s->fill;
    s->fill = empty;
    s->out.kind = is_end ? FILE_FRAME_END : FILE_FRAME_DATA;
    s->out.len = (uint32_t) s->flight.len;
    s->is_over = is_end;
    s->is_sending = true;
    set_stall(s);
    helper_write(s->helper, (const char *) &s->out, sizeof(s->out), buf_str(&s->flight),
                 s->flight.len);
}

static void on_sent(void *ctx, bool is_ok)
{
    struct stream *s = ctx;

    if (!is_ok)
        return; /* it has ended: its answer, or its end, comes next */
    s->is_sending = false;
    buf_reset(&s->flight);
    if (!s->is_over && (s->is_complete || s->fill.len >= FLUSH))
        send_next(s);
    else
        set_stall(s);
    if (s->is_paused && s->fill.len < FLUSH) {
        s->is_paused = false;
        http_body_resume(s->ex);
    }
}

static void on_body(struct http_exchange *ex, const char *data, size_t len)
{
    struct stream *s = http_ctx(ex);

    buf_append(&s->fill, data, len);
    if (buf_failed(&s->fill))
        fail(s, 503, "no memory for the upload");
    else if (s->fill.len >= FLUSH && s->is_sending) {
        s->is_paused = true;
        http_body_pause(ex);
    } else if (s->fill.len >= FLUSH) {
        send_next(s);
    }
}

static void on_body_end(struct http_exchange *ex)
{
    struct stream *s = http_ctx(ex);

    s->is_complete = true;
    if (!s->is_sending)
        send_next(s);
}

/* --- start --- */

/* NULL, or why there is none. */
static const char *start_helper(struct stream *s)
{
    const struct helper_job work = {.choose = choose,
                                    .run = run,
                                    .on_data = on_data,
                                    .on_end = on_end,
                                    .on_written = s->call->has_body ? on_sent : NULL,
                                    .ctx = s};
    unsigned max = s->call->is_watch ? FILE_WATCHES_MAX : FILE_TRANSFERS_MAX;

    static_assert(FILE_WATCHES_MAX == 64 && FILE_TRANSFERS_MAX == 64, "the texts");
    if (*count_of(s) >= max)
        return s->call->is_watch ? "64 watches of this box are open already"
                                 : "64 file calls of this box are under way already";
    s->helper = helper_start(s->agent->helpers, &work);
    if (s->helper == NULL)
        return "the box has no process or memory left for this";
    (*count_of(s))++;
    return NULL;
}

void file_stream_start(struct http_exchange *ex, const struct file_stream_call *call, void *request)
{
    struct stream *s = xcalloc(1, sizeof(*s));
    const char *refusal;

    s->ex = ex;
    s->agent = http_server_ctx(ex);
    s->call = call;
    s->request = request;
    file_result_init(&s->result, true);
    buf_init(&s->fill, BUFFER_MAX);
    buf_init(&s->flight, BUFFER_MAX);
    refusal = start_helper(s);
    if (refusal != NULL) {
        fail(s, 503, refusal);
        return;
    }
    http_set_ctx(ex, s, on_gone);
    http_set_drain(ex, on_drain);
    if (call->has_body)
        http_body_start(ex, on_body, on_body_end);
    set_stall(s);
}
