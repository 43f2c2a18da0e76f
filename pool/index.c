/* index.c - finds boxes by something other than their ids, without looking at all of them: in the
 * order of listings, by the principal that owns them, by the backend's name, and ending ones by the
 * public id they had. */
#include <string.h>

#include "base/str.h"
#include "pool/internal.h"

/* --- in order --- */

/* Position of the first entry above `order`. Of those that came since the gaps were closed it is known; a search
 * among many looks at places far apart. */
static size_t find_after(const struct pool *p, uint64_t order)
{
    const struct order *o = &p->ordered;
    size_t lo = 0;
    size_t hi = o->dense;

    if (o->dense < o->len && order >= o->at[o->dense].order) {
        uint64_t steps = order - o->at[o->dense].order;

        return steps < o->len - o->dense ? o->dense + (size_t) steps + 1 : o->len;
    }
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (o->at[mid].order <= order)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* There is room for twice as many as there are boxes, so this comes once in as many changes. */
static void close_gaps(struct pool *p)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->ordered.len; i++) {
        if (p->ordered.at[i].slot == NULL)
            continue;
        p->ordered.at[kept] = p->ordered.at[i];
        kept++;
    }
    p->ordered.len = kept;
    p->ordered.dense = kept;
}

static void order_leave(struct pool *p, struct slot *s)
{
    size_t at = s->box.order > 0 ? find_after(p, s->box.order - 1) : p->ordered.len;

    if (at < p->ordered.len && p->ordered.at[at].slot == s)
        p->ordered.at[at].slot = NULL;
}

void index_go_last(struct pool *p, struct slot *s)
{
    order_leave(p, s);
    if (p->ordered.len == p->ordered.cap)
        close_gaps(p);
    p->order++;
    s->box.order = p->order;
    p->ordered.at[p->ordered.len] = (struct ordered){.order = p->order, .slot = s};
    p->ordered.len++;
}

const struct pool_box *pool_first(const struct pool *p, uint64_t after, size_t *ret_at)
{
    *ret_at = find_after(p, after);
    return pool_next(p, ret_at);
}

const struct pool_box *pool_next(const struct pool *p, size_t *at)
{
    while (*at < p->ordered.len) {
        const struct slot *s = p->ordered.at[*at].slot;

        (*at)++;
        if (s != NULL)
            return &s->box;
    }
    return NULL;
}

/* --- by owner --- */

static bool eq_owner(const struct map_node *node, const void *key)
{
    return container_of(node, struct owner, by_principal)->principal == *(const uint64_t *) key;
}

static struct owner *owner_find(const struct pool *p, uint64_t principal)
{
    struct map_node *n = map_find(&p->owner_map, hash_u64(principal), eq_owner, &principal);

    return n != NULL ? container_of(n, struct owner, by_principal) : NULL;
}

static struct owner *owner_make(struct pool *p, uint64_t principal)
{
    struct list_node *n = list_pop_front(&p->free_owners);
    struct owner *o = n != NULL ? container_of(n, struct owner, link) : &p->owners[p->owner_count];

    if (n == NULL) {
        assert(p->owner_count < p->slot_count); /* each has a box */
        p->owner_count++;
    }
    o->principal = principal;
    list_init(&o->boxes);
    map_insert(&p->owner_map, &o->by_principal, hash_u64(principal));
    return o;
}

void index_owner_join(struct pool *p, struct slot *s)
{
    index_owner_leave(p, s);
    s->owner = owner_find(p, s->box.principal);
    if (s->owner == NULL)
        s->owner = owner_make(p, s->box.principal);
    list_push_back(&s->owner->boxes, &s->owner_link);
}

void index_owner_leave(struct pool *p, struct slot *s)
{
    struct owner *o = s->owner;

    if (o == NULL)
        return;
    s->owner = NULL;
    list_remove(&o->boxes, &s->owner_link);
    if (!list_is_empty(&o->boxes))
        return;
    map_remove(&p->owner_map, &o->by_principal);
    list_push_front(&p->free_owners, &o->link);
}

/* The last of the page before may be gone. The next one is then looked for from both sides, so that neither many boxes of
 * this owner before it nor many of others behind it make the search long by themselves. */
const struct pool_box *pool_first_of(const struct pool *p, uint64_t principal, uint64_t after)
{
    const struct owner *o = owner_find(p, principal);
    struct list_node *n = o != NULL ? list_first(&o->boxes) : NULL;
    size_t at = after > 0 ? find_after(p, after - 1) : p->ordered.len;

    for (; n != NULL; n = list_next(&o->boxes, n), at++) {
        struct slot *first = container_of(n, struct slot, owner_link);
        struct slot *later = at < p->ordered.len ? p->ordered.at[at].slot : NULL;

        if (first->box.order > after)
            return &first->box;
        if (later == NULL || later->owner != o)
            continue;
        if (later->box.order > after)
            return &later->box;
        n = &later->owner_link; /* the last of the page before is still there */
    }
    return NULL;
}

const struct pool_box *pool_next_of(const struct pool_box *box)
{
    const struct slot *s = container_of(box, const struct slot, box);
    struct list_node *n = list_next(&s->owner->boxes, &s->owner_link);

    return n != NULL ? &container_of(n, struct slot, owner_link)->box : NULL;
}

/* --- by the backend's name --- */

void index_set_ref(struct pool *p, struct slot *s, const char *ref)
{
    map_remove(&p->refs, &s->by_ref);
    if (ref != s->box.ref)
        str_copy_cut(s->box.ref, sizeof(s->box.ref), ref);
    if (s->box.ref[0] != '\0')
        map_insert(&p->refs, &s->by_ref, hash_str(s->box.ref));
}

static bool eq_ref(const struct map_node *node, const void *key)
{
    return strcmp(container_of(node, struct slot, by_ref)->box.ref, key) == 0;
}

static bool eq_ending_ref(const struct map_node *node, const void *key)
{
    return box_is_dying(container_of(node, struct slot, by_ref)) && eq_ref(node, key);
}

struct slot *index_find_ref(const struct pool *p, const char *ref)
{
    struct map_node *n = ref[0] != '\0' ? map_find(&p->refs, hash_str(ref), eq_ref, ref) : NULL;

    return n != NULL ? container_of(n, struct slot, by_ref) : NULL;
}

bool index_is_ending_ref(const struct pool *p, const char *ref)
{
    return ref[0] != '\0' && map_find(&p->refs, hash_str(ref), eq_ending_ref, ref) != NULL;
}

/* --- those that are ending --- */

void index_note_ending(struct pool *p, struct slot *s)
{
    bool is_ending = box_is_dying(s) && s->box.sandbox_id[0] != '\0';

    if (!is_ending)
        map_remove(&p->endings, &s->by_ending);
    else if (!s->by_ending.is_linked)
        map_insert(&p->endings, &s->by_ending, hash_str(s->box.sandbox_id));
}

static bool eq_ending(const struct map_node *node, const void *key)
{
    return strcmp(container_of(node, struct slot, by_ending)->box.sandbox_id, key) == 0;
}

/* The one that was doomed last, which comes first. */
const struct pool_box *pool_find_ending(const struct pool *p, const char *sandbox_id)
{
    struct map_node *n = map_find(&p->endings, hash_str(sandbox_id), eq_ending, sandbox_id);

    return n != NULL ? &container_of(n, struct slot, by_ending)->box : NULL;
}

const struct pool_box *pool_find_deleting(const struct pool *p, const char *sandbox_id)
{
    const struct pool_box *box = pool_find_ending(p, sandbox_id);
    bool is_there = box != NULL && (box->state == POOL_DOOMED || box->state == POOL_DESTROYING);

    return is_there && !pool_end_is_loss(box->end) && box->end != POOL_END_HIBERNATED ? box : NULL;
}

void index_leave(struct pool *p, struct slot *s)
{
    order_leave(p, s);
    index_owner_leave(p, s);
    map_remove(&p->refs, &s->by_ref);
    map_remove(&p->endings, &s->by_ending);
}

/* --- with the pool --- */

void index_init(struct pool *p, struct ordered *ordered, struct owner *owners)
{
    p->ordered.at = ordered;
    p->ordered.cap = POOL_ORDERED_PER_SLOT * p->slot_count;
    p->owners = owners;
    list_init(&p->free_owners);
    map_init(&p->owner_map, p->slot_count);
    map_init(&p->refs, p->slot_count);
    map_init(&p->endings, p->slot_count);
}

void index_fini(struct pool *p)
{
    map_fini(&p->owner_map);
    map_fini(&p->refs);
    map_fini(&p->endings);
}

static bool is_in_order(const struct pool *p, const struct slot *s)
{
    size_t at = find_after(p, s->box.order - 1);

    return at < p->ordered.len && p->ordered.at[at].slot == s;
}

const char *index_check(const struct pool *p, const struct slot *s)
{
    if (!is_in_order(p, s))
        return "a box is not in the order of listings";
    if ((s->owner != NULL) != (s->box.sandbox_id[0] != '\0') ||
        (s->owner != NULL && s->owner->principal != s->box.principal))
        return "a box is not among those of its owner";
    if (s->by_ref.is_linked != (s->box.ref[0] != '\0'))
        return "a box is not found by its backend's name";
    if (s->by_ending.is_linked != (box_is_dying(s) && s->box.sandbox_id[0] != '\0'))
        return "a box that ends is not found by the id it had";
    return NULL;
}
