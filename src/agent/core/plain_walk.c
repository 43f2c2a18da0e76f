/* plain_walk.c - follows a path part by part. Links are read and followed here, by their text. So a
 * magic link of the kernel, which leads elsewhere than its text says, is never followed. */
#include "agent/core/plain_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { LINKS_MAX = 40 };

struct walk {
    int at;              /* the directory that was reached */
    char todo[PATH_MAX]; /* from there */
    char part[NAME_MAX + 1];
    bool is_last; /* nothing comes behind the part */
};

static bool go(struct walk *w, const char *name)
{
    int next = openat(w->at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (next < 0)
        return false;
    (void) close(w->at);
    w->at = next;
    return true;
}

/* Takes the next part from the path; false and errno if it is too long. At the end it is ".". */
static bool take_part(struct walk *w)
{
    const char *start = w->todo + strspn(w->todo, "/");
    size_t len = strcspn(start, "/");
    const char *rest = start + len + strspn(start + len, "/");

    w->is_last = *rest == '\0';
    if (!str_copy_n(w->part, sizeof(w->part), len > 0 ? start : ".", len > 0 ? len : 1)) {
        errno = ENAMETOOLONG;
        return false;
    }
    memmove(w->todo, rest, strlen(rest) + 1);
    return true;
}

/* The target of the link is put before the rest. */
static bool follow(struct walk *w, const char *link)
{
    char rest[PATH_MAX];

    str_copy_cut(rest, sizeof(rest), w->todo);
    if ((size_t) snprintf(w->todo, sizeof(w->todo), "%s/%s", link, rest) >= sizeof(w->todo)) {
        errno = ENAMETOOLONG;
        return false;
    }
    return link[0] != '/' || go(w, "/");
}

static int walk(struct walk *w, int flags, mode_t mode, bool (*is_process)(int fd))
{
    for (int links = 0; links < LINKS_MAX;) {
        char link[PATH_MAX];
        ssize_t n = -1;

        if (!take_part(w))
            return -1;
        if (!w->is_last || (flags & O_NOFOLLOW) == 0)
            n = readlinkat(w->at, w->part, link, sizeof(link) - 1);
        if (n > 0 && is_process(w->at)) {
            errno = EPERM;
            return -1;
        }
        if (n > 0) {
            link[n] = '\0';
            links++;
            if (!follow(w, link))
                return -1;
        } else if (w->is_last) {
            return openat(w->at, w->part, flags | O_NOFOLLOW, mode);
        } else if (!go(w, w->part)) {
            return -1;
        }
    }
    errno = ELOOP;
    return -1;
}

int plain_walk_open(int dir, const char *path, int flags, mode_t mode, bool (*is_process)(int fd))
{
    struct walk w = {.at =
                         openat(dir, path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    int fd = -1;
    int sys;

    if (w.at < 0)
        return -1;
    if (path[0] == '\0')
        errno = ENOENT;
    else if (!str_copy(w.todo, sizeof(w.todo), path))
        errno = ENAMETOOLONG;
    else
        fd = walk(&w, flags, mode, is_process);
    sys = errno;
    (void) close(w.at);
    errno = sys;
    return fd;
}
