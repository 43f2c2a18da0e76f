/* stream_event.h - the events of a job as text: Server-Sent Events, or one JSON object per line. Both have
 * the same names and members. */
#ifndef AGENT_OWN_STREAM_EVENT_H
#define AGENT_OWN_STREAM_EVENT_H

#include "agent/own/process_view.h"

enum stream_form { STREAM_BYTES, STREAM_SSE, STREAM_NDJSON, STREAM_FORM_COUNT };

/* What the caller accepts; STREAM_BYTES when it does not ask for events. */
enum stream_form stream_accepted(struct http_exchange *ex);
const char *stream_content_type(enum stream_form form);

/* Append one event each; never for STREAM_BYTES. */
void stream_put_start(struct buf *out, enum stream_form form, const struct process *p);
void stream_put_data(struct buf *out, enum stream_form form, unsigned stream, uint64_t offset,
                     const char *data, size_t len);
void stream_put_gap(struct buf *out, enum stream_form form, unsigned stream, uint64_t from,
                    uint64_t to);
void stream_put_end(struct buf *out, enum stream_form form, const struct rt *rt,
                    const struct job *job);
void stream_put_keepalive(struct buf *out, enum stream_form form);

#endif
