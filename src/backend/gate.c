/* gate.c - turns, and those who wait for one. */
#include "backend/gate.h"

#include "base/compiler.h"

void waiter_resume_all(struct list *waiters)
{
    while (!list_is_empty(waiters)) {
        struct waiter *w = container_of(list_pop_front(waiters), struct waiter, link);

        w->resume(w);
    }
}

void gate_init(struct gate *g, size_t max)
{
    g->inside = 0;
    g->max = max;
    list_init(&g->waiting);
}

bool gate_enter(struct gate *g, struct waiter *w)
{
    if (g->inside < g->max) {
        g->inside++;
        return true;
    }
    list_push_back(&g->waiting, &w->link);
    return false;
}

void gate_leave(struct gate *g)
{
    struct waiter *w;

    if (list_is_empty(&g->waiting)) {
        g->inside--;
        return;
    }
    w = container_of(list_pop_front(&g->waiting), struct waiter, link);
    w->resume(w); /* it takes over our place */
}
