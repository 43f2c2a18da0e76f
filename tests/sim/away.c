/* away.c - backends that are unreachable for long: they receive nothing and answer nothing, and may
 * execute later what was requested. */
#include <string.h>

#include "world.h"

bool away_is(const struct world *w, unsigned backend)
{
    return w->now_ns < w->back_ns[backend];
}

/* The box that was requested last may exist, and the backend has not answered since: another
 * request would add one more such box, and so on until the pool is full of them. */
bool away_is_held(const struct world *w, unsigned backend)
{
    const struct pool_box *b = pool_find_box(w->pool, w->unanswered[backend]);

    return b != NULL && (b->state == POOL_DOOMED || b->state == POOL_DESTROYING);
}

/* The pool is about to get this event. */
void away_note_word(struct world *w, const struct pool_event *ev)
{
    const struct pool_box *b = pool_find_box(w->pool, ev->box);

    if (ev->kind == POOL_EV_LISTED && ev->u.listed.is_clean)
        w->unanswered[ev->u.listed.backend].v = 0;
    for (unsigned i = 0; i < WORLD_BACKENDS; i++)
        if (ev->kind == POOL_EV_CREATED && ev->box.v == w->unanswered[i].v)
            w->unanswered[i].v = 0;
    if (b != NULL && ev->kind == POOL_EV_CREATE_FAILED && ev->u.failed.code == SP_TIMEOUT &&
        b->state == POOL_CREATING && b->epoch == ev->epoch && b->made_with == 0)
        w->unanswered[b->backend] = b->id;
}

/* A row that is being deleted does not say that its create had no answer, unless it is deleted for that. */
void away_crashed(struct world *w)
{
    for (unsigned i = 0; i < WORLD_BACKENDS; i++) {
        const struct pool_box *b = pool_find_box(w->pool, w->unanswered[i]);

        if (b != NULL && b->state == POOL_DESTROYING && b->end != POOL_END_CREATE_FAILED &&
            b->end != POOL_END_ORPHAN)
            w->unanswered[i].v = 0;
    }
}

void away_begin(struct world *w)
{
    unsigned backend = (unsigned) rand_below(&w->rand, WORLD_BACKENDS);

    if (w->is_calm) {
        memset(w->back_ns, 0, sizeof(w->back_ns));
        return;
    }
    if (away_is(w, backend))
        return;
    w->back_ns[backend] = w->now_ns + world_ms(w, 500, 10 * 1000);
    w->absences++;
}
