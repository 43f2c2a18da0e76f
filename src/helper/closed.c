/* closed.c - whether what was opened for a mount belongs to what only some may have. Its parents are followed up to the
 * root, which no caller can influence: they show where it is, however it was named. */
#include "helper/closed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/inside.h"

enum { DEPTH_MAX = 4096 };

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* SP_OK: `want` was met; SP_FORBIDDEN: `stop` was, sooner; SP_NOT_FOUND: neither, up to the root. Either may be NULL. */
static int climb(int from, const struct stat *want, const struct stat *stop, struct err *err)
{
    AUTO_CLOSE int at = openat(from, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    struct stat above;

    for (int i = 0; i < DEPTH_MAX; i++) {
        int next;

        if (at < 0 || fstat(at, &st) != 0)
            return err_sys(err, SP_IO, errno, "look where it is");
        if (want != NULL && is_same(&st, want))
            return SP_OK;
        if (stop != NULL && is_same(&st, stop))
            return SP_FORBIDDEN;
        next = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (next < 0 || fstat(next, &above) != 0)
            return err_sys(err, SP_IO, errno, "look where it is");
        (void) close(at); /* only a place */
        at = next;
        if (is_same(&st, &above))
            return SP_NOT_FOUND;
    }
    return err_set(err, SP_IO, "it is too deep");
}

/* The directory that a file is in: the kernel knows its name, and that it is still there is checked. */
static int open_parent(int fd, const struct stat *st, int *ret_fd, struct err *err)
{
    AUTO_CLOSE int dir = -1;
    char name[PLAN_PATH_MAX + 1];
    char link[32];
    struct stat there;
    ssize_t len;
    char *slash;

    (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, name, sizeof(name) - 1);
    name[len < 0 ? 0 : len] = '\0';
    slash = strrchr(name, '/');
    if (slash == NULL)
        return err_set(err, SP_IO, "its directory is not known");
    *slash = '\0';
    dir = open(slash == name ? "/" : name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fstatat(dir, slash + 1, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
        !is_same(&there, st))
        return err_set(err, SP_NOT_FOUND, "it was moved meanwhile");
    *ret_fd = TAKE_FD(dir);
    return SP_OK;
}

/* What is the caller's own in it, if it is there: no link leads to it. */
static bool look_at_own(const struct plan_mount *m, const char *path, int closed, struct stat *ret)
{
    AUTO_CLOSE int fd = -1;

    if (m->own == NULL || strcmp(m->own, path) == 0 || !plan_path_is_below(m->own, path))
        return false;
    fd = inside_open(closed, m->own + strlen(path) + 1, O_NOFOLLOW,
                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    return fd >= 0 && fstat(fd, ret) == 0;
}

static int refuse(const struct plan_mount *m, struct err *err)
{
    return err_set(
        err, SP_FORBIDDEN,
        "'%.100s' is, or has in it, data of threads (provisioner.thread_data, or mounts of "
        "a profile) that are not this box's",
        m->from);
}

static int check_one(const struct plan_mount *m, const char *path, int fd, const struct stat *st,
                     struct err *err)
{
    AUTO_CLOSE int closed = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int parent = -1;
    struct stat closed_st;
    struct stat own;
    bool has_own;
    int rc = SP_OK;

    if (closed < 0 && (errno == ENOENT || errno == ENOTDIR))
        return SP_OK; /* there is nothing yet */
    if (closed < 0 || fstat(closed, &closed_st) != 0)
        return err_sys(err, SP_IO, errno, "open '%.120s'", path);
    has_own = look_at_own(m, path, closed, &own);
    if (has_own && is_same(&own, st))
        return SP_OK;
    if (!S_ISDIR(st->st_mode))
        rc = open_parent(fd, st, &parent, err);
    if (rc == SP_OK)
        rc = climb(parent >= 0 ? parent : fd, has_own ? &own : NULL, &closed_st, err);
    if (rc == SP_FORBIDDEN)
        return refuse(m, err);
    if (rc != SP_NOT_FOUND)
        return rc == SP_OK ? SP_OK : err_wrap(err, "'%.100s'", m->from);
    rc = climb(closed, st, NULL, err);
    return rc == SP_NOT_FOUND ? SP_OK : rc == SP_OK ? refuse(m, err) : rc;
}

int closed_check(const struct plan_mount *m, int fd, const struct stat *st, struct err *err)
{
    int rc = SP_OK;

    for (size_t i = 0; i < m->closed_count && rc == SP_OK; i++)
        rc = check_one(m, m->closed[i], fd, st, err);
    return rc;
}
