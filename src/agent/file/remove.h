/* remove.h - removes a tree. Links are removed, never followed, and every name is removed from the directory it was
 * found in, so that a tree that is changed meanwhile leads nowhere else. It blocks. */
#ifndef AGENT_FILE_REMOVE_H
#define AGENT_FILE_REMOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/file/wire.h"

struct file_remove {
    struct file_wire *wire; /* ends it when nobody waits for it */
    uint64_t removed;
    char path[2 * FILE_PATH_MAX]; /* in: of what is removed; out: what could not be */
};

/* The file, link or directory `name` in `dir`; a directory that is not empty only with `is_recursive`. 0, errno or -1
 * when nobody waits for it. */
MUST_CHECK int file_remove_run(struct file_remove *r, int dir, const char *name, bool is_recursive);

#endif
