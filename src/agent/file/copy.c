/* copy.c - the kernel copies the bytes, or shares them where the file system can. */
#include "agent/file/copy.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "agent/file/remove.h"
#include "agent/file/store.h"
#include "agent/file/tree.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

enum { STEP = 64 * 1024 * 1024, CHUNK = 64 * 1024 };

struct state {
    struct file_copy *request;
    int into[FILE_TREE_DEPTH +
             1]; /* [d]: the new directory that nodes of depth d + 1 go to; -1: none */
    mode_t modes[FILE_TREE_DEPTH + 1];
    dev_t own_dev; /* the root of the copy: never copied into itself */
    ino_t own_ino;
    int sys;
};

static int copy_by_hand(struct file_wire *wire, int from, int to)
{
    char data[CHUNK];

    for (;;) {
        ssize_t n = read(from, data, sizeof(data));
        int sys;

        if (n <= 0)
            return n < 0 ? errno : 0;
        if (!file_wire_is_wanted(wire))
            return -1;
        sys = file_write_all(to, data, (size_t) n);
        if (sys != 0)
            return sys;
    }
}

/* From the beginning to the end. 0, errno or -1. */
static int copy_data(struct file_wire *wire, int from, int to)
{
    ssize_t n = 1;

    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    while (n > 0) {
        n = copy_file_range(from, NULL, to, NULL, STEP, 0);
        if (n > 0 && !file_wire_is_wanted(wire))
            return -1;
    }
    /* Files of the kernel have no size; others cannot be copied between file systems. The offsets show how far it
     * went. */
    if (n == 0 || errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)
        return copy_by_hand(wire, from, to);
    return errno;
}

/* From an open file to an open store, which is closed. */
static int copy_to_store(const struct file_copy *c, int from, const struct stat *st,
                         struct file_store *store)
{
    int sys = 0;

    if (store->is_new && fchmod(store->fd, st->st_mode & 0777) != 0)
        sys = errno;
    if (sys == 0)
        sys = copy_data(c->wire, from, store->fd);
    if (sys == 0)
        sys = file_store_commit(store);
    file_store_drop(store);
    return sys;
}

/* One file that was named, to a path. */
static int copy_file(struct file_copy *c)
{
    struct file_store store;
    struct stat st;
    struct stat there;
    AUTO_CLOSE int from = plain_open_file(AT_FDCWD, c->from, O_RDONLY, 0, &st);
    int sys;

    if (from < 0)
        return errno;
    str_copy_cut(c->path, sizeof(c->path), c->to);
    if (!c->want_overwrite && fstatat(AT_FDCWD, c->to, &there, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    if (plain_stat(AT_FDCWD, c->to, &there) == 0 && there.st_dev == st.st_dev &&
        there.st_ino == st.st_ino)
        return EINVAL; /* the same file: it would be emptied */
    sys = file_store_open(&store, c->to);
    if (sys == 0)
        return copy_to_store(c, from, &st, &store);
    file_store_drop(&store);
    return sys;
}

/* --- trees --- */

/* Replaces what is there by a link; a directory is not replaced. */
static int copy_link(const struct file_copy *c, const struct file_node *n, int into)
{
    char target[FILE_PATH_MAX];
    ssize_t len = readlinkat(n->dir, n->name, target, sizeof(target) - 1);

    if (len < 0)
        return errno == ENOENT ? 0 : errno;
    target[len] = '\0';
    if (symlinkat(target, into, n->name) == 0)
        return 0;
    if (errno != EEXIST || !c->want_overwrite)
        return errno;
    if (unlinkat(into, n->name, 0) != 0)
        return errno;
    return symlinkat(target, into, n->name) == 0 ? 0 : errno;
}

static int put_file(const struct file_copy *c, const struct file_node *n, int into)
{
    struct file_store store;
    struct stat st;
    AUTO_CLOSE int from = plain_open_file(n->dir, n->name, O_RDONLY | O_NOFOLLOW, 0, &st);
    struct stat there;
    int sys;

    if (from < 0)
        return errno == ENOENT ? 0 : errno; /* removed meanwhile */
    /* A link in the target's place is replaced, not followed: it may lead out of the tree. */
    if (fstatat(into, n->name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!c->want_overwrite)
            return EEXIST;
        if (S_ISLNK(there.st_mode) && unlinkat(into, n->name, 0) != 0)
            return errno;
        if (there.st_dev == st.st_dev && there.st_ino == st.st_ino)
            return 0; /* another name of the same file */
    }
    sys = file_store_open_at(&store, into, n->name);
    if (sys == 0)
        return copy_to_store(c, from, &st, &store);
    file_store_drop(&store);
    return sys;
}

static int put_dir(struct state *s, const struct file_node *n, int into)
{
    int fd;
    bool is_made = mkdirat(into, n->name, 0700) == 0;

    if (!is_made && errno != EEXIST)
        return errno;
    fd = plain_open(into, n->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return errno == ELOOP ? ENOTDIR : errno;
    s->into[n->depth] = fd;
    s->modes[n->depth] = is_made ? n->st.st_mode & 01777 : 0;
    return 0;
}

static enum file_tree_next visit(void *ctx, const struct file_node *n)
{
    struct state *s = ctx;
    struct file_copy *c = s->request;
    int into = s->into[n->depth - 1];

    if (!file_wire_is_wanted(c->wire)) {
        s->sys = -1;
        return FILE_TREE_STOP;
    }
    if (S_ISDIR(n->st.st_mode) && n->st.st_dev == s->own_dev && n->st.st_ino == s->own_ino)
        s->sys = EINVAL;
    else if (S_ISDIR(n->st.st_mode))
        s->sys = put_dir(s, n, into);
    else if (S_ISLNK(n->st.st_mode))
        s->sys = copy_link(c, n, into);
    else if (S_ISREG(n->st.st_mode))
        s->sys = put_file(c, n, into);
    else
        c->skipped++;
    if (s->sys == 0)
        return FILE_TREE_ON;
    str_copy_cut(c->path, sizeof(c->path), n->full);
    return FILE_TREE_STOP;
}

/* Modes come last: a directory may be made for reading only. */
static void leave(void *ctx, unsigned depth)
{
    struct state *s = ctx;

    if (s->into[depth] < 0)
        return;
    if (s->modes[depth] != 0)
        (void) fchmod(s->into[depth], s->modes[depth]); /* it is ours: it can */
    (void) close(TAKE_FD(s->into[depth]));              /* it was only named */
}

/* Whether `dir` is `st` or below it. */
static bool is_inside(int dir, const struct stat *st)
{
    AUTO_CLOSE int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    struct stat here;
    struct stat before = {0};

    while (at >= 0 && fstat(at, &here) == 0) {
        int above;

        if (here.st_dev == st->st_dev && here.st_ino == st->st_ino)
            return true;
        if (here.st_dev == before.st_dev && here.st_ino == before.st_ino)
            return false; /* the root */
        before = here;
        above = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void) close(at); /* it was only named */
        at = above;
    }
    return false;
}

static int make_root(struct state *s, const struct file_place *to, const struct stat *st)
{
    const struct file_copy *c = s->request;
    struct stat own;
    bool is_made;

    if (is_inside(to->dir, st))
        return EINVAL;
    is_made = mkdirat(to->dir, to->name, 0700) == 0;
    if (!is_made && (errno != EEXIST || !c->want_overwrite))
        return errno;
    s->into[0] = plain_open(to->dir, to->name, O_RDONLY | O_DIRECTORY, 0);
    if (s->into[0] < 0 || fstat(s->into[0], &own) != 0)
        return errno;
    s->own_dev = own.st_dev;
    s->own_ino = own.st_ino;
    s->modes[0] = is_made ? st->st_mode & 01777 : 0;
    return own.st_dev == st->st_dev && own.st_ino == st->st_ino ? EINVAL : 0;
}

static int copy_tree(struct file_copy *c, int dir, const struct stat *st)
{
    static struct state s;
    static struct file_tree tree;
    struct file_place to;
    int sys = file_place_name(&to, c->to, true);

    memset(&s, 0, sizeof(s));
    memset(&tree, 0, sizeof(tree));
    s.request = c;
    for (size_t i = 0; i < ARRAY_LEN(s.into); i++)
        s.into[i] = -1;
    tree.is_strict = true;
    tree.visit = visit;
    tree.leave = leave;
    tree.ctx = &s;
    if (sys == 0)
        sys = make_root(&s, &to, st);
    if (sys != 0)
        str_copy_cut(c->path, sizeof(c->path), c->to);
    file_place_close(&to);
    if (sys != 0) {
        (void) close(dir); /* it was only read */
    } else {
        sys = file_tree_run(&tree, dir, c->from);
        if (sys != 0)
            str_copy_cut(c->path, sizeof(c->path), tree.path);
        else
            sys = s.sys;
    }
    for (unsigned i = 0; i < ARRAY_LEN(s.into); i++)
        leave(&s, i);
    return sys;
}

int file_copy_run(struct file_copy *c)
{
    struct stat st;
    int dir;

    str_copy_cut(c->path, sizeof(c->path), c->from);
    if (plain_stat(AT_FDCWD, c->from, &st) != 0)
        return errno;
    if (!S_ISDIR(st.st_mode))
        return copy_file(c);
    if (!c->is_recursive)
        return EISDIR;
    dir = plain_open(AT_FDCWD, c->from, O_RDONLY | O_DIRECTORY, 0);
    return dir < 0 ? errno : copy_tree(c, dir, &st);
}

/* --- moves --- */

static int rename_it(const struct file_copy *c, const struct file_place *from,
                     const struct file_place *to)
{
    struct stat st;

    if (c->want_overwrite)
        return renameat(from->dir, from->name, to->dir, to->name) == 0 ? 0 : errno;
    if (renameat2(from->dir, from->name, to->dir, to->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    if (fstatat(to->dir, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    return renameat(from->dir, from->name, to->dir, to->name) == 0 ? 0 : errno;
}

static int move_link(const struct file_copy *c, const struct file_place *from,
                     const struct file_place *to)
{
    char target[FILE_PATH_MAX];
    ssize_t len = readlinkat(from->dir, from->name, target, sizeof(target) - 1);

    if (len < 0)
        return errno;
    target[len] = '\0';
    if (c->want_overwrite && unlinkat(to->dir, to->name, 0) != 0 && errno != ENOENT)
        return errno;
    return symlinkat(target, to->dir, to->name) == 0 ? 0 : errno;
}

/* Between file systems. */
static int move_by_copy(struct file_copy *c, const struct file_place *from,
                        const struct file_place *to)
{
    struct file_remove remove = {.wire = c->wire};
    struct stat st;
    int sys;

    if (fstatat(from->dir, from->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    c->is_recursive = true;
    sys = S_ISLNK(st.st_mode) ? move_link(c, from, to) : file_copy_run(c);
    if (sys != 0)
        return sys;
    str_copy_cut(remove.path, sizeof(remove.path), c->from);
    if (c->skipped > 0)
        return ENOTSUP; /* what was not copied must not be removed */
    sys = file_remove_run(&remove, from->dir, from->name, true);
    if (sys != 0)
        str_copy_cut(c->path, sizeof(c->path), remove.path);
    return sys;
}

int file_move_run(struct file_copy *c)
{
    struct file_place from;
    struct file_place to = {.dir = -1};
    struct stat st;
    int sys;

    str_copy_cut(c->path, sizeof(c->path), c->from);
    sys = file_place_name(&from, c->from, false);
    if (sys == 0 && fstatat(from.dir, from.name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        sys = errno;
    if (sys == 0) {
        str_copy_cut(c->path, sizeof(c->path), c->to);
        sys = file_place_name(&to, c->to, true);
    }
    if (sys == 0)
        sys = rename_it(c, &from, &to);
    if (sys == EXDEV)
        sys = move_by_copy(c, &from, &to);
    file_place_close(&from);
    file_place_close(&to);
    return sys == EEXIST && c->want_overwrite ? ENOTEMPTY : sys;
}
