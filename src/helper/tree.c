/* tree.c - removes directory trees of any depth with bounded memory and descriptors: what lies too
 * deep is moved to the top first and removed in the next round. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/tree.h"

#define DEPTH_MAX 32
#define MOVED_PREFIX ".sandpool-deep."

struct walk {
    int top;
    uint64_t mount;
    unsigned moved;
    bool is_again;
    const char *const *keep;
    struct tree_count *count;
    struct err *err;
    int rc; /* of the first error */
};

static void failed(struct walk *w, int sys, const char *what, const char *name)
{
    if (w->rc == SP_OK)
        w->rc = err_sys(w->err, SP_IO, sys, "%s '%.100s'", what, name);
}

static bool is_kept(const struct walk *w, const char *name)
{
    for (size_t i = 0; w->keep != NULL && w->keep[i] != NULL; i++) {
        if (strcmp(w->keep[i], name) == 0)
            return true;
    }
    return false;
}

static void move_up(struct walk *w, int dir, const char *name)
{
    char moved[64];

    for (unsigned i = 0; i < 1000; i++) {
        (void) snprintf(moved, sizeof(moved), MOVED_PREFIX "%u", w->moved++);
        if (renameat2(dir, name, w->top, moved, RENAME_NOREPLACE) == 0) {
            w->is_again = true;
            return;
        }
        if (errno != EEXIST)
            break;
    }
    failed(w, errno, "move up", name);
}

static void empty(struct walk *w, int fd, unsigned depth);

static void remove_dir(struct walk *w, int dir, const char *name, unsigned depth)
{
    AUTO_CLOSE int fd = -1;

    if (depth >= DEPTH_MAX) {
        move_up(w, dir, name);
        return;
    }
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        failed(w, errno, "open", name);
        return;
    }
    empty(w, fd, depth + 1);
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        w->count->files++;
    else
        failed(w, errno, "remove", name);
}

static void remove_entry(struct walk *w, int dir, const char *name, unsigned depth)
{
    struct statx st;

    if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_MNT_ID,
              &st) != 0) {
        if (errno != ENOENT)
            failed(w, errno, "look at", name);
    } else if (st.stx_mnt_id != w->mount)
        failed(w, EBUSY, "something is mounted at", name);
    else if (S_ISDIR(st.stx_mode))
        remove_dir(w, dir, name, depth);
    else if (unlinkat(dir, name, 0) != 0)
        failed(w, errno, "remove", name);
    else {
        w->count->files++;
        w->count->bytes += st.stx_nlink <= 1 ? st.stx_blocks * 512 : 0;
    }
}

static void empty(struct walk *w, int fd, unsigned depth)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);

    if (dir == NULL) {
        failed(w, errno, "read", "directory");
        if (copy >= 0)
            (void) close(copy); /* opened here, nothing written */
        return;
    }
    rewinddir(dir);
    for (;;) {
        const struct dirent *e = readdir(dir);

        if (e == NULL)
            break;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            (depth == 0 && is_kept(w, e->d_name)))
            continue;
        remove_entry(w, fd, e->d_name, depth);
    }
    (void) closedir(dir); /* only read */
}

int tree_empty(int dir_fd, const char *const *keep, struct tree_count *count, struct err *err)
{
    struct walk w = {.top = dir_fd, .keep = keep, .count = count, .err = err};
    struct statx st;

    if (statx(dir_fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) != 0)
        return err_sys(err, SP_IO, errno, "look at directory");
    w.mount = st.stx_mnt_id;
    do {
        w.is_again = false;
        empty(&w, dir_fd, 0);
    } while (w.is_again && w.rc == SP_OK);
    return w.rc;
}

int tree_remove(const char *path, struct tree_count *count, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc;

    if (fd < 0 && errno == ENOENT)
        return SP_OK;
    if (fd < 0)
        return err_sys(err, SP_IO, errno, "open '%.120s'", path);
    rc = tree_empty(fd, NULL, count, err);
    if (rc != SP_OK)
        return err_wrap(err, "remove '%.100s'", path);
    if (rmdir(path) != 0 && errno != ENOENT)
        return err_sys(err, SP_IO, errno, "remove '%.120s'", path);
    count->files++;
    return SP_OK;
}
