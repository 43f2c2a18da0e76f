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
static int open_parent(int base, char *path, char *name, bool want_parents)
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
    return dir >= 0 || errno != ENOENT || !want_parents ? dir : make_missing(base, path);
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
        int dir = open_parent(base >= 0 ? base : AT_FDCWD, text, ret->name, true);
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

int file_place_name(struct file_place *ret, const char *path, bool want_parents)
{
    char text[FILE_PATH_MAX];
    size_t len = strlen(path);

    ret->dir = -1;
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (!str_copy_n(text, sizeof(text), path, len))
        return ENAMETOOLONG;
    ret->dir = open_parent(AT_FDCWD, text, ret->name, want_parents);
    if (ret->dir < 0)
        return errno;
    if (!is_dots(ret->name))
        return 0;
    file_place_close(ret);
    return EINVAL;
}

int file_place_make(const char *path)
{
    AUTO_CLOSE int dir = -1;
    char text[FILE_PATH_MAX];

    if (!str_copy(text, sizeof(text), path))
        return ENAMETOOLONG;
    dir = make_missing(AT_FDCWD, text);
    return dir >= 0 ? 0 : errno;
}

void file_place_close(struct file_place *p)
{
    if (p->dir >= 0)
        (void) close(TAKE_FD(p->dir)); /* it was only named */
}
