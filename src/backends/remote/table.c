/* table.c - the boxes in memory: those this process has made, is making or is deleting. */
#include <stdlib.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/mem.h"
#include "base/str.h"

static struct remote_box *box_of(struct box_entry *e)
{
    return e != NULL ? container_of(e, struct remote_box, entry) : NULL;
}

struct remote_box *remote_box_find(struct remote *r, uint64_t id)
{
    return box_of(boxes_find(&r->boxes, id));
}

struct remote_box *remote_box_named(struct remote *r, const char *name)
{
    const struct list *l = &r->boxes.all;
    uint64_t id;

    if (remote_name_is_ours(r, name, &id))
        return remote_box_find(r, id);
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        struct remote_box *b = container_of(n, struct remote_box, entry.link);

        if (strcmp(b->name, name) == 0)
            return b;
    }
    return NULL;
}

struct remote_box *remote_box_add(struct remote *r, uint64_t id, const char *name,
                                  enum box_state state)
{
    struct remote_box *b = xcalloc(1, sizeof(*b));

    b->remote = r;
    str_copy_cut(b->name, sizeof(b->name), name);
    boxes_add(&r->boxes, &b->entry, id, state);
    return b;
}

void remote_box_drop(struct remote_box *b)
{
    boxes_drop(&b->entry);
    free(b);
}
