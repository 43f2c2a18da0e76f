/* table.c - the boxes in memory: those this process has made, is making or is deleting. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "remote/internal.h"

static bool has_id(const struct map_node *node, const void *key)
{
    return container_of(node, const struct remote_box, node)->id == *(const uint64_t *) key;
}

struct remote_box *remote_box_find(struct remote *r, uint64_t id)
{
    struct map_node *n = map_find(&r->boxes, hash_u64(id), has_id, &id);

    return n != NULL ? container_of(n, struct remote_box, node) : NULL;
}

struct remote_box *remote_box_named(struct remote *r, const char *name)
{
    const struct list *l = &r->box_list;
    uint64_t id;

    if (remote_name_is_ours(r, name, &id))
        return remote_box_find(r, id);
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        struct remote_box *b = container_of(n, struct remote_box, link);

        if (strcmp(b->name, name) == 0)
            return b;
    }
    return NULL;
}

struct remote_box *remote_box_add(struct remote *r, uint64_t id, const char *name,
                                  enum remote_state state)
{
    struct remote_box *b = xcalloc(1, sizeof(*b));

    assert(remote_box_find(r, id) == NULL);
    b->remote = r;
    b->id = id;
    b->state = state;
    str_copy_cut(b->name, sizeof(b->name), name);
    list_init(&b->joiners);
    list_init(&b->removers);
    map_insert(&r->boxes, &b->node, hash_u64(id));
    list_push_back(&r->box_list, &b->link);
    return b;
}

void remote_box_drop(struct remote_box *b)
{
    struct remote *r = b->remote;

    assert(list_is_empty(&b->joiners) && list_is_empty(&b->removers));
    map_remove(&r->boxes, &b->node);
    list_remove(&r->box_list, &b->link);
    free(b);
}

void remote_resume_all(struct list *waiters)
{
    while (!list_is_empty(waiters)) {
        struct remote_waiter *w = container_of(list_pop_front(waiters), struct remote_waiter, link);

        w->resume(w);
    }
}
