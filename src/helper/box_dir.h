/* box_dir.h - the directory of a box: its lock, its small files. */
#ifndef HELPER_BOX_DIR_H
#define HELPER_BOX_DIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct box_dir {
    int fd;
    int lock; /* -1: not held by us */
};

/* The directory, made if need be, with its lock held. SP_LOCKED when somebody else holds it.
 * *ret_is_leftover: it was there before, and nobody had it. */
MUST_CHECK int box_dir_make(const char *path, struct box_dir *ret, bool *ret_is_leftover,
                            struct err *err);
/* SP_NOT_FOUND when there is none. The lock is not taken. */
MUST_CHECK int box_dir_open(const char *path, struct box_dir *ret, struct err *err);
/* SP_LOCKED when it is still held by another after `wait_ms`; SP_NOT_FOUND when the directory has
 * been removed. */
MUST_CHECK int box_dir_lock(struct box_dir *d, unsigned wait_ms, struct err *err);
void box_dir_unlock(struct box_dir *d);
void box_dir_close(struct box_dir *d);

/* A new file, mode 0600; it must not exist. */
MUST_CHECK int box_dir_write(const struct box_dir *d, const char *name, const char *text,
                             struct err *err);
/* The first two numbers in a file; 0 for what is not there. */
void box_dir_numbers(const struct box_dir *d, const char *name, unsigned long long ret[2]);

#endif
