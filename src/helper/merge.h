/* merge.h - the layers of a snapshot as one: what a box that lies on all of them would find above its base. Nothing in them is
 * trusted: a box has written it. */
#ifndef HELPER_MERGE_H
#define HELPER_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

enum { MERGE_PATH_MAX = 4095, MERGE_DEPTH_MAX = 256, MERGE_IDS = 65536 };

struct merge_layer {
    int fd; /* its top directory */
    uint32_t id_base;
    bool is_raw;  /* owners are those of this machine, and stay so; id_base is 0 */
    bool is_base; /* boxes are built on it: devices in it are left out */
    bool
        is_host; /* and it is the machine's own: what not everybody may read is left out, and so are rights by mode */
};

struct merge_item {
    const char *path; /* below the top: "a/b"; "": the top itself */
    int dir;          /* the item is `name` in this directory of its layer */
    const char *name;
    struct stat st;   /* owners as in the box */
    uint32_t id_base; /* of its layer */
    bool is_host;     /* as of its layer */
    bool is_whiteout; /* what is below has nothing of this name any more */
    bool is_opaque;   /* a directory of which nothing is seen that is below */
    const char *link; /* an item that came before and is the same file; NULL: none */
};

struct merge_sink {
    /* A directory comes before what is in it, and once more by leave() after that. */
    int (*put)(void *ctx, const struct merge_item *item, struct err *err);
    int (*leave)(void *ctx, const struct merge_item *item, struct err *err);
    void *ctx;
};

/* `layers`: the last one first. SP_UNSUPPORTED: something in them cannot be merged. */
MUST_CHECK int merge_layers(const struct merge_layer *layers, size_t count,
                            const struct merge_sink *sink, struct err *err);

#endif
