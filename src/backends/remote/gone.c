/* gone.c - boxes that were deleted a short while ago, under names that may be used again. A provisioner may
 * forget a box while its Pod still ends, and then make the same name lead to that Pod again; so what
 * such a name leads to must prove that it is another. After a restart of the daemon nothing is known
 * here: a Pod that was deleted just before it is then noticed only when it stops answering. */
#include <stdlib.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/mem.h"
#include "base/str.h"

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

void remote_gone_note(struct remote *r, const struct remote_box *b)
{
    struct remote_gone *g;
    uint64_t id;

    if (remote_name_is_ours(r, b->name, &id)) /* never used again */
        return;
    if (str_is_empty(b->uid) && str_is_empty(b->box.life)) /* nothing to recognize it by */
        return;
    remote_gone_forget(r, b->name);
    drop_old(r);
    g = xcalloc(1, sizeof(*g));
    str_copy_cut(g->name, sizeof(g->name), b->name);
    str_copy_cut(g->uid, sizeof(g->uid), b->uid);
    str_copy_cut(g->life, sizeof(g->life), b->box.life);
    g->until_ns = rt_after(rt_now(&r->loop->rt), GONE_NS);
    map_insert(&r->gone, &g->node, hash_str(g->name));
    list_push_back(&r->gone_list, &g->link);
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
