/* tar_tree.h - files of a box as entries of a tar archive, one after the other. */
#ifndef HELPER_TAR_TREE_H
#define HELPER_TAR_TREE_H

#include "base/buf.h"
#include "helper/merge.h"

struct tar_tree {
    /* Where the bytes go. */
    int (*put)(void *ctx, const void *data, size_t len, struct err *err);
    void *ctx;
    const char *prefix; /* of all names; "": none, and the top has no entry */
    bool
        is_image; /* marks are those of layers of OCI images, not those of base/bundle.h; files have no holes there */
    const char *left_out; /* a directory of the top that is not wanted; NULL: none */
    uint64_t file_max;    /* of one file with its holes; 0: any */
    /* Its own. */
    struct buf text;
    struct buf records;
};

void tar_tree_init(struct tar_tree *t);
void tar_tree_fini(struct tar_tree *t);
/* For merge_layers(), with the tar_tree as its ctx. Sockets are left out: nobody listens on them any more. */
MUST_CHECK int tar_tree_item(void *ctx, const struct merge_item *item, struct err *err);
/* Nothing is behind what a directory has. */
MUST_CHECK int tar_tree_leave(void *ctx, const struct merge_item *item, struct err *err);

#endif
