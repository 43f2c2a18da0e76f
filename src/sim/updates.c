/* updates.c - what is bound to a box that runs already. Nothing is really done; it is written down,
 * so that tests can see what was asked for and when. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/world.h"

int world_update_begin(struct world *w, uint64_t box_id, struct err *err)
{
    struct world_box *box = world_find(w, box_id);

    if (box == NULL)
        return err_set(err, SP_NOT_FOUND, "no such box");
    if (box->updates == NULL)
        box->updates = xcalloc(1, sizeof(*box->updates));
    if (box->updates->is_running)
        return err_set(err, SP_BACKEND_FAILED, "the box is being changed already");
    box->updates->is_running = true;
    return SP_OK;
}

void world_update_end(struct world *w, uint64_t box_id, const char *text)
{
    struct world_box *box = world_find(w, box_id);
    struct world_updates *u = box != NULL ? box->updates : NULL;

    if (u == NULL)
        return;
    u->is_running = false;
    if (text == NULL)
        return;
    if (u->count == WORLD_UPDATES_MAX) {
        free(u->texts[0]);
        u->count--;
        memmove(&u->texts[0], &u->texts[1], u->count * sizeof(u->texts[0]));
    }
    u->texts[u->count++] = xstrdup(text);
}

void world_updates_free(struct world_updates *u)
{
    if (u == NULL)
        return;
    for (unsigned i = 0; i < u->count; i++)
        free(u->texts[i]);
    free(u);
}
