/* past.c - how bindings of ids ended, for a bounded number of them. When there is no more room, the
 * principal that has the most loses its oldest: so each can count on an equal share, and one that
 * ends many boxes forgets its own. An entry that is pushed out raises the floor to its generation,
 * so no generation is used twice. */
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

/* --- principals --- */

static bool eq_owner(const struct map_node *node, const void *key)
{
    return container_of(node, struct past_owner, by_principal)->principal ==
           *(const uint64_t *) key;
}

static void rank(struct pool *p, struct past_owner *o)
{
    heap_set(&p->past_most, &o->by_count, UINT64_MAX - o->pasts.len);
}

static struct past_owner *owner_of(struct pool *p, uint64_t principal)
{
    struct map_node *n = map_find(&p->past_owner_map, hash_u64(principal), eq_owner, &principal);
    struct past_owner *o;

    if (n != NULL)
        return container_of(n, struct past_owner, by_principal);
    if (!list_is_empty(&p->free_past_owners)) {
        o = container_of(list_pop_front(&p->free_past_owners), struct past_owner, link);
    } else {
        assert(p->past_owner_count < p->past_max); /* each has an entry */
        o = &p->past_owners[p->past_owner_count++];
    }
    o->principal = principal;
    list_init(&o->pasts);
    map_insert(&p->past_owner_map, &o->by_principal, hash_u64(principal));
    return o;
}

/* --- entries --- */

static void clear(struct pool *p, struct past *e)
{
    struct past_owner *o = e->owner;

    map_remove(&p->pasts, &e->by_sandbox);
    list_remove(&o->pasts, &e->link);
    list_push_front(&p->free_pasts, &e->link);
    if (!list_is_empty(&o->pasts)) {
        rank(p, o);
        return;
    }
    heap_remove(&p->past_most, &o->by_count);
    map_remove(&p->past_owner_map, &o->by_principal);
    list_push_front(&p->free_past_owners, &o->link);
}

static struct past *take_room(struct pool *p)
{
    const struct heap_node *most = heap_top(&p->past_most);
    struct past *oldest;

    if (list_is_empty(&p->free_pasts) && p->past_count < p->past_max)
        return &p->past[p->past_count++];
    if (list_is_empty(&p->free_pasts)) {
        oldest =
            container_of(list_first(&container_of(most, const struct past_owner, by_count)->pasts),
                         struct past, link);
        p->past_floor = MAX_OF(p->past_floor, oldest->generation);
        clear(p, oldest);
    }
    return container_of(list_pop_front(&p->free_pasts), struct past, link);
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
        if (end == POOL_END_NONE) { /* nobody got that box: why the last one ended still stands */
            e->generation = generation;
            return;
        }
        clear(p, e);
    }
    e = take_room(p);
    str_copy_cut(e->sandbox_id, sizeof(e->sandbox_id), sandbox_id);
    e->generation = generation;
    e->end = end;
    e->owner = owner_of(p, principal);
    map_insert(&p->pasts, &e->by_sandbox, hash_str(e->sandbox_id));
    list_push_back(&e->owner->pasts, &e->link);
    rank(p, e->owner);
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
        *ret_principal = e->owner->principal;
    return e->end;
}

/* --- all of them --- */

void past_init(struct pool *p, struct past *pasts, struct past_owner *owners, size_t count)
{
    p->past = pasts;
    p->past_owners = owners;
    p->past_max = count;
    list_init(&p->free_pasts);
    list_init(&p->free_past_owners);
    map_init(&p->pasts, count);
    map_init(&p->past_owner_map, count);
    heap_init(&p->past_most, count);
}

void past_fini(struct pool *p)
{
    map_fini(&p->pasts);
    map_fini(&p->past_owner_map);
    heap_fini(&p->past_most);
}

const char *past_check(const struct pool *p)
{
    size_t sum = 0;

    for (size_t i = 1; i <= p->past_most.len; i++) {
        const struct past_owner *o =
            container_of(p->past_most.nodes[i], const struct past_owner, by_count);

        if (o->pasts.len == 0 || o->by_count.key != UINT64_MAX - o->pasts.len)
            return "a principal's number of ended bindings is wrong";
        sum += o->pasts.len;
    }
    return sum == p->pasts.len && sum + p->free_pasts.len == p->past_count
               ? NULL
               : "ended bindings are lost";
}
