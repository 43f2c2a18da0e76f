/* proxy_load.h - how many requests a box, or a caller, has under way: one map for each kind. */
#ifndef BOX_PROXY_LOAD_H
#define BOX_PROXY_LOAD_H

#include "base/list.h"
#include "base/map.h"

struct proxy_load {
    struct map_node node;
    uint64_t key;
    unsigned count;
    uint64_t held;        /* of a caller: its part of what the proxy holds (box/aio) */
    struct list passages; /* those requests */
};

/* NULL: none. */
struct proxy_load *proxy_load_find(const struct map *loads, uint64_t key);
/* Made when it is not there; its count is the caller's to raise. */
struct proxy_load *proxy_load_get(struct map *loads, uint64_t key);
/* One less; freed with the last. */
void proxy_load_put(struct map *loads, struct proxy_load *load);

#endif
