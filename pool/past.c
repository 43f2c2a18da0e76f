/* past.c - how bindings of ids ended, in a bounded ring. An entry that is pushed out raises the
 * floor to its generation, so no generation is used twice. */
#include <string.h>

#include "base/str.h"
#include "pool/internal.h"

static bool eq_past(const struct map_node *node, const void *key)
{
    const struct past *e = container_of(node, struct past, by_sandbox);

    return strcmp(e->sandbox_id, key) == 0;
}

static struct past *find(const struct pool *p, const char *sandbox_id)
{
    struct map_node *n = map_find(&p->pasts, hash_str(sandbox_id), eq_past, sandbox_id);

    return n != NULL ? container_of(n, struct past, by_sandbox) : NULL;
}

const struct past *past_find(const struct pool *p, const char *sandbox_id)
{
    return find(p, sandbox_id);
}

uint64_t past_next_generation(const struct pool *p, const char *sandbox_id)
{
    const struct past *e = find(p, sandbox_id);

    return (e != NULL ? e->generation : p->past_floor) + 1;
}

static void clear(struct pool *p, struct past *e)
{
    map_remove(&p->pasts, &e->by_sandbox);
    memset(e, 0, sizeof(*e));
}

void past_remember(struct pool *p, const char *sandbox_id, uint64_t generation, enum pool_end end,
                   uint64_t principal)
{
    struct past *e = find(p, sandbox_id);

    if (sandbox_id[0] == '\0' || generation == 0)
        return;
    if (e != NULL) {
        if (generation < e->generation)
            return;
        clear(p, e);
    }
    e = &p->past[p->past_next];
    p->past_next = (p->past_next + 1) % p->past_count;
    if (e->generation != 0) {
        p->past_floor = MAX_OF(p->past_floor, e->generation);
        clear(p, e);
    }
    str_copy_cut(e->sandbox_id, sizeof(e->sandbox_id), sandbox_id);
    e->generation = generation;
    e->end = end;
    e->principal = principal;
    map_insert(&p->pasts, &e->by_sandbox, hash_str(e->sandbox_id));
}

void past_drop(struct pool *p, const char *sandbox_id)
{
    struct past *e = find(p, sandbox_id);

    if (e != NULL)
        clear(p, e);
}

void pool_restore_floor(struct pool *p, uint64_t generation)
{
    p->past_floor = MAX_OF(p->past_floor, generation);
}

enum pool_end pool_find_past(const struct pool *p, const char *sandbox_id, uint64_t *ret_generation,
                             uint64_t *ret_principal)
{
    const struct past *e = find(p, sandbox_id);

    if (e == NULL || bind_find(p, sandbox_id) != NULL)
        return POOL_END_NONE;
    if (ret_generation != NULL)
        *ret_generation = e->generation;
    if (ret_principal != NULL)
        *ret_principal = e->principal;
    return e->end;
}
