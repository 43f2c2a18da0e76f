/* tree.h - everything below a directory, for calls that have no deadline (walk.h is for those that have one). Links
 * are shown and never followed; each directory is opened from the one above it, so that a tree that is changed
 * meanwhile leads nowhere else. It blocks. */
#ifndef AGENT_FILE_TREE_H
#define AGENT_FILE_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/file/error.h"

enum { FILE_TREE_DEPTH = 128 };

enum file_tree_next { FILE_TREE_ON, FILE_TREE_PRUNE, FILE_TREE_STOP, FILE_TREE_NEXT_COUNT };

struct file_node {
    int dir;          /* that it is in */
    unsigned depth;   /* 1: directly in the root */
    const char *name; /* in `dir` */
    const char *rel;  /* from the root */
    const char *full; /* with the path of the root */
    struct stat st;   /* of the link, if it is one */
};

struct file_tree {
    unsigned max_depth; /* 0: as far as it goes */
    bool is_strict;     /* a directory that cannot be read, or is too deep, is an error */
    enum file_tree_next (*visit)(void *ctx, const struct file_node *node);
    /* All of the directory that was visited at this depth was shown. May be NULL. */
    void (*leave)(void *ctx, unsigned depth);
    void *ctx;
    /* Filled by the run. */
    uint64_t unreadable;
    bool
        is_cut; /* there is something deeper than FILE_TREE_DEPTH, or with a longer path than FILE_PATH_MAX */
    char path[2 * FILE_PATH_MAX]; /* of the last node: of the error */
};

/* `dir` is open for reading, and closed by this; `path` is its name. 0 (also when it was stopped) or errno. */
MUST_CHECK int file_tree_run(struct file_tree *t, int dir, const char *path);

#endif
