/* alone.c - an overlay marks a directory that is made where one was removed: what the lower layer has by that
 * name is not looked for any more. Nothing of the box runs yet. */
#include "helper/alone.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "helper/inside.h"
#include "helper/plan_read.h"

enum { FILES_MAX = 32, FILE_SIZE_MAX = 64 * 1024 }; /* they are copied for each box */

#define NEW_NAME ".sandpool-new"

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_small(int dir, const char *name)
{
    struct stat st;

    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) && st.st_nlink == 1 &&
           st.st_size <= FILE_SIZE_MAX;
}

/* How many there are; -1: too many, or others than small files. */
static int count_files(DIR *d)
{
    const struct dirent *e;
    int count = 0;

    errno = 0;
    while ((e = readdir(d)) != NULL) {
        if (is_dots(e->d_name))
            continue;
        if (count == FILES_MAX || !is_small(dirfd(d), e->d_name))
            return -1;
        count++;
    }
    return errno == 0 ? count : -1;
}

static int move_files(DIR *d, int to, struct err *err)
{
    char names[FILES_MAX][NAME_MAX + 1];
    const struct dirent *e;
    size_t count = 0;

    rewinddir(d);
    while (count < FILES_MAX && (e = readdir(d)) != NULL)
        if (!is_dots(e->d_name))
            str_copy_cut(names[count++], sizeof(names[0]), e->d_name);
    for (size_t i = 0; i < count; i++)
        if (renameat(dirfd(d), names[i], to, names[i]) != 0)
            return err_sys(err, SP_IO, errno, "move '%.100s' in the box", names[i]);
    return SP_OK;
}

static int replace(int parent, const char *name, DIR *d, struct err *err)
{
    AUTO_CLOSE int new_dir = -1;
    int rc;

    if (mkdirat(parent, NEW_NAME, 0755) != 0)
        return SP_OK; /* it stays what it is */
    new_dir = openat(parent, NEW_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (new_dir < 0)
        return err_sys(err, SP_IO, errno, "make '%.100s' in the box", name);
    if ((rc = move_files(d, new_dir, err)) != SP_OK)
        return rc;
    if (unlinkat(parent, name, AT_REMOVEDIR) != 0 || renameat(parent, NEW_NAME, parent, name) != 0)
        return err_sys(err, SP_IO, errno, "replace '%.100s' in the box", name);
    return SP_OK;
}

/* NULL: it is not there, or no directory. */
static DIR *open_dir(int parent, const char *name)
{
    AUTO_CLOSE int fd =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    if (d != NULL)
        (void) TAKE_FD(fd);
    return d;
}

int alone_make(int root, const char *path, struct err *err)
{
    char above[PLAN_PATH_MAX + 1];
    const char *slash = strrchr(path, '/');
    AUTO_CLOSE int parent = -1;
    int rc = SP_OK;
    DIR *d;

    if (slash == NULL || slash[1] == '\0' ||
        !str_copy_n(above, sizeof(above), path, (size_t) (slash - path)))
        return SP_OK;
    parent = inside_open(root, above[0] != '\0' ? above : "/", O_DIRECTORY,
                         RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    d = parent >= 0 ? open_dir(parent, slash + 1) : NULL;
    if (d == NULL)
        return SP_OK; /* it will be made, or refused, by whoever needs it */
    if (count_files(d) >= 0)
        rc = replace(parent, slash + 1, d, err);
    (void) closedir(d); /* only read */
    return rc;
}
