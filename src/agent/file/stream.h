/* stream.h - one call about files that may take as long as its bytes need: a helper (core/helper.h) does it, the
 * agent passes the body of the request to it and its answer to the client, both with backpressure and in the same
 * memory for any size. When the client disconnects the helper is stopped. A helper that neither takes nor gives
 * anything for a minute is ended, too.
 *
 * job.h is for short calls: those wait in a lane, and have a deadline. */
#ifndef AGENT_FILE_STREAM_H
#define AGENT_FILE_STREAM_H

#include "agent/core/identity.h"
#include "agent/file/dialect.h"
#include "agent/file/wire.h"

struct file_stream_call {
    /* In the helper, see struct file_handler. */
    const struct identity *(*choose)(void *request);
    void (*run)(void *request, struct file_wire *wire);
    /* In the agent: begins the answer that the head announces, with http_begin() or http_begin_sized(). Not called
     * for whole answers, which are JSON. The numbers in the head are a helper's, not checked but for their range. */
    void (*begin)(struct http_exchange *ex, const struct file_head *head, const void *request);
    const struct file_dialect *dialect;
    bool has_body; /* the route has HTTP_STREAM */
    bool is_watch; /* counts as a watch, not as a transfer */
};

/* `call` is static. `request` is from malloc(), and free() is all that it needs. Sends the answer itself. */
void file_stream_start(struct http_exchange *ex, const struct file_stream_call *call,
                       void *request);

#endif
