/* httpc_chunks.h - takes the chunks of an answer apart. libcurl gives them as they came, in whole reads:
 * one call for each chunk would cost more than all the rest when a chunk has one byte. libcurl
 * looks at them as well, and finds the end of the answer. */
#ifndef LOOP_HTTPC_CHUNKS_H
#define LOOP_HTTPC_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum httpc_chunks_state {
    HTTPC_CHUNKS_SIZE,
    HTTPC_CHUNKS_LINE, /* the rest of the line with the size: extensions */
    HTTPC_CHUNKS_DATA,
    HTTPC_CHUNKS_DATA_END,
    HTTPC_CHUNKS_TAIL, /* behind the last chunk */
    HTTPC_CHUNKS_STATE_COUNT
};

/* Starts zeroed. */
struct httpc_chunks {
    enum httpc_chunks_state state;
    unsigned digits;
    uint64_t left; /* of this chunk */
    uint64_t count;
    uint64_t framing; /* bytes that are not payload */
};

/* Appends the payload to `out`, which may fail. False when they are not chunks, or when their extensions
 * and trailers are longer than `extra_max` in all. */
bool httpc_chunks_take(struct httpc_chunks *c, const char *data, size_t len, size_t extra_max,
                       struct buf *out);

#endif
