/* place.h - a name in an open directory: what a path means at this moment. Later changes of the
 * path do not affect it. */
#ifndef AGENT_FILE_PLACE_H
#define AGENT_FILE_PLACE_H

#include "agent/file/error.h"

enum { FILE_NAME_MAX = 256 };

struct file_place {
    int dir;                  /* -1: none */
    char name[FILE_NAME_MAX]; /* exists there, or is to be made there; it is not a link */
};

/* Links are followed, also those at the end that lead to nothing yet; directories above are made. 0 or
 * errno. */
int file_place_find(struct file_place *ret, const char *path);
/* The same for the name itself: a link there is not followed. `want_parents`: directories above are made. EINVAL for a
 * path that ends with no name ("/", "a/.."). */
int file_place_name(struct file_place *ret, const char *path, bool want_parents);
/* Makes the directory with those above it, as far as they are missing. 0 or errno. */
int file_place_make(const char *path);
void file_place_close(struct file_place *p);

#endif
