/* walk.c - walks a directory tree: one open directory per level, on an explicit stack; no
 * recursion, and no path is resolved twice. */
#include "agent/file/walk.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "base/str.h"

enum { LOOK_EVERY = 64 }; /* entries between two looks at the clock */

struct level {
    DIR *dir;
    size_t len; /* of the path of this directory */
};

struct state {
    struct file_walk *walk;
    struct level levels[FILE_WALK_DEPTH];
    unsigned depth; /* levels in use */
    size_t root_len;
    uint64_t seen;
    char path[2 * FILE_PATH_MAX];
};

static bool push(struct state *s, int fd, size_t len)
{
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (dir == NULL) {
        if (fd >= 0)
            (void) close(fd); /* the error is that of fdopendir() */
        s->walk->unreadable++;
        return false;
    }
    s->levels[s->depth++] = (struct level){.dir = dir, .len = len};
    return true;
}

static void pop(struct state *s)
{
    (void) closedir(s->levels[--s->depth].dir); /* it was only read */
}

bool file_entry_stat(const struct file_entry *entry, struct stat *ret)
{
    struct stat st;

    if (fstatat(entry->dir_fd, entry->name, ret, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (S_ISLNK(ret->st_mode) && plain_stat(entry->dir_fd, entry->name, &st) == 0)
        *ret = st;
    return true;
}

static void learn_type(struct file_entry *e, unsigned char type)
{
    struct stat st;

    if (type == DT_UNKNOWN) {
        if (fstatat(e->dir_fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
            type = DT_LNK;
        else
            type = S_ISDIR(st.st_mode) ? DT_DIR : DT_REG;
    }
    e->is_link = type == DT_LNK;
    e->is_dir =
        type == DT_DIR || (type == DT_LNK && file_entry_stat(e, &st) && S_ISDIR(st.st_mode));
}

static void descend(struct state *s, const struct file_entry *e, size_t len)
{
    if (s->depth >= s->walk->max_depth)
        return;
    if (s->depth == FILE_WALK_DEPTH) {
        s->walk->is_truncated = true;
        return;
    }
    (void) push(s, plain_open(e->dir_fd, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0),
                len); /* counted when it cannot be read */
}

/* One entry; false when the walk is to stop. */
static bool take(struct state *s, const struct dirent *d)
{
    const struct level *l = &s->levels[s->depth - 1];
    size_t name_len = strlen(d->d_name);
    size_t start = l->len + (s->path[l->len - 1] == '/' ? 0 : 1);
    struct file_entry e = {.dir_fd = dirfd(l->dir), .name = d->d_name, .full = s->path};

    if (start + name_len >= FILE_PATH_MAX) {
        s->walk->is_truncated = true;
        return true;
    }
    s->path[start - 1] = '/';
    memcpy(s->path + start, d->d_name, name_len + 1);
    e.rel = s->path + s->root_len;
    learn_type(&e, d->d_type);
    switch (s->walk->visit(s->walk->ctx, &e)) {
    case FILE_WALK_ON:
        if (e.is_dir && !e.is_link)
            descend(s, &e, start + name_len);
        return true;
    case FILE_WALK_PRUNE:
        return true;
    case FILE_WALK_STOP:
    case FILE_WALK_NEXT_COUNT:
        break;
    }
    return false;
}

static bool is_wanted(const struct file_walk *w, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    return w->show_hidden || name[0] != '.';
}

int file_walk_run(struct file_walk *w)
{
    struct state s = {.walk = w};
    int fd = plain_open(AT_FDCWD, w->job->path, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return file_job_sys(w->job, errno);
    str_copy_cut(s.path, sizeof(s.path), w->job->path);
    s.root_len = strlen(s.path) + (strcmp(s.path, "/") == 0 ? 0 : 1);
    if (!push(&s, fd, strlen(s.path)))
        return file_job_sys(w->job, ENOMEM);
    while (s.depth > 0) {
        const struct dirent *d = readdir(s.levels[s.depth - 1].dir);

        if (d == NULL) {
            pop(&s);
            continue;
        }
        if (++s.seen % LOOK_EVERY == 0 && file_job_is_over(w->job)) {
            w->is_truncated = true;
            break;
        }
        if (is_wanted(w, d->d_name) && !take(&s, d))
            break;
    }
    while (s.depth > 0)
        pop(&s);
    return SP_OK;
}
