/* past.h - ids that were bound earlier: how the binding ended. */
#ifndef POOL_PAST_H
#define POOL_PAST_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "pool/pool.h"

struct past {
    char sandbox_id[POOL_ID_MAX + 1];
    enum pool_end end;
    uint64_t generation;
    struct past_owner *owner;
    struct map_node by_sandbox;
    struct list_node link; /* in owner->pasts, or in free_pasts */
};

/* A principal that has entries. */
struct past_owner {
    uint64_t principal;
    struct list pasts; /* the oldest first */
    struct map_node by_principal;
    struct heap_node by_count; /* the one with the most first */
    struct list_node link;     /* in free_past_owners */
};

void past_init(struct pool *p, struct past *pasts, struct past_owner *owners, size_t count);
void past_fini(struct pool *p); /* not of the two arrays */

uint64_t past_next_generation(const struct pool *p, const char *sandbox_id);
void past_remember(struct pool *p, const char *sandbox_id, uint64_t generation, enum pool_end end,
                   uint64_t principal);
void past_drop(struct pool *p, const char *sandbox_id);
const struct past *past_find(const struct pool *p, const char *sandbox_id);
const char *past_check(const struct pool *p); /* what is wrong; NULL: nothing */

#endif
