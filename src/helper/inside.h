/* inside.h - paths inside a box: every look-up is confined to the box's root, whatever symlinks
 * stand in the way. */
#ifndef HELPER_INSIDE_H
#define HELPER_INSIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* openat2() with O_PATH, tried again while the kernel is not sure of the way; -1 and errno. */
int inside_open(int dir, const char *path, uint64_t flags, uint64_t resolve);
/* A directory, made with its parents if need be; new ones belong to `owner`. O_PATH. */
MUST_CHECK int inside_dir(int root, const char *path, uint32_t owner, int *ret_fd, struct err *err);
/* What is to be mounted over: a directory or an empty file, as the thing to be mounted. O_PATH. */
MUST_CHECK int inside_target(int root, const char *path, bool is_dir, uint32_t owner, int *ret_fd,
                             struct err *err);
/* SP_NOT_FOUND when `target`, which was opened by the name `path`, is in one of the places that must not be covered: a
 * link may have led there. `fds` is the host's /proc/self/fd. */
MUST_CHECK int inside_is_free(int fds, int root, int target, const char *path, struct err *err);
/* A file with this text, mode 0644; what was there (a file, a symlink) is replaced. */
MUST_CHECK int inside_write(int root, const char *path, const char *text, uint32_t owner,
                            struct err *err);
/* A directory with this owner and mode; its parents belong to `root_owner`. */
MUST_CHECK int inside_own(int root, const char *path, uint32_t owner, mode_t mode,
                          uint32_t root_owner, struct err *err);

#endif
