/* boxes.c - the table, and the destroys that wait for a removal. */
#include "backend/boxes.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

static bool has_id(const struct map_node *node, const void *key)
{
    return container_of(node, const struct box_entry, node)->id == *(const uint64_t *) key;
}

void boxes_init(struct boxes *b, struct closing *closing, size_t max)
{
    b->closing = closing;
    map_init(&b->by_id, max);
    list_init(&b->all);
}

void boxes_fini(struct boxes *b)
{
    assert(list_is_empty(&b->all));
    map_fini(&b->by_id);
}

struct box_entry *boxes_find(const struct boxes *b, uint64_t id)
{
    struct map_node *n = map_find(&b->by_id, hash_u64(id), has_id, &id);

    return n != NULL ? container_of(n, struct box_entry, node) : NULL;
}

void boxes_add(struct boxes *b, struct box_entry *e, uint64_t id, enum box_state state)
{
    assert(boxes_find(b, id) == NULL);
    e->boxes = b;
    e->id = id;
    list_init(&e->joiners);
    list_init(&e->removers);
    boxes_set(e, state);
    map_insert(&b->by_id, &e->node, hash_u64(id));
    list_push_back(&b->all, &e->link);
}

void boxes_set(struct box_entry *e, enum box_state state)
{
    e->state = state;
    e->since_ns = rt_now(e->boxes->closing->rt);
}

void boxes_drop(struct box_entry *e)
{
    struct boxes *b = e->boxes;

    assert(list_is_empty(&e->joiners) && list_is_empty(&e->removers));
    map_remove(&b->by_id, &e->node);
    list_remove(&b->all, &e->link);
}

/* --- destroys --- */

/* `priv` of the request. */
struct destroyer {
    struct remover remover;
    struct closing *closing;
    struct box_entry *entry; /* valid while it waits */
    struct backend_destroy *request;
};

static void on_removed(struct remover *remover, int rc, const struct err *err,
                       const struct backend_released *released)
{
    struct destroyer *d = container_of(remover, struct destroyer, remover);
    struct backend_destroy *r = d->request;
    struct closing *closing = d->closing;

    r->released = *released;
    r->priv = NULL;
    free(d);
    closing_finish(closing, &r->op, rc, err);
}

static void on_cancel(struct op *op)
{
    struct backend_destroy *r = container_of(op, struct backend_destroy, op);
    struct destroyer *d = r->priv;
    struct closing *closing = d->closing;

    list_remove(&d->entry->removers, &d->remover.link);
    free(d);
    r->priv = NULL;
    closing_finish(closing, op, SP_CANCELLED, NULL);
}

void boxes_destroy(struct box_entry *e, struct backend_destroy *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    struct closing *closing = e->boxes->closing;
    struct destroyer *d = xcalloc(1, sizeof(*d));

    op_begin(&r->op, closing->rt, &closing->ops, deadline_ns, on_cancel, on_done);
    d->closing = closing;
    d->entry = e;
    d->request = r;
    d->remover.on_removed = on_removed;
    r->priv = d;
    list_push_back(&e->removers, &d->remover.link);
}

void boxes_removed(struct list *removers, int rc, const struct err *err,
                   const struct backend_released *released)
{
    while (!list_is_empty(removers)) {
        struct remover *w = container_of(list_pop_front(removers), struct remover, link);

        w->on_removed(w, rc, err, released);
    }
}
