/* heap.h - intrusive binary min-heap by a 64-bit key. A node that is in no heap has index 0, so
 * removing twice is harmless. The heap grows unless it was given all its room at init. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    uint64_t key;
    size_t index; /* place in the heap, from 1; 0: in no heap */
};

struct heap {
    struct heap_node **nodes; /* nodes[1] is the smallest; nodes[0] is unused */
    size_t len;
    size_t cap;
};

void heap_init(struct heap *h, size_t reserve);
void heap_fini(struct heap *h);

void heap_insert(struct heap *h, struct heap_node *n, uint64_t key);
void heap_remove(struct heap *h, struct heap_node *n);
/* Inserts, or moves to its new place. */
void heap_set(struct heap *h, struct heap_node *n, uint64_t key);

static inline bool heap_has(const struct heap_node *n)
{
    return n->index != 0;
}

static inline struct heap_node *heap_top(const struct heap *h)
{
    return h->len > 0 ? h->nodes[1] : NULL;
}

#endif
