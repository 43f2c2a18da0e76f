/* tree.h - removing directory trees that somebody hostile may have made. */
#ifndef HELPER_TREE_H
#define HELPER_TREE_H

#include <stdint.h>

#include "base/err.h"

struct tree_count {
    uint64_t files; /* of any kind, directories too */
    uint64_t bytes; /* on disk */
};

/* Removes all that is in the directory but the names in `keep` (ends with NULL, may be NULL).
 * Symlinks are never followed and what is mounted below is not entered, which is an error. Goes on
 * after an error and returns the first one. */
MUST_CHECK int tree_empty(int dir_fd, const char *const *keep, struct tree_count *count,
                          struct err *err);
/* The same for a directory by path, and then the directory itself. Missing is fine. */
MUST_CHECK int tree_remove(const char *path, struct tree_count *count, struct err *err);

#endif
