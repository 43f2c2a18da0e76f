/* place.c - the place in line of a waiting acquire, for its caller. Turns go round between callers
 * and then between their users, so the place is right if nobody comes or leaves; at most PLACE_WALK
 * entries are visited. */
#include "pool/internal.h"

enum { PLACE_WALK = 256 };

static unsigned index_in(const struct list *l, const struct list_node *node)
{
    unsigned i = 0;

    for (struct list_node *n = list_first(l); n != NULL && n != node && i < PLACE_WALK;
         n = list_next(l, n))
        i++;
    return i;
}

static void find_place(const struct pool *p, const struct waiter *w, struct pool_waiting *ret)
{
    const struct turn *t = w->turn;
    const struct group *g = t->group;
    const struct list *round = &p->profiles[g->profile].round[g->line];
    size_t before = (size_t) index_in(&t->waiters, &w->link) * g->turns.len * round->len +
                    (size_t) index_in(&g->turns, &t->link) * round->len + index_in(round, &g->link);

    ret->of = p->profiles[g->profile].waiting[g->line];
    ret->place = (unsigned) MIN_OF(before + 1, (size_t) ret->of);
}

bool pool_find_waiting(const struct pool *p, const char *sandbox_id, uint64_t principal,
                       struct pool_waiting *ret)
{
    const struct slot *s = bind_find(p, sandbox_id);
    const struct waiter *w = waiter_find_thread(p, sandbox_id);
    const struct pool_box *first = pool_first_of(p, principal, 0);

    if (w == NULL && s != NULL && !list_is_empty(&s->waiters))
        w = waiter_of(list_first(&s->waiters));
    if (w == NULL || w->kind != POOL_EV_ACQUIRE || w->acquire.principal != principal)
        return false;
    *ret = (struct pool_waiting){.profile = w->acquire.profile, .since_ns = w->since_ns};
    if (first != NULL)
        ret->held = (unsigned) container_of(first, const struct slot, box)->owner->boxes.len;
    if (w->phase == WAITER_QUEUED)
        find_place(p, w, ret);
    return true;
}
