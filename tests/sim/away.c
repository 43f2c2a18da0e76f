/* away.c - backends that are away for long: they hear nothing and say nothing, and may do later what they were
 * asked for. */
#include <string.h>

#include "world.h"

bool away_is(const struct world *w, unsigned backend)
{
    return w->now_ns < w->back_ns[backend];
}

/* What it was asked for last may exist, and it has said nothing since: another would be one more of that
 * kind, and so on until the pool is full of them. */
bool away_is_held(const struct world *w, unsigned backend)
{
    const struct pool_box *b = pool_find_box(w->pool, w->unheard[backend]);

    return b != NULL && (b->state == POOL_DOOMED || b->state == POOL_DESTROYING);
}

/* The pool is about to hear this. */
void away_note_word(struct world *w, const struct pool_event *ev)
{
    const struct pool_box *b = pool_find_box(w->pool, ev->box);

    if (ev->kind == POOL_EV_LISTED && ev->u.listed.is_clean)
        w->unheard[ev->u.listed.backend].v = 0;
    for (unsigned i = 0; i < WORLD_BACKENDS; i++)
        if (ev->kind == POOL_EV_CREATED && ev->box.v == w->unheard[i].v)
            w->unheard[i].v = 0;
    if (b != NULL && ev->kind == POOL_EV_CREATE_FAILED && ev->u.failed.code == SP_TIMEOUT &&
        b->state == POOL_CREATING && b->epoch == ev->epoch && b->made_with == 0)
        w->unheard[b->backend] = b->id;
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
