/* snapshot_order.c - the snapshots in the order of their making: of all callers and of each, with and without those of hibernated
 * sandboxes. */
#include <stddef.h>

#include "engine/internal.h"
#include "engine/snapshots.h"

static size_t link_of(const struct engine_snapshots_of *of)
{
    if (of->is_own)
        return of->want_hibernated ? offsetof(struct engine_snapshot, own_link)
                                   : offsetof(struct engine_snapshot, own_kept_link);
    return of->want_hibernated ? offsetof(struct engine_snapshot, link)
                               : offsetof(struct engine_snapshot, kept_link);
}

static struct engine_snapshot *at_link(struct list_node *n, size_t link)
{
    return n != NULL ? (struct engine_snapshot *) (void *) ((char *) n - link) : NULL;
}

static const struct list *list_of(const struct engine *e, const struct engine_snapshots_of *of)
{
    if (of->is_own)
        return quota_list(e, of->principal, of->want_hibernated);
    return of->want_hibernated ? &e->snapshot_list : &e->snapshots_kept;
}

const struct engine_snapshot *engine_snapshot_first(const struct engine *e,
                                                    const struct engine_snapshots_of *of)
{
    const struct list *l = list_of(e, of);

    return l != NULL ? at_link(list_first(l), link_of(of)) : NULL;
}

const struct engine_snapshot *engine_snapshot_next(const struct engine *e,
                                                   const struct engine_snapshots_of *of,
                                                   const struct engine_snapshot *s)
{
    size_t link = link_of(of);

    if ((of->is_own && s->info.principal != of->principal) ||
        (s->info.is_hibernated && !of->want_hibernated))
        return NULL; /* it is none of them */
    return at_link(list_next(list_of(e, of),
                             (const struct list_node *) (const void *) ((const char *) s + link)),
                   link);
}

/* Listings do not come in this order. */
void snapshots_rank(struct list *list, struct engine_snapshot *s, size_t link)
{
    struct list_node *own = (struct list_node *) (void *) ((char *) s + link);
    struct list_node *before = list->head.prev;

    while (before != &list->head && at_link(before, link)->info.created_ms > s->info.created_ms)
        before = before->prev;
    list_insert_between(list, own, before, before->next);
}
