/* tree_write.c - each path is looked up from the top without following a link; the directory found last is kept. */
#include "helper/tree_write.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/str.h"
#include "helper/attrs.h"

static int open_beneath(int top, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve =
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};

    return (int) syscall(SYS_openat2, top, path, &how, sizeof(how));
}

void tree_writer_init(struct tree_writer *w, int top, uint32_t id_base)
{
    *w = (struct tree_writer){.top = top, .id_base = id_base, .parent = -1};
}

void tree_writer_fini(struct tree_writer *w)
{
    if (w->parent >= 0)
        (void) close(w->parent); /* O_PATH */
    w->parent = -1;
}

bool tree_path_is_good(const char *path)
{
    unsigned depth = 0;

    if (strlen(path) > MERGE_PATH_MAX)
        return false;
    while (*path != '\0') {
        size_t n = strcspn(path, "/");

        if (n == 0 || n > 255 || (n == 1 && path[0] == '.') ||
            (n == 2 && path[0] == '.' && path[1] == '.') || ++depth > MERGE_DEPTH_MAX)
            return false;
        path += n;
        if (*path == '/' && *++path == '\0')
            return false;
    }
    return depth > 0;
}

/* Its directory; *ret_name is its last part. -1: there is none. */
static int find(struct tree_writer *w, const char *path, const char **ret_name, struct err *err)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash != NULL ? (size_t) (slash - path) : 0;

    if (*path == '\0') {
        *ret_name = ".";
        return w->top;
    }
    if (!tree_path_is_good(path)) {
        (void) err_set(err, SP_INVALID_FIELD, "'%.150s' is no path of a file in a box", path);
        return -1;
    }
    *ret_name = slash != NULL ? slash + 1 : path;
    if (len == 0)
        return w->top;
    if (w->parent >= 0 && strlen(w->parent_path) == len && memcmp(w->parent_path, path, len) == 0)
        return w->parent;
    tree_writer_fini(w);
    memcpy(w->parent_path, path, len); /* it fits: checked */
    w->parent_path[len] = '\0';
    w->parent = open_beneath(w->top, w->parent_path);
    if (w->parent < 0)
        (void) err_sys(err, SP_INVALID_FIELD, errno, "the directory of '%.150s'", path);
    return w->parent;
}

static int set_owner(struct tree_writer *w, int dir, const char *name, const struct stat *st,
                     bool has_mode, struct err *err)
{
    uid_t uid = w->is_raw ? st->st_uid : w->id_base + st->st_uid % MERGE_IDS;
    gid_t gid = w->is_raw ? st->st_gid : w->id_base + st->st_gid % MERGE_IDS;

    if (fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW) != 0 ||
        (has_mode && fchmodat(dir, name, st->st_mode & 07777, 0) != 0))
        return err_sys(err, SP_IO, errno, "own '%.150s'", name);
    return SP_OK;
}

bool tree_write_exists(struct tree_writer *w, const char *path)
{
    const char *name;
    struct stat st;
    struct err err;
    int dir = find(w, path, &name, &err);

    return dir >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int tree_write_dir(struct tree_writer *w, const char *path, const struct stat *st, bool is_opaque,
                   struct err *err)
{
    char text[64 + 256];
    const char *name;
    struct stat now;
    int dir = find(w, path, &name, err);

    if (dir < 0)
        return err->code;
    if (mkdirat(dir, name, 0700) != 0 &&
        (errno != EEXIST || fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) != 0 ||
         !S_ISDIR(now.st_mode)))
        return err_sys(err, SP_IO, errno == EEXIST ? ENOTDIR : errno, "make '%.150s'", path);
    (void) snprintf(text, sizeof(text), "/proc/self/fd/%d/%s", dir, name);
    if (is_opaque && lsetxattr(text, "trusted.overlay.opaque", "y", 1, 0) != 0)
        return err_sys(err, SP_IO, errno, "mark '%.150s'", path);
    return set_owner(w, dir, name, st, true, err);
}

int tree_write_file(struct tree_writer *w, const char *path, const struct stat *st, int *ret_fd,
                    struct err *err)
{
    const char *name;
    int dir = find(w, path, &name, err);
    int fd;

    if (dir < 0)
        return err->code;
    fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, SP_IO, errno, "make '%.150s'", path);
    *ret_fd = fd;
    return set_owner(w, dir, name, st, true, err);
}

int tree_write_symlink(struct tree_writer *w, const char *path, const char *target,
                       const struct stat *st, struct err *err)
{
    const char *name;
    int dir = find(w, path, &name, err);

    if (dir < 0)
        return err->code;
    if (symlinkat(target, dir, name) != 0)
        return err_sys(err, SP_IO, errno, "make '%.150s'", path);
    return set_owner(w, dir, name, st, false, err);
}

int tree_write_link(struct tree_writer *w, const char *path, const char *target, struct err *err)
{
    struct tree_writer from;
    const char *from_name;
    const char *name;
    struct stat st;
    int rc = SP_OK;
    int dir = find(w, path, &name, err);
    int from_dir;

    if (dir < 0)
        return err->code;
    tree_writer_init(&from, w->top, w->id_base);
    from_dir = find(&from, target, &from_name, err);
    if (from_dir < 0)
        rc = err->code;
    else if (fstatat(from_dir, from_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        rc = err_set(err, SP_INVALID_FIELD, "'%.100s' is a link to '%.100s', which is no file",
                     path, target);
    else if (linkat(from_dir, from_name, dir, name, 0) != 0)
        rc = err_sys(err, SP_IO, errno, "link '%.150s'", path);
    tree_writer_fini(&from);
    return rc;
}

int tree_write_whiteout(struct tree_writer *w, const char *path, struct err *err)
{
    const char *name;
    int dir = find(w, path, &name, err);

    if (dir < 0)
        return err->code;
    if (mknodat(dir, name, S_IFCHR, makedev(0, 0)) != 0)
        return err_sys(err, SP_IO, errno, "make '%.150s'", path);
    return SP_OK;
}

int tree_write_node(struct tree_writer *w, const char *path, const struct stat *st, struct err *err)
{
    const char *name;
    int dir = find(w, path, &name, err);

    if (dir < 0)
        return err->code;
    if (!S_ISFIFO(st->st_mode) && !S_ISSOCK(st->st_mode))
        return err_set(err, SP_INVALID_FIELD, "'%.150s' is a device", path);
    if (mknodat(dir, name, st->st_mode & S_IFMT, 0) != 0)
        return err_sys(err, SP_IO, errno, "make '%.150s'", path);
    return set_owner(w, dir, name, st, true, err);
}

int tree_write_attr(struct tree_writer *w, const char *path, const char *attr, unsigned char *value,
                    size_t len, struct err *err)
{
    const char *name;
    int dir = find(w, path, &name, err);

    return dir < 0 ? err->code : attrs_set(dir, name, w->id_base, attr, value, len, err);
}

int tree_write_attrs_of(struct tree_writer *w, const char *path, int dir, const char *name,
                        struct err *err)
{
    const char *to_name;
    int to = find(w, path, &to_name, err);

    return to < 0 ? err->code : attrs_copy(dir, name, to, to_name, err);
}

int tree_write_times(struct tree_writer *w, const char *path, const struct stat *st,
                     struct err *err)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    const char *name;
    int dir = find(w, path, &name, err);

    if (dir < 0)
        return err->code;
    if (utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) != 0)
        return err_sys(err, SP_IO, errno, "set the times of '%.150s'", path);
    return SP_OK;
}
