/* watch_nodes.h - the directories that are watched. Each knows the one above it and its name there, so that one that
 * is renamed changes in one place, and the paths of all below follow. */
#ifndef AGENT_FILE_WATCH_NODES_H
#define AGENT_FILE_WATCH_NODES_H

#include <limits.h>

#include "base/list.h"
#include "base/map.h"

struct watch_node {
    struct map_node by_wd;
    struct list_node sibling; /* parent->children */
    struct list children;
    struct watch_node *parent; /* NULL: the root */
    int wd;
    char name[NAME_MAX + 1];
};

struct watch_nodes {
    struct map by_wd;
    struct watch_node *root; /* NULL: none */
};

void watch_nodes_init(struct watch_nodes *t, size_t expected);
/* Drops all. */
void watch_nodes_fini(struct watch_nodes *t);

/* `parent` NULL: the root. */
struct watch_node *watch_nodes_add(struct watch_nodes *t, struct watch_node *parent,
                                   const char *name, int wd);
struct watch_node *watch_nodes_find(const struct watch_nodes *t, int wd);
struct watch_node *watch_nodes_child(const struct watch_node *parent, const char *name);
/* Not the root, and not to a place below itself: then nothing changes. */
void watch_nodes_move(struct watch_node *node, struct watch_node *parent, const char *name);
/* With all below it, these first. `on_drop` is called for each. */
void watch_nodes_drop(struct watch_nodes *t, struct watch_node *top,
                      void (*on_drop)(void *ctx, const struct watch_node *node), void *ctx);
/* The path of a name in a directory ("": of the directory itself), below `root_path`. False when it does not fit. */
MUST_CHECK bool watch_nodes_path(const struct watch_node *dir, const char *root_path,
                                 const char *name, char *dst, size_t cap);

#endif
