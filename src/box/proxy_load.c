/* proxy_load.c - counts of requests by key; a count that is zero is not kept. */
#include "box/proxy_load.h"

#include <stdlib.h>

#include "base/mem.h"

static bool is_load_of(const struct map_node *node, const void *key)
{
    return container_of((uintptr_t) node, struct proxy_load, node)->key == *(const uint64_t *) key;
}

struct proxy_load *proxy_load_find(const struct map *loads, uint64_t key)
{
    struct map_node *n = map_find(loads, hash_u64(key), is_load_of, &key);

    return n != NULL ? container_of(n, struct proxy_load, node) : NULL;
}

struct proxy_load *proxy_load_get(struct map *loads, uint64_t key)
{
    struct proxy_load *load = proxy_load_find(loads, key);

    if (load != NULL)
        return load;
    load = xcalloc(1, sizeof(*load));
    load->key = key;
    list_init(&load->passages);
    map_insert(loads, &load->node, hash_u64(key));
    return load;
}

void proxy_load_put(struct map *loads, struct proxy_load *load)
{
    load->count--;
    if (load->count > 0)
        return;
    map_remove(loads, &load->node);
    free(load);
}
