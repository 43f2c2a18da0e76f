/* stream.c - output on its way to the caller: events with base64, as sandpool-agent writes them, or bytes. */
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "box/aio/run.h"

enum { EVENT_MAX = 64 * 1024 };

static const char sse[] = "text/event-stream";
static const char lines[] = "application/x-ndjson";

enum proxy_stream aio_stream_accepted(struct http_exchange *ex)
{
    const char *accept = http_header(ex, "Accept");
    const char *is_sse = accept != NULL ? strstr(accept, sse) : NULL;
    const char *is_lines = accept != NULL ? strstr(accept, lines) : NULL;

    if (is_lines != NULL && (is_sse == NULL || is_lines < is_sse))
        return PROXY_LINES;
    return is_sse != NULL ? PROXY_SSE : PROXY_BYTES;
}

static void write_bytes(struct aio_call *c, const char *data, size_t len)
{
    passage_moved(&c->g);
    if (http_write(c->g.ex, data, len) >= HTTP_HIGH_WATER)
        c->run->is_full = true;
}

/* `members`: "\"a\":1". */
static void write_event(struct aio_call *c, const char *name, const char *members, size_t len)
{
    bool is_sse = c->g.stream == PROXY_SSE;
    struct buf text;

    buf_init(&text, EVENT_MAX + len);
    buf_printf(&text, is_sse ? "event: %s\ndata: {" : "{\"event\":\"%s\",", name);
    buf_append(&text, members, len);
    buf_puts(&text, is_sse ? "}\n\n" : "}\n");
    write_bytes(c, buf_str(&text), text.len);
    buf_fini(&text);
}

void aio_stream_begin(struct aio_call *c, enum proxy_stream form)
{
    struct http_exchange *ex = c->g.ex;
    const struct aio_run *r = c->run;
    char text[64];

    (void) snprintf(text, sizeof(text), "%llu",
                    (unsigned long long) r->from[r->wants[AIO_STDOUT] ? AIO_STDOUT : AIO_STDERR]);
    http_add_header(ex, "X-Sandpool-Offset", text);
    http_add_header(ex, "Cache-Control", "no-cache");
    c->g.is_begun = true;
    c->g.stream = form;
    http_begin(ex, 200,
               form == PROXY_SSE     ? sse
               : form == PROXY_LINES ? lines
                                     : "application/octet-stream");
    if (!r->want_start)
        return;
    (void) snprintf(text, sizeof(text), "\"job\":\"%llu\",\"pid\":0", (unsigned long long) r->job);
    write_event(c, "start", text, strlen(text));
}

void aio_stream_put(struct aio_call *c, enum aio_stream stream, uint64_t offset, const char *text,
                    size_t len)
{
    struct buf members;

    if (c->g.stream == PROXY_BYTES) {
        write_bytes(c, text, len);
        return;
    }
    buf_init(&members, EVENT_MAX);
    buf_printf(&members, "\"offset\":%llu,\"data\":\"", (unsigned long long) offset);
    base64_encode(text, len, &members);
    buf_putc(&members, '"');
    write_event(c, stream == AIO_STDOUT ? "stdout" : "stderr", buf_str(&members), members.len);
    buf_fini(&members);
}

void aio_stream_gap(struct aio_call *c)
{
    const struct aio_run *r = c->run;
    char text[128];

    for (unsigned i = 0; i < AIO_STREAMS; i++) {
        (void) snprintf(text, sizeof(text), "\"stream\":\"%s\",\"from\":%llu,\"to\":%llu",
                        i == AIO_STDOUT ? "stdout" : "stderr", (unsigned long long) r->at[i],
                        (unsigned long long) r->at[i] + AIO_ANSWER_MAX);
        if (r->wants[i])
            write_event(c, "gap", text, strlen(text));
    }
}

void aio_stream_keepalive(struct aio_call *c)
{
    static const char line[] = "{\"event\":\"keepalive\"}\n";

    if (c->g.stream == PROXY_SSE)
        write_bytes(c, ":\n\n", 3);
    else
        write_bytes(c, line, strlen(line));
}

void aio_stream_end(struct aio_call *c)
{
    struct json_out o;
    struct buf view;

    if (c->g.stream != PROXY_BYTES && c->run->outcome != AIO_RUNNING) {
        buf_init(&view, EVENT_MAX);
        aio_say_begin(&o);
        aio_run_put_job(&o, c);
        json_end(&o);
        json_out_finish(&o, &view);
        assert(!buf_failed(&view));                         /* all that is in it has a limit */
        write_event(c, "end", view.data + 1, view.len - 2); /* without its braces */
        buf_fini(&view);
    }
    http_end(c->g.ex);
    aio_end(c);
}
