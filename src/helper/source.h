/* source.h - directories and files of the host that a box may see. */
#ifndef HELPER_SOURCE_H
#define HELPER_SOURCE_H

#include "helper/plan_read.h"

struct source {
    int tree; /* detached mount, ready for move_mount() */
    bool is_dir;
    bool is_mapped; /* its owner stands for the box's user */
    uint64_t dev;
    uint64_t ino;
};

/* What a profile or a caller asks for, p->mounts, into as many; to be closed one by one, also after a
 * failure. Only below one of p->allow, after all symlinks. The mount itself only, not what is mounted
 * below. Its owner becomes the box's user, where the kernel and its file system can do that;
 * *ret_unmapped counts the others. */
MUST_CHECK int source_open_all(const struct plan *p, struct source *ret, unsigned *ret_unmapped,
                               struct err *err);
/* For what the daemon itself asks for: owners as they are, with all that is mounted below. */
MUST_CHECK int source_open_own(const struct plan_mount *m, struct source *ret, struct err *err);
void source_close(struct source *s);

#endif
