/* tree_write.h - files of a box, made anew in a directory of ours, by paths that nobody vouches for: no link is followed and nothing
 * outside of the directory is reached. Owners and attributes are as in the box; they are shifted here. */
#ifndef HELPER_TREE_WRITE_H
#define HELPER_TREE_WRITE_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "helper/merge.h"

struct tree_writer {
    int top; /* the directory */
    uint32_t id_base;
    bool is_raw; /* owners are set as they come, not shifted */
    int parent;  /* of the path that was made last; -1: none */
    char parent_path[MERGE_PATH_MAX + 1];
};

/* The directory `top` stays the caller's. */
void tree_writer_init(struct tree_writer *w, int top, uint32_t id_base);
void tree_writer_fini(struct tree_writer *w);
/* Whether it can be made here: "a/b", no empty part, no "." and "..", neither too long nor too deep. */
bool tree_path_is_good(const char *path);
/* Whether something has this name already. */
bool tree_write_exists(struct tree_writer *w, const char *path);
/* "" is the top itself. A directory may be there already. */
MUST_CHECK int tree_write_dir(struct tree_writer *w, const char *path, const struct stat *st,
                              bool is_opaque, struct err *err);
/* *ret_fd is open for writing; owner and mode are set, times are not. */
MUST_CHECK int tree_write_file(struct tree_writer *w, const char *path, const struct stat *st,
                               int *ret_fd, struct err *err);
MUST_CHECK int tree_write_symlink(struct tree_writer *w, const char *path, const char *target,
                                  const struct stat *st, struct err *err);
/* One more name of a file made before. */
MUST_CHECK int tree_write_link(struct tree_writer *w, const char *path, const char *target,
                               struct err *err);
MUST_CHECK int tree_write_whiteout(struct tree_writer *w, const char *path, struct err *err);
/* A pipe or a socket. */
MUST_CHECK int tree_write_node(struct tree_writer *w, const char *path, const struct stat *st,
                               struct err *err);
MUST_CHECK int tree_write_attr(struct tree_writer *w, const char *path, const char *attr,
                               unsigned char *value, size_t len, struct err *err);
/* All attributes of `name` in `dir`, as they are: of a file with owners that are not shifted either. */
MUST_CHECK int tree_write_attrs_of(struct tree_writer *w, const char *path, int dir,
                                   const char *name, struct err *err);
/* The last thing of each: writing changes it. */
MUST_CHECK int tree_write_times(struct tree_writer *w, const char *path, const struct stat *st,
                                struct err *err);

#endif
