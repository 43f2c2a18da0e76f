/* map.h - intrusive hash table with a fixed number of buckets. Nodes live in the objects; after
 * map_init() nothing is allocated. The caller hashes and compares. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct map_node {
    struct map_node *next;
    uint32_t hash; /* its lower half */
    bool is_linked;
};

/* What the bucket says of its nodes saves a look at them: they lie far apart in memory, and in a large map each
 * of them costs more than all the rest of a search. */
struct map_bucket {
    struct map_node *first;
    uint32_t hash; /* of the first */
    uint32_t len;
};

struct map {
    struct map_bucket *buckets;
    size_t mask;
    size_t len;
};

/* True when the object that holds `node` has this key. */
typedef bool (*map_eq_fn)(const struct map_node *node, const void *key);

/* Makes room for about `expected` nodes (more are fine, only slower). */
void map_init(struct map *m, size_t expected);
void map_fini(struct map *m);

void map_insert(struct map *m, struct map_node *n, uint64_t hash);
/* Removing a node that is not linked does nothing. */
void map_remove(struct map *m, struct map_node *n);
/* Of several, the one that was inserted last. */
struct map_node *map_find(const struct map *m, uint64_t hash, map_eq_fn eq, const void *key);
/* The one inserted before `n`, which has this key too. */
struct map_node *map_find_next(const struct map_node *n, map_eq_fn eq, const void *key);

/* It will be removed soon: has its bucket fetched meanwhile. */
static inline void map_expect(const struct map *m, const struct map_node *n)
{
    __builtin_prefetch(&m->buckets[n->hash & m->mask], 1);
}

uint64_t hash_u64(uint64_t v);
uint64_t hash_bytes(const void *data, size_t len);
uint64_t hash_str(const char *s);

#endif
