/* map.c - chained hash table over intrusive nodes; the bucket array never grows. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void map_init(struct map *m, size_t expected)
{
    size_t count = 16;

    while (count < expected)
        count *= 2;
    m->buckets = xcalloc(count, sizeof(struct map_node *));
    m->mask = count - 1;
    m->len = 0;
}

void map_fini(struct map *m)
{
    free(m->buckets);
    memset(m, 0, sizeof(*m));
}

void map_insert(struct map *m, struct map_node *n, uint64_t hash)
{
    struct map_node **bucket = &m->buckets[hash & m->mask];

    assert(!n->is_linked);
    n->hash = hash;
    n->next = *bucket;
    n->is_linked = true;
    *bucket = n;
    m->len++;
}

void map_remove(struct map *m, struct map_node *n)
{
    struct map_node **at;

    if (!n->is_linked)
        return;
    at = &m->buckets[n->hash & m->mask];
    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    n->next = NULL;
    n->is_linked = false;
    m->len--;
}

struct map_node *map_find(const struct map *m, uint64_t hash, map_eq_fn eq, const void *key)
{
    for (struct map_node *n = m->buckets[hash & m->mask]; n != NULL; n = n->next)
        if (n->hash == hash && eq(n, key))
            return n;
    return NULL;
}

uint64_t hash_u64(uint64_t v)
{
    v ^= v >> 33;
    v *= 0xff51afd7ed558ccdULL;
    v ^= v >> 33;
    v *= 0xc4ceb9fe1a85ec53ULL;
    v ^= v >> 33;
    return v;
}

uint64_t hash_bytes(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325ULL;

    for (size_t i = 0; i < len; i++) {
        h ^= p[i];
        h *= 0x100000001b3ULL;
    }
    return hash_u64(h);
}

uint64_t hash_str(const char *s)
{
    return hash_bytes(s, strlen(s));
}
