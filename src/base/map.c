/* map.c - chained hash table over intrusive nodes; the bucket array never grows. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void map_init(struct map *m, size_t expected)
{
    size_t count = 16;

    while (count < expected + expected / 2)
        count *= 2;
    m->buckets = xcalloc(count, sizeof(struct map_bucket));
    m->mask = count - 1;
    m->len = 0;
}

void map_fini(struct map *m)
{
    free(m->buckets);
    memset(m, 0, sizeof(*m));
}

static void set_first(struct map_bucket *b, struct map_node *n)
{
    b->first = n;
    b->hash = n != NULL ? n->hash : 0;
}

void map_insert(struct map *m, struct map_node *n, uint64_t hash)
{
    struct map_bucket *b = &m->buckets[(uint32_t) hash & m->mask];

    assert(!n->is_linked);
    n->hash = (uint32_t) hash;
    n->next = b->first;
    n->is_linked = true;
    set_first(b, n);
    b->len++;
    m->len++;
}

void map_remove(struct map *m, struct map_node *n)
{
    struct map_bucket *b = &m->buckets[n->hash & m->mask];

    if (!n->is_linked)
        return;
    if (b->first == n) {
        set_first(b, n->next);
    } else {
        struct map_node *before = b->first;

        while (before->next != n)
            before = before->next;
        before->next = n->next;
    }
    n->next = NULL;
    n->is_linked = false;
    b->len--;
    m->len--;
}

static struct map_node *find_from(struct map_node *n, uint32_t hash, map_eq_fn eq, const void *key)
{
    for (; n != NULL; n = n->next)
        if (n->hash == hash && eq(n, key))
            return n;
    return NULL;
}

struct map_node *map_find(const struct map *m, uint64_t hash, map_eq_fn eq, const void *key)
{
    const struct map_bucket *b = &m->buckets[(uint32_t) hash & m->mask];

    if (b->len == 0 || (b->len == 1 && b->hash != (uint32_t) hash))
        return NULL;
    return find_from(b->first, (uint32_t) hash, eq, key);
}

struct map_node *map_find_next(const struct map_node *n, map_eq_fn eq, const void *key)
{
    return find_from(n->next, n->hash, eq, key);
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
