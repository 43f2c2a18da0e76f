/* inside.c - makes directories and files below a box's root with openat2(RESOLVE_IN_ROOT). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "helper/inside.h"
#include "helper/plan_read.h"

enum { TRIES = 1000 };

int inside_open(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | flags, .resolve = resolve};
    int fd = -1;

    /* A rename or a mount anywhere on the machine makes the kernel unsure of a "..". */
    for (int i = 0; fd < 0 && i < TRIES && (i == 0 || errno == EAGAIN); i++)
        fd = (int) syscall(SYS_openat2, dir, path, &how, sizeof(how));
    return fd;
}

static int open_in_root(int root, const char *path, uint64_t flags)
{
    return inside_open(root, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static int make_dir(int parent, const char *name, uint32_t owner, struct err *err)
{
    if (mkdirat(parent, name, 0755) != 0)
        return errno == EEXIST ? SP_OK : err_sys(err, SP_IO, errno, "make '%.100s'", name);
    if (fchownat(parent, name, owner, owner, AT_SYMLINK_NOFOLLOW) != 0)
        return err_sys(err, SP_IO, errno, "give away '%.100s'", name);
    return SP_OK;
}

/* SP_NOT_FOUND: the path itself is at fault. */
static int code_of(int sys)
{
    return sys == ENOTDIR || sys == EISDIR || sys == ELOOP || sys == ENOENT || sys == EEXIST
               ? SP_NOT_FOUND
               : SP_IO;
}

int inside_dir(int root, const char *path, uint32_t owner, int *ret_fd, struct err *err)
{
    char part[PLAN_PATH_MAX + 1];
    AUTO_CLOSE int at = open_in_root(root, path, O_DIRECTORY);
    size_t len = 0;
    int rc;

    if (at < 0 && errno != ENOENT)
        return err_sys(err, code_of(errno), errno, "open '%.150s' in the box", path);
    if (at < 0)
        at = open_in_root(root, "/", O_DIRECTORY);
    else
        len = strlen(path);
    while (path[len] != '\0') { /* from the top, one name at a time */
        size_t name = len + 1;
        int next;

        len = name + strcspn(path + name, "/");
        if (!str_copy_n(part, sizeof(part), path, len))
            return err_set(err, SP_TOO_BIG, "path too long");
        next = open_in_root(root, part, O_DIRECTORY);
        if (next < 0 && errno == ENOENT) {
            if ((rc = make_dir(at, part + name, owner, err)) != SP_OK)
                return rc;
            next = open_in_root(root, part, O_DIRECTORY);
        }
        if (next < 0)
            return err_sys(err, code_of(errno), errno, "open '%.150s' in the box", part);
        (void) close(at); /* O_PATH */
        at = next;
    }
    *ret_fd = TAKE_FD(at);
    return SP_OK;
}

/* The directory above a path and the last name of it. */
static int open_parent(int root, const char *path, uint32_t owner, int *ret_fd,
                       const char **ret_name, struct err *err)
{
    char parent[PLAN_PATH_MAX + 1];
    const char *slash = strrchr(path, '/');
    size_t len = slash == path ? 1 : (size_t) (slash - path);

    if (!str_copy_n(parent, sizeof(parent), path, len))
        return err_set(err, SP_TOO_BIG, "path too long");
    *ret_name = slash + 1;
    if (len == 1) {
        *ret_fd = open_in_root(root, "/", O_DIRECTORY);
        return *ret_fd < 0 ? err_sys(err, SP_IO, errno, "open the box's root") : SP_OK;
    }
    return inside_dir(root, parent, owner, ret_fd, err);
}

int inside_target(int root, const char *path, bool is_dir, uint32_t owner, int *ret_fd,
                  struct err *err)
{
    AUTO_CLOSE int parent = -1;
    AUTO_CLOSE int made = -1;
    const char *name;
    struct stat st;
    int rc;

    if (is_dir)
        return inside_dir(root, path, owner, ret_fd, err);
    *ret_fd = open_in_root(root, path, 0);
    if (*ret_fd < 0) {
        if ((rc = open_parent(root, path, owner, &parent, &name, err)) != SP_OK)
            return rc;
        made = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (made < 0 || fchown(made, owner, owner) != 0)
            return err_sys(err, code_of(errno), errno, "make '%.150s' in the box", path);
        *ret_fd = open_in_root(root, path, 0);
    }
    if (*ret_fd < 0 || fstat(*ret_fd, &st) != 0)
        return err_sys(err, SP_IO, errno, "open '%.150s' in the box", path);
    if (S_ISREG(st.st_mode))
        return SP_OK;
    (void) close(TAKE_FD(*ret_fd)); /* O_PATH */
    return err_set(err, SP_NOT_FOUND, "'%.150s' in the box is not a file", path);
}

/* As the kernel sees it from the root of this process. */
static int place_of(int fds, int fd, char place[PATH_MAX], struct err *err)
{
    char name[16];
    ssize_t len;

    (void) snprintf(name, sizeof(name), "%d", fd);
    len = readlinkat(fds, name, place, PATH_MAX - 1);
    if (len < 0)
        return err_sys(err, SP_IO, errno, "look where a directory of the box is");
    place[len] = '\0';
    return SP_OK;
}

int inside_is_free(int fds, int root, int target, const char *path, struct err *err)
{
    static const char *const closed[] = {"/", "/proc", "/sys", "/dev", "/.sandpool"};
    char top[PATH_MAX];
    char place[PATH_MAX];
    const char *rest = place;
    size_t len;
    int rc;

    if ((rc = place_of(fds, root, top, err)) != SP_OK ||
        (rc = place_of(fds, target, place, err)) != SP_OK)
        return rc;
    len = strcmp(top, "/") == 0 ? 0 : strlen(top);
    if (strncmp(place, top, len) != 0)
        return err_set(err, SP_NOT_FOUND, "'%.150s' leads out of the box", path);
    rest += len;
    if (*rest == '\0')
        rest = "/";
    len = 1 + strcspn(rest + 1, "/");
    for (size_t i = 0; i < ARRAY_LEN(closed); i++) {
        if (strlen(closed[i]) == len && strncmp(rest, closed[i], len) == 0)
            return err_set(err, SP_NOT_FOUND,
                           "'%.100s' leads to '%.100s' in the box, which cannot be covered", path,
                           rest);
    }
    return SP_OK;
}

int inside_write(int root, const char *path, const char *text, uint32_t owner, struct err *err)
{
    AUTO_CLOSE int parent = -1;
    AUTO_CLOSE int fd = -1;
    const char *name;
    int sys;
    int rc = open_parent(root, path, owner, &parent, &name, err);

    if (rc != SP_OK)
        return rc;
    if (unlinkat(parent, name, 0) != 0 && errno != ENOENT)
        return err_sys(err, code_of(errno), errno, "replace '%.150s' in the box", path);
    fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || fchown(fd, owner, owner) != 0)
        return err_sys(err, SP_IO, errno, "make '%.150s' in the box", path);
    sys = file_write_all(fd, text, strlen(text));
    return sys == 0 ? SP_OK : err_sys(err, SP_IO, sys, "write '%.150s' in the box", path);
}

int inside_own(int root, const char *path, uint32_t owner, mode_t mode, uint32_t root_owner,
               struct err *err)
{
    AUTO_CLOSE int at = -1;
    AUTO_CLOSE int fd = -1;
    struct stat st;
    int rc = inside_dir(root, path, root_owner, &at, err);

    if (rc != SP_OK)
        return rc;
    if (fstat(at, &st) != 0)
        return err_sys(err, SP_IO, errno, "look at '%.150s' in the box", path);
    if (st.st_uid == owner && st.st_gid == owner && (st.st_mode & 07777) == mode)
        return SP_OK;
    fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fchown(fd, owner, owner) != 0 || fchmod(fd, mode) != 0)
        return err_sys(err, SP_IO, errno, "give away '%.150s' in the box", path);
    return SP_OK;
}
