/* files.h - files of a box, for programs that wait for them. Every call here blocks, and fails with SP_TIMEOUT when nothing moves
 * for two minutes.
 *
 * A path is absolute, or relative to the directory of commands; "~" is the home. The kernel of the box decides what is
 * allowed. Errors of files have their name in sp_failure.name: "file_not_found", "permission_denied", "is_directory",
 * "not_directory", "file_exists", "not_empty", "not_regular", "no_space". */
#ifndef SANDPOOL_FILES_H
#define SANDPOOL_FILES_H

#include "sandpool/box.h"

/* NULL instead of it: the defaults, which are 0 and NULL. */
struct sp_file_options {
    const char *user;  /* "root": the box's root */
    unsigned mode;     /* of what is written: 0640 */
    const char *owner; /* of what is written: "1000:1000" */
    /* Of sp_file_get(), sp_file_put(), sp_tree_get() and sp_tree_put(): so many bytes more have passed. */
    void (*on_progress)(void *ctx, size_t len);
    void *ctx;
};

enum sp_file_type { SP_FILE_REGULAR, SP_FILE_DIRECTORY, SP_FILE_OTHER, SP_FILE_TYPE_COUNT };

struct sp_file_stat {
    enum sp_file_type type;
    uint64_t size;
    unsigned mode;
    uint64_t uid;
    uint64_t gid;
};

/* The whole file, up to 64 MiB: from malloc, with a NUL behind it that is not counted. Larger ones: sp_file_get(). */
int sp_file_read(struct sp_box *b, const char *path, const struct sp_file_options *o,
                 char **ret_data, size_t *ret_len, struct sp_failure *failure);
/* Makes the file, or replaces it as a whole: readers see the old one or the new one. Directories above it are made. */
int sp_file_write(struct sp_box *b, const char *path, const struct sp_file_options *o,
                  const void *data, size_t len, struct sp_failure *failure);
/* The same from and to a descriptor, of any size. A part of it may have been written when sp_file_get() fails. */
int sp_file_get(struct sp_box *b, const char *path, const struct sp_file_options *o, int fd,
                struct sp_failure *failure);
int sp_file_put(struct sp_box *b, const char *path, const struct sp_file_options *o, int fd,
                struct sp_failure *failure);
/* A tree as a tar archive with names relative to `path`; unpacks one into a directory, which is made. */
int sp_tree_get(struct sp_box *b, const char *path, const struct sp_file_options *o, int fd,
                struct sp_failure *failure);
int sp_tree_put(struct sp_box *b, const char *path, const struct sp_file_options *o, int fd,
                struct sp_failure *failure);

/* Links are followed by both. */
int sp_file_exists(struct sp_box *b, const char *path, const struct sp_file_options *o, bool *ret,
                   struct sp_failure *failure);
int sp_file_stat(struct sp_box *b, const char *path, const struct sp_file_options *o,
                 struct sp_file_stat *ret, struct sp_failure *failure);
/* The answer of the API as it is, JSON with `entries`; the caller frees it. */
int sp_file_list(struct sp_box *b, const char *path, const struct sp_file_options *o,
                 bool is_recursive, char **ret_json, struct sp_failure *failure);
/* With the directories above it; one that is there is fine. */
int sp_file_make_directory(struct sp_box *b, const char *path, const struct sp_file_options *o,
                           struct sp_failure *failure);
int sp_file_remove(struct sp_box *b, const char *path, const struct sp_file_options *o,
                   bool is_recursive, struct sp_failure *failure);

#endif
