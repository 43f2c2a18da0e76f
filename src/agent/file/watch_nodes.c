/* watch_nodes.c - a tree of directories, and a way to them by inotify's numbers. */
#include "agent/file/watch_nodes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

void watch_nodes_init(struct watch_nodes *t, size_t expected)
{
    t->root = NULL;
    map_init(&t->by_wd, expected);
}

static void ignore(void *ctx, const struct watch_node *node)
{
    (void) ctx;
    (void) node;
}

void watch_nodes_fini(struct watch_nodes *t)
{
    if (t->root != NULL)
        watch_nodes_drop(t, t->root, ignore, NULL);
    map_fini(&t->by_wd);
}

static bool has_wd(const struct map_node *n, const void *key)
{
    return container_of(n, struct watch_node, by_wd)->wd == *(const int *) key;
}

struct watch_node *watch_nodes_find(const struct watch_nodes *t, int wd)
{
    struct map_node *n = map_find(&t->by_wd, hash_u64((uint64_t) wd), has_wd, &wd);

    return n != NULL ? container_of(n, struct watch_node, by_wd) : NULL;
}

struct watch_node *watch_nodes_child(const struct watch_node *parent, const char *name)
{
    for (struct list_node *n = list_first(&parent->children); n != NULL;
         n = list_next(&parent->children, n)) {
        struct watch_node *node = container_of(n, struct watch_node, sibling);

        if (strcmp(node->name, name) == 0)
            return node;
    }
    return NULL;
}

struct watch_node *watch_nodes_add(struct watch_nodes *t, struct watch_node *parent,
                                   const char *name, int wd)
{
    struct watch_node *node = xcalloc(1, sizeof(*node));

    node->wd = wd;
    node->parent = parent;
    list_init(&node->children);
    str_copy_cut(node->name, sizeof(node->name), name);
    if (parent != NULL)
        list_push_back(&parent->children, &node->sibling);
    else
        t->root = node;
    map_insert(&t->by_wd, &node->by_wd, hash_u64((uint64_t) wd));
    return node;
}

void watch_nodes_move(struct watch_node *node, struct watch_node *parent, const char *name)
{
    assert(parent != NULL);
    if (node->parent == NULL)
        return;
    for (const struct watch_node *up = parent; up != NULL; up = up->parent)
        if (up == node)
            return;
    list_remove(&node->parent->children, &node->sibling);
    node->parent = parent;
    list_push_back(&parent->children, &node->sibling);
    str_copy_cut(node->name, sizeof(node->name), name);
}

void watch_nodes_drop(struct watch_nodes *t, struct watch_node *top,
                      void (*on_drop)(void *ctx, const struct watch_node *node), void *ctx)
{
    struct watch_node *at = top;
    bool is_last = false;

    while (!is_last) {
        struct watch_node *parent = at->parent;

        if (at->children.len > 0) {
            at = container_of(list_first(&at->children), struct watch_node, sibling);
            continue;
        }
        is_last = at == top;
        assert(is_last || parent != NULL);
        on_drop(ctx, at);
        map_remove(&t->by_wd, &at->by_wd);
        if (parent != NULL)
            list_remove(&parent->children, &at->sibling);
        else
            t->root = NULL;
        free(at);
        at = parent;
    }
}

bool watch_nodes_path(const struct watch_node *dir, const char *root_path, const char *name,
                      char *dst, size_t cap)
{
    size_t root_len = strcmp(root_path, "/") == 0 ? 0 : strlen(root_path);
    size_t at = cap - 1;
    size_t len = strlen(name);

    /* From its end. */
    dst[at] = '\0';
    for (;;) {
        if (len > 0) {
            if (at < len + 1 + root_len)
                return false;
            at -= len + 1;
            dst[at] = '/';
            memcpy(dst + at + 1, name, len);
        }
        if (dir->parent == NULL)
            break;
        name = dir->name;
        len = strlen(name);
        dir = dir->parent;
    }
    at -= root_len;
    memcpy(dst + at, root_path, root_len);
    memmove(dst, dst + at, cap - at);
    if (dst[0] == '\0')
        return str_copy(dst, cap, "/");
    return true;
}
