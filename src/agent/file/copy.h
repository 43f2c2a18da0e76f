/* copy.h - copies and moves files and trees. It blocks.
 *
 * A file is written beside its target and renamed (store.h). Links below `from` are copied as links; `from` itself is
 * followed by a copy, and not by a move. Modes are kept, owners and times are not. A tree is merged into a
 * directory that is there already. What is neither file, directory nor link is left out and counted. */
#ifndef AGENT_FILE_COPY_H
#define AGENT_FILE_COPY_H

#include "agent/file/wire.h"

struct file_copy {
    struct file_wire *wire; /* ends it when nobody waits for it */
    const char *from;       /* absolute */
    const char *to; /* the new name itself, not a directory that it goes to; parents are made */
    bool is_recursive;
    bool want_overwrite;
    uint64_t skipped;             /* filled */
    char path[2 * FILE_PATH_MAX]; /* of the error */
};

/* 0, errno or -1 when nobody waits for it. */
MUST_CHECK int file_copy_run(struct file_copy *c);
/* By a rename; between file systems by a copy, after which the original is removed. */
MUST_CHECK int file_move_run(struct file_copy *c);

#endif
