/* usage.h - what the two files of GET /v1/usage share: usage.c asks, usage_reply.c answers. */
#ifndef API_USAGE_H
#define API_USAGE_H

#include "dialects/native/internal.h"

struct usage_query {
    struct api *api;
    struct http_exchange *ex; /* NULL: the caller has gone */
    struct api_caller caller;
    struct store_usage usage;
    int64_t skew_ms; /* what the wall clock is ahead of the time of rows by */
    bool want_csv;
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1];
    char sandbox_id[POOL_ID_MAX + 1];
    char profile[POOL_NAME_MAX + 1];
};

/* A time of the wall clock as a time of rows; never 0 unless it is. */
static inline uint64_t usage_stored(const struct usage_query *q, uint64_t wall_ms)
{
    int64_t ms = (int64_t) wall_ms - q->skew_ms;

    return wall_ms == 0 ? 0 : ms > 0 ? (uint64_t) ms : 1;
}

void api_reply_usage(struct usage_query *q);

#endif
