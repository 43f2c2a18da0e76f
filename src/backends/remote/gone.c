/* gone.c - boxes that were deleted a short while ago, under names that may be used again. A provisioner may
 * forget a box while its Pod still ends, and then make the same name lead to that Pod again; so what
 * such a name leads to must prove that it is another. The store has them, too: each is written in the
 * transaction that removes the box's row (remote_may_return()), and at a start they are recalled. A box
 * whose row says `deleting` then is deleted again, and a create of its name waits for that. */
#include <stdlib.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/life.h"

enum { GONE_MAX = 4096 }; /* then the oldest is forgotten */

#define GONE_NS (300 * NS_PER_S) /* far longer than a Pod takes to end */

static bool has_name(const struct map_node *node, const void *key)
{
    return strcmp(container_of(node, const struct remote_gone, node)->name, key) == 0;
}

static void drop(struct remote *r, struct remote_gone *g)
{
    map_remove(&r->gone, &g->node);
    list_remove(&r->gone_list, &g->link);
    free(g);
}

static struct remote_gone *find(struct remote *r, const char *name)
{
    struct map_node *n = map_find(&r->gone, hash_str(name), has_name, name);

    return n != NULL ? container_of(n, struct remote_gone, node) : NULL;
}

/* The list is in the order in which they end. */
static void drop_old(struct remote *r)
{
    while (!list_is_empty(&r->gone_list)) {
        struct remote_gone *g = container_of(list_first(&r->gone_list), struct remote_gone, link);

        if (r->gone_list.len < GONE_MAX && g->until_ns > rt_now(&r->loop->rt))
            return;
        drop(r, g);
    }
}

void remote_gone_init(struct remote *r)
{
    list_init(&r->gone_list);
    map_init(&r->gone, GONE_MAX / 4);
}

void remote_gone_fini(struct remote *r)
{
    while (!list_is_empty(&r->gone_list))
        drop(r, container_of(list_first(&r->gone_list), struct remote_gone, link));
    map_fini(&r->gone);
}

static void note(struct remote *r, const char *name, const char *uid, const char *life,
                 uint64_t ago_ns)
{
    struct remote_gone *g;
    uint64_t id;

    if (remote_name_is_ours(r, name, &id)) /* never used again */
        return;
    if (str_is_empty(uid) && str_is_empty(life)) /* nothing to recognize it by */
        return;
    remote_gone_forget(r, name);
    drop_old(r);
    g = xcalloc(1, sizeof(*g));
    str_copy_cut(g->name, sizeof(g->name), name);
    str_copy_cut(g->uid, sizeof(g->uid), uid);
    str_copy_cut(g->life, sizeof(g->life), life);
    g->until_ns = rt_after(rt_now(&r->loop->rt), GONE_NS - ago_ns);
    map_insert(&r->gone, &g->node, hash_str(g->name));
    list_push_back(&r->gone_list, &g->link);
}

void remote_gone_note(struct remote *r, const struct remote_box *b)
{
    note(r, b->name, b->uid, b->box.life, 0);
}

bool remote_may_return(const char *ref)
{
    char name[REMOTE_NAME_MAX + 1];
    char uid[REMOTE_UID_MAX + 1];

    return remote_read_ref(ref, name, uid) && !remote_name_is_blank(name);
}

void remote_recall(struct backend *backend, const char *ref, const char *life, uint64_t ago_ns)
{
    char name[REMOTE_NAME_MAX + 1];
    char uid[REMOTE_UID_MAX + 1];

    if (ago_ns < GONE_NS && remote_read_ref(ref, name, uid))
        note(remote_of(backend), name, uid, life, ago_ns);
}

void remote_gone_forget(struct remote *r, const char *name)
{
    struct remote_gone *g = find(r, name);

    if (g != NULL)
        drop(r, g);
}

const struct remote_gone *remote_gone_find(struct remote *r, const char *name)
{
    const struct remote_gone *g = find(r, name);

    return g != NULL && g->until_ns > rt_now(&r->loop->rt) ? g : NULL;
}

bool remote_is_gone(struct backend *backend, const char *ref, const char *life)
{
    char name[REMOTE_NAME_MAX + 1];
    char uid[REMOTE_UID_MAX + 1];
    const struct remote_gone *g = NULL;

    if (remote_read_ref(ref, name, uid))
        g = remote_gone_find(remote_of(backend), name);
    if (g != NULL && !str_is_empty(g->uid) && !str_is_empty(uid))
        return strcmp(g->uid, uid) == 0; /* whatever has started in it since */
    return g != NULL && !life_is_other(g->life, life);
}
