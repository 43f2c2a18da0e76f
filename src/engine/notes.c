/* notes.c - metadata, what a box is to be made with, clean-up reports: what belongs to a box but means
 * nothing to the pool. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

static bool is_box(const struct map_node *node, const void *key)
{
    const struct box_id *id = key;

    return container_of(node, struct engine_note, node)->box.v == id->v;
}

struct engine_note *note_find(const struct engine *e, struct box_id box)
{
    struct map_node *n = map_find(&e->notes, hash_u64(box.v), is_box, &box);

    return n != NULL ? container_of(n, struct engine_note, node) : NULL;
}

struct engine_note *note_make(struct engine *e, struct box_id box)
{
    struct engine_note *note = note_find(e, box);

    if (note == NULL) {
        note = xcalloc(1, sizeof(*note));
        note->box = box;
        map_insert(&e->notes, &note->node, hash_u64(box.v));
        list_push_back(&e->note_list, &note->link);
    }
    return note;
}

void note_drop(struct engine *e, struct box_id box)
{
    struct engine_note *note = note_find(e, box);

    holder_drop(e, box);
    if (note == NULL)
        return;
    map_remove(&e->notes, &note->node);
    list_remove(&e->note_list, &note->link);
    free(note->metadata);
    free(note->extras);
    free(note);
}

void note_set_metadata(struct engine *e, const struct pool_box *box, const char *metadata)
{
    struct engine_note *note = note_make(e, box->id);

    free(note->metadata);
    note->metadata = xstrdup(metadata);
    note->generation = box->generation;
    str_copy_cut(note->sandbox_id, sizeof(note->sandbox_id), box->sandbox_id);
}

void note_drop_stale(struct engine *e, const struct pool_box *box)
{
    struct engine_note *note = note_find(e, box->id);

    if (note != NULL &&
        (note->generation != box->generation || strcmp(note->sandbox_id, box->sandbox_id) != 0))
        free(TAKE_PTR(note->metadata));
}

void notes_fini(struct engine *e)
{
    while (!list_is_empty(&e->note_list))
        note_drop(e, container_of(list_first(&e->note_list), struct engine_note, link)->box);
    map_fini(&e->notes);
}

const char *engine_metadata(const struct engine *e, struct box_id box)
{
    const struct engine_note *note = note_find(e, box);

    return note != NULL ? note->metadata : NULL;
}
