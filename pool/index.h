/* index.h - finds boxes by something other than their ids, without looking at all of them. */
#ifndef POOL_INDEX_H
#define POOL_INDEX_H

#include "base/list.h"
#include "base/map.h"
#include "pool/pool.h"

struct slot;

/* Entries grow in order; a box that has left, or has gone to the end, leaves a gap. */
#define POOL_ORDERED_PER_SLOT 2
struct ordered {
    uint64_t order;
    struct slot *slot; /* NULL: a gap */
};

struct order {
    struct ordered *at;
    size_t len;
    size_t cap;
    size_t dense; /* from here on each entry's order is one more than that of the one before */
};

/* A principal that owns boxes. */
struct owner {
    uint64_t principal;
    struct list boxes;     /* by order, never empty while in use */
    struct list_node link; /* free list */
    struct map_node by_principal;
};

/* `ordered` has room for POOL_ORDERED_PER_SLOT entries for each slot, `owners` for one. */
void index_init(struct pool *p, struct ordered *ordered, struct owner *owners);
void index_fini(struct pool *p);
void index_go_last(struct pool *p, struct slot *s); /* in the order of listings */
void index_owner_join(struct pool *p, struct slot *s);
void index_owner_leave(struct pool *p, struct slot *s);
void index_set_ref(struct pool *p, struct slot *s, const char *ref);
struct slot *index_find_ref(const struct pool *p, const char *ref);
bool index_is_ending_ref(const struct pool *p, const char *ref);
void index_note_ending(struct pool *p, struct slot *s); /* after a change of its state */
void index_leave(struct pool *p, struct slot *s);
const char *index_check(const struct pool *p, const struct slot *s);

#endif
