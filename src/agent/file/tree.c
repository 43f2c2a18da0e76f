/* tree.c - one open directory per level, on an explicit stack. */
#include "agent/file/tree.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "base/str.h"

struct level {
    DIR *dir;
    size_t len; /* of the path of this directory */
};

struct state {
    struct file_tree *tree;
    struct level levels[FILE_TREE_DEPTH];
    unsigned depth; /* levels in use */
    size_t root_len;
    int sys;
};

static void push(struct state *s, int fd, size_t len)
{
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    int sys = errno;

    if (dir != NULL) {
        s->levels[s->depth++] = (struct level){.dir = dir, .len = len};
        return;
    }
    if (fd >= 0)
        (void) close(fd); /* the error is that of fdopendir() */
    if (sys == ENOENT)
        return; /* removed meanwhile */
    s->tree->unreadable++;
    if (s->tree->is_strict)
        s->sys = sys;
}

static void pop(struct state *s)
{
    (void) closedir(s->levels[--s->depth].dir); /* it was only read */
    if (s->depth > 0 && s->tree->leave != NULL)
        s->tree->leave(s->tree->ctx, s->depth);
}

static void cut(struct state *s)
{
    s->tree->is_cut = true;
    if (s->tree->is_strict)
        s->sys = ENAMETOOLONG;
}

static void descend(struct state *s, const struct file_node *n, size_t len)
{
    const struct file_tree *t = s->tree;

    if (t->max_depth > 0 && s->depth >= t->max_depth)
        return;
    if (s->depth == FILE_TREE_DEPTH) {
        cut(s);
        return;
    }
    push(s, plain_open(n->dir, n->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0), len);
}

/* False: the walk is to stop. */
static bool take(struct state *s, const char *name)
{
    struct file_tree *t = s->tree;
    const struct level *l = &s->levels[s->depth - 1];
    size_t name_len = strlen(name);
    size_t start = l->len + (t->path[l->len - 1] == '/' ? 0 : 1);
    struct file_node n = {.dir = dirfd(l->dir), .depth = s->depth, .name = name, .full = t->path};

    if (start + name_len >= FILE_PATH_MAX) {
        cut(s);
        return s->sys == 0;
    }
    t->path[start - 1] = '/';
    memcpy(t->path + start, name, name_len + 1);
    n.rel = t->path + s->root_len;
    if (fstatat(n.dir, name, &n.st, AT_SYMLINK_NOFOLLOW) != 0)
        return true; /* removed meanwhile */
    switch (t->visit(t->ctx, &n)) {
    case FILE_TREE_ON:
        if (S_ISDIR(n.st.st_mode))
            descend(s, &n, start + name_len);
        return s->sys == 0;
    case FILE_TREE_PRUNE:
        return true;
    case FILE_TREE_STOP:
    case FILE_TREE_NEXT_COUNT:
        break;
    }
    return false;
}

int file_tree_run(struct file_tree *t, int dir, const char *path)
{
    struct state s = {.tree = t};
    bool is_on = true;

    str_copy_cut(t->path, sizeof(t->path), path);
    s.root_len = strlen(t->path) + (strcmp(t->path, "/") == 0 ? 0 : 1);
    push(&s, dir, strlen(t->path));
    if (s.depth == 0)
        return ENOMEM;
    while (s.depth > 0 && is_on) {
        const struct dirent *d = readdir(s.levels[s.depth - 1].dir);

        if (d == NULL) {
            t->path[s.levels[s.depth - 1].len] = '\0';
            pop(&s);
        } else if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
            is_on = take(&s, d->d_name);
        }
    }
    while (s.depth > 0)
        pop(&s);
    return s.sys;
}
