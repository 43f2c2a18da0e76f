/* store.h - writes files. A file that is replaced is never seen half written: the new one is made
 * beside it and renamed. Directories are held open, so that the file that was checked is the one
 * that is changed. For helpers: all of it blocks. */
#ifndef AGENT_FILE_STORE_H
#define AGENT_FILE_STORE_H

#include "agent/file/place.h"

enum { FILE_TEMP_NAME = 32 };

/* Whether a name has the form of those that this agent gives to what it is about to rename or to remove. */
MUST_CHECK bool file_is_temp_name(const char *name);

struct file_store {
    struct file_place target;  /* where it ends up, links followed; no dir: loose */
    int temp_dir;              /* where it is until then, with */
    char temp[FILE_TEMP_NAME]; /* this name; "": in place */
    int fd;
    bool is_new; /* nothing had its name */
};

/* Opens a file to append to it; it and the directories above are made. -1 and errno. */
int file_open_append(const char *path);

/* Nothing is open: file_store_drop() is harmless. The functions that open begin with this. */
void file_store_init(struct file_store *s);
/* Opens a new file that will replace `path`; parents are made. Mode and owner of a file that is
 * there are kept. Where no file can be made or renamed (a directory that cannot be written, a file
 * with other names, a mount point), it is written in place. 0 or errno. */
int file_store_open(struct file_store *s, const char *path);
/* The same for a name in an open directory, which is not followed if it is a link (ENOTSUP). */
int file_store_open_at(struct file_store *s, int dir, const char *name);
/* The same with a file in `dir` that has no target yet. */
int file_store_open_loose(struct file_store *s, const char *dir);
/* Puts the file in place. 0 or errno; closed either way. */
int file_store_commit(struct file_store *s);
/* The same for a loose file: to `path`, copied when that is on another file system. */
int file_store_commit_to(struct file_store *s, const char *path);
/* Replaces `path` by these bytes, from the opening to the commit. 0 or errno. */
int file_store_put(const char *path, const char *data, size_t len);
/* Appends these bytes to `path`, which is made. One write() with O_APPEND: two callers that append at once
 * never lose or mix their texts. 0 or errno. */
int file_append(const char *path, const char *data, size_t len);
/* Closes and removes what was not committed; harmless after a commit. */
void file_store_drop(struct file_store *s);

#endif
