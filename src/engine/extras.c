/* extras.c - metadata, what a box is to be made with, clean-up reports: what belongs to a box but means
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

    return container_of(node, struct engine_extra, node)->box.v == id->v;
}

struct engine_extra *extra_find(const struct engine *e, struct box_id box)
{
    struct map_node *n = map_find(&e->extras, hash_u64(box.v), is_box, &box);

    return n != NULL ? container_of(n, struct engine_extra, node) : NULL;
}

struct engine_extra *extra_make(struct engine *e, struct box_id box)
{
    struct engine_extra *x = extra_find(e, box);

    if (x == NULL) {
        x = xcalloc(1, sizeof(*x));
        x->box = box;
        map_insert(&e->extras, &x->node, hash_u64(box.v));
        list_push_back(&e->extra_list, &x->link);
    }
    return x;
}

void extra_drop(struct engine *e, struct box_id box)
{
    struct engine_extra *x = extra_find(e, box);

    if (x == NULL)
        return;
    map_remove(&e->extras, &x->node);
    list_remove(&e->extra_list, &x->link);
    free(x->metadata);
    free(x->extras);
    free(x);
}

void extra_set_metadata(struct engine *e, const struct pool_box *box, const char *metadata)
{
    struct engine_extra *x = extra_make(e, box->id);

    free(x->metadata);
    x->metadata = xstrdup(metadata);
    x->generation = box->generation;
    str_copy_cut(x->sandbox_id, sizeof(x->sandbox_id), box->sandbox_id);
}

void extra_drop_stale(struct engine *e, const struct pool_box *box)
{
    struct engine_extra *x = extra_find(e, box->id);

    if (x != NULL &&
        (x->generation != box->generation || strcmp(x->sandbox_id, box->sandbox_id) != 0))
        free(TAKE_PTR(x->metadata));
}

void extras_fini(struct engine *e)
{
    while (!list_is_empty(&e->extra_list))
        extra_drop(e, container_of(list_first(&e->extra_list), struct engine_extra, link)->box);
    map_fini(&e->extras);
}

const char *engine_metadata(const struct engine *e, struct box_id box)
{
    const struct engine_extra *x = extra_find(e, box);

    return x != NULL ? x->metadata : NULL;
}

const char *engine_destroy_report(const struct engine *e, struct box_id box)
{
    const struct engine_extra *x = extra_find(e, box);

    return x != NULL ? x->report : "";
}
