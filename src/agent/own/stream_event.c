/* stream_event.c - events as text. */
#include "agent/own/stream_event.h"

#include <string.h>

#include "base/base64.h"

enum { VIEW_MAX = 8 * 1024 * 1024 }; /* a command of other interfaces may be long */

static const char sse_type[] = "text/event-stream";
static const char ndjson_type[] = "application/x-ndjson";
static const char *const stream_names[] = {"stdout", "stderr"};

enum stream_form stream_accepted(struct http_exchange *ex)
{
    const char *accept = http_header(ex, "accept");
    const char *sse = accept != NULL ? strstr(accept, sse_type) : NULL;
    const char *ndjson = accept != NULL ? strstr(accept, ndjson_type) : NULL;

    if (ndjson != NULL && (sse == NULL || ndjson < sse))
        return STREAM_NDJSON;
    return sse != NULL ? STREAM_SSE : STREAM_BYTES;
}

const char *stream_content_type(enum stream_form form)
{
    static const char *const types[] = {[STREAM_BYTES] = "application/octet-stream",
                                        [STREAM_SSE] = sse_type,
                                        [STREAM_NDJSON] = ndjson_type};

    assert(form < STREAM_FORM_COUNT);
    return types[form];
}

/* The members follow, then put_close(). */
static void put_open(struct buf *out, enum stream_form form, const char *name)
{
    assert(form != STREAM_BYTES);
    buf_puts(out, form == STREAM_SSE ? "event: " : "{\"event\":\"");
    buf_puts(out, name);
    buf_puts(out, form == STREAM_SSE ? "\ndata: {" : "\",");
}

static void put_close(struct buf *out, enum stream_form form)
{
    buf_puts(out, form == STREAM_SSE ? "}\n\n" : "}\n");
}

void stream_put_start(struct buf *out, enum stream_form form, const struct process *p)
{
    put_open(out, form, "start");
    buf_printf(out, "\"job\":\"%llu\",\"pid\":%d", (unsigned long long) p->id, (int) p->pid);
    put_close(out, form);
}

void stream_put_data(struct buf *out, enum stream_form form, unsigned stream, uint64_t offset,
                     const char *data, size_t len)
{
    put_open(out, form, stream_names[stream]);
    buf_printf(out, "\"offset\":%llu,\"data\":\"", (unsigned long long) offset);
    base64_encode(data, len, out);
    buf_putc(out, '"');
    put_close(out, form);
}

void stream_put_gap(struct buf *out, enum stream_form form, unsigned stream, uint64_t from,
                    uint64_t to)
{
    put_open(out, form, "gap");
    buf_printf(out, "\"stream\":\"%s\",\"from\":%llu,\"to\":%llu", stream_names[stream],
               (unsigned long long) from, (unsigned long long) to);
    put_close(out, form);
}

void stream_put_end(struct buf *out, enum stream_form form, const struct rt *rt,
                    const struct job *job)
{
    struct json_out o;
    struct buf view;

    buf_init(&view, VIEW_MAX);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    job_put(&o, rt, job);
    json_end(&o);
    json_out_finish(&o, &view);
    if (buf_failed(&view))
        out->is_failed = true;
    put_open(out, form, "end");
    if (view.len > 2) /* without its braces */
        buf_append(out, view.data + 1, view.len - 2);
    put_close(out, form);
    buf_fini(&view);
}

void stream_put_keepalive(struct buf *out, enum stream_form form)
{
    buf_puts(out, form == STREAM_SSE ? ":\n\n" : "{\"event\":\"keepalive\"}\n");
}
