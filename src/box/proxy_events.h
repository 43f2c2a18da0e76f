/* proxy_events.h - streams of events on their way through the proxy, server-sent ones and lines of JSON: only whole
 * events are passed on, so that one more can be added when the rest does not come. Pure. */
#ifndef BOX_PROXY_EVENTS_H
#define BOX_PROXY_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum proxy_stream {
    PROXY_BYTES, /* anything else */
    PROXY_SSE,   /* text/event-stream */
    PROXY_LINES, /* application/x-ndjson */
};

enum { PROXY_EVENT_MAX = 96 * 1024 }; /* a longer one is passed on in parts */

/* Of the value of Content-Type. */
enum proxy_stream proxy_stream_of(const char *content_type);
/* How much of the bytes is whole events. *ret_is_end: the last of those is `end`. */
size_t proxy_whole_events(enum proxy_stream kind, const char *data, size_t len, bool *ret_is_end);
/* The event `end` with this outcome. */
void proxy_put_end(enum proxy_stream kind, const char *outcome, const char *reason,
                   struct buf *out);

#endif
