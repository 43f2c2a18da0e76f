/* proxy_events.c - see proxy_events.h. Both kinds are as sandpool-agent writes them: lines end with one newline, and the
 * name of an event comes first. */
#include "box/proxy_events.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"

enum proxy_stream proxy_stream_of(const char *content_type)
{
    static const char sse[] = "text/event-stream";
    static const char lines[] = "application/x-ndjson";
    size_t len = strcspn(content_type, "; \t");

    if (len == strlen(sse) && strncasecmp(content_type, sse, len) == 0)
        return PROXY_SSE;
    if (len == strlen(lines) && strncasecmp(content_type, lines, len) == 0)
        return PROXY_LINES;
    return PROXY_BYTES;
}

/* Behind the last end of an event; 0: there is none. */
static size_t last_end(enum proxy_stream kind, const char *data, size_t len)
{
    const char *at = memrchr(data, '\n', len);

    while (at != NULL) {
        if (kind == PROXY_LINES || (at > data && at[-1] == '\n'))
            return (size_t) (at - data) + 1;
        at = memrchr(data, '\n', (size_t) (at - data));
    }
    return 0;
}

size_t proxy_whole_events(enum proxy_stream kind, const char *data, size_t len, bool *ret_is_end)
{
    static const char sse[] = "event: end\n";
    static const char line[] = "{\"event\":\"end\"";
    const char *start = kind == PROXY_SSE ? sse : line;
    size_t whole = last_end(kind, data, len);
    size_t before = whole > 0 ? last_end(kind, data, whole - 1) : 0;

    *ret_is_end =
        whole - before >= strlen(start) && strncmp(data + before, start, strlen(start)) == 0;
    return whole;
}

void proxy_put_end(enum proxy_stream kind, const char *outcome, const char *reason, struct buf *out)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (kind == PROXY_LINES)
        json_put_str(&o, "event", "end");
    json_put_str(&o, "outcome", outcome);
    json_put_null(&o, "exit_code");
    json_put_null(&o, "signal");
    json_put_str(&o, "message", reason);
    json_end(&o);
    if (kind == PROXY_SSE)
        buf_puts(out, "event: end\ndata: ");
    json_out_finish(&o, out);
    buf_puts(out, kind == PROXY_SSE ? "\n\n" : "\n");
}
