/* copies.c - somebody keeps a copy of the database, and puts it back after a crash. What callers were told
 * since may be forgotten then, but nobody gets what somebody else has seen. */
#include <string.h>

#include "world.h"

void copies_keep(struct world *w)
{
    w->has_copy = true;
    memcpy(w->copy_rows, w->rows, sizeof(w->rows));
    w->copy_past_count = w->past_count;
}

static void forget_promises(struct world *w)
{
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        struct client *c = &w->clients[i];

        c->is_acked = false;
        c->in_doubt = 0;
        c->box = 0;
        c->generation = 0;
    }
}

/* A box whose owner neither the labels nor the rows know: the daemon tries a bind again, so it loses both
 * records only when the copy comes in the same moment. */
static bool is_one_unlabelled(const struct world *w)
{
    for (size_t i = 0; i < w->box_count; i++)
        if (w->boxes[i].is_running && w->boxes[i].is_unlabelled)
            return true;
    return false;
}

bool copies_put_back(struct world *w)
{
    if (!w->has_copy || is_one_unlabelled(w) || !world_chance(w, 30))
        return false;
    memcpy(w->rows, w->copy_rows, sizeof(w->rows));
    w->past_count = w->copy_past_count;
    forget_promises(w);
    for (size_t i = 0; i < w->box_count; i++) /* the pool cannot count what it does not know of */
        w->boxes[i].is_exempt |= rows_find(w, w->boxes[i].seen.id.v) == NULL;
    return true;
}
