/* copies.c - an operator keeps a copy of the database, and restores it after a crash. Newer leases
 * may then be lost, but nobody gets a box that somebody else has seen. */
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

static bool names_an_owner(const struct world *w, uint64_t id)
{
    for (size_t i = 0; i < WORLD_ROWS; i++)
        if (w->copy_rows[i].is_used && w->copy_rows[i].box.id.v == id)
            return w->copy_rows[i].box.sandbox_id[0] != '\0';
    return false;
}

/* The copy names an earlier owner, and the labels do not name the present one: the daemon repeats a
 * bind, so both are wrong only if the copy is made at the same moment. */
static bool is_one_misnamed(const struct world *w)
{
    for (size_t i = 0; i < w->box_count; i++)
        if (w->boxes[i].is_running && w->boxes[i].is_unlabelled &&
            names_an_owner(w, w->boxes[i].seen.id.v))
            return true;
    return false;
}

bool copies_put_back(struct world *w)
{
    if (!w->has_copy || is_one_misnamed(w) || !world_chance(w, 30))
        return false;
    memcpy(w->rows, w->copy_rows, sizeof(w->rows));
    for (size_t i = 0; i < WORLD_ROWS; i++)
        w->rows[i].box.is_stale = true;
    w->past_count = w->copy_past_count;
    forget_promises(w);
    for (size_t i = 0; i < w->box_count; i++) /* the pool cannot count boxes that it does not
                                               * know */
        w->boxes[i].is_exempt |= rows_find(w, w->boxes[i].seen.id.v) == NULL;
    return true;
}
