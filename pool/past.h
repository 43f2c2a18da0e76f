/* past.h - ids that were bound earlier: how the binding ended. */
#ifndef POOL_PAST_H
#define POOL_PAST_H

#include "base/map.h"
#include "pool/pool.h"

struct past {
    char sandbox_id[POOL_ID_MAX + 1];
    enum pool_end end;
    uint64_t generation; /* 0: entry not in use */
    uint64_t principal;
    struct map_node by_sandbox;
};

uint64_t past_next_generation(const struct pool *p, const char *sandbox_id);
void past_remember(struct pool *p, const char *sandbox_id, uint64_t generation, enum pool_end end,
                   uint64_t principal);
void past_drop(struct pool *p, const char *sandbox_id);
const struct past *past_find(const struct pool *p, const char *sandbox_id);

#endif
