/* place.c - from a path to a directory and a name in it. Each step is opened by plain.h, so that no
 * magic link of the kernel is followed; a link at the end is followed here, by its text. */
#include "agent/file/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "base/cleanup.h"
#include "base/str.h"

enum { LINKS_MAX = 40 };

/* Makes the missing parts of `path`, one by one. -1 and errno. */
static int make_missing(int base, char *path)
{
    AUTO_CLOSE int dir = plain_open(path[0] == '/' ? AT_FDCWD : base, path[0] == '/' ? "/" : ".",
                                    O_PATH | O_DIRECTORY, 0);
    char *rest = NULL;

    for (char *part = strtok_r(path, "/", &rest); part != NULL && dir >= 0;
         part = strtok_r(NULL, "/", &rest)) {
        int next = plain_open(dir, part, O_PATH | O_DIRECTORY, 0);

        if (next < 0 && errno == ENOENT && (mkdirat(dir, part, 0777) == 0 || errno == EEXIST))
            next = plain_open(dir, part, O_PATH | O_DIRECTORY, 0);
        (void) close(dir);
        dir = next;
    }
    return TAKE_FD(dir);
}

/* The directory of `path`, which starts in `base`. The name is cut off. -1 and errno. */
static int open_parent(int base, char *path, char *name)
{
    char *slash = strrchr(path, '/');
    int dir;

    if (!str_copy(name, FILE_NAME_MAX, slash != NULL ? slash + 1 : path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (slash == NULL)
        return plain_open(base, ".", O_PATH | O_DIRECTORY, 0);
    slash[slash == path ? 1 : 0] = '\0';
    dir = plain_open(base, path, O_PATH | O_DIRECTORY, 0);
    return dir >= 0 || errno != ENOENT ? dir : make_missing(base, path);
}

static bool is_dots(const char *name)
{
    return name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int file_place_find(struct file_place *ret, const char *path)
{
    AUTO_CLOSE int base = -1;
    char text[FILE_PATH_MAX];

    ret->dir = -1;
    if (!str_copy(text, sizeof(text), path))
        return ENAMETOOLONG;
    for (int i = 0; i < LINKS_MAX; i++) {
        int dir = open_parent(base >= 0 ? base : AT_FDCWD, text, ret->name);
        ssize_t n;

        if (dir < 0)
            return errno;
        if (is_dots(ret->name)) {
            (void) close(dir);
            return EISDIR;
        }
        n = readlinkat(dir, ret->name, text, sizeof(text) - 1);
        if (n <= 0) {
            ret->dir = dir; /* no link, or nothing there */
            return 0;
        }
        text[n] = '\0';
        if (base >= 0)
            (void) close(base);
        base = dir; /* where a relative link begins */
    }
    return ELOOP;
}

void file_place_close(struct file_place *p)
{
    if (p->dir >= 0)
        (void) close(TAKE_FD(p->dir)); /* it was only named */
}
