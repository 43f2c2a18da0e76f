/* dirs.c - makes directories for the box's user where only root can make them. */
#include "agent/file/dirs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "base/cleanup.h"
#include "base/str.h"

/* A new one belongs to the user. An existing one of root's on the same file system as its parent is
 * given to the user, too: it was made as a mount point. Mounted ones, and those of other owners,
 * are left unchanged. */
static int give(int at, int above, bool is_made, const struct identity *user)
{
    struct stat st;
    struct stat up;

    if (fstat(at, &st) != 0 || fstat(above, &up) != 0)
        return errno;
    if (!is_made && (st.st_uid != 0 || st.st_dev != up.st_dev))
        return 0;
    return fchown(at, user->uid, user->gid) == 0 ? 0 : errno;
}

int file_make_dirs(const char *path, const struct identity *user)
{
    AUTO_CLOSE int at = plain_open(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0);
    char part[256];

    while (at >= 0 && *path == '/') {
        size_t len = strcspn(++path, "/");
        bool is_made;
        int next;
        int sys;

        if (!str_copy_n(part, sizeof(part), path, len))
            return ENAMETOOLONG;
        path += len;
        is_made = mkdirat(at, part, 0755) == 0;
        if (!is_made && errno != EEXIST)
            return errno;
        next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return errno;
        sys = *path == '\0' ? give(next, at, is_made, user) : 0;
        (void) close(at); /* only read */
        at = next;
        if (sys != 0)
            return sys;
    }
    return at >= 0 ? 0 : errno;
}
