/* remove.c - one open directory per level. What is deeper than the levels is moved to the top of the tree and found
 * there again: so depth needs no memory. */
#include "agent/file/remove.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "base/rand.h"
#include "base/str.h"

enum { DEPTH = 64 };

struct level {
    DIR *dir;
    size_t len;       /* of the path above */
    uint64_t removed; /* when it was begun */
    char name[NAME_MAX + 1];
};

struct state {
    struct file_remove *request;
    int dir; /* that the whole is in */
    unsigned depth;
    struct level levels[DEPTH];
};

static int parent_of(const struct state *s, unsigned depth)
{
    return depth > 0 ? dirfd(s->levels[depth - 1].dir) : s->dir;
}

static void put_path(struct state *s, size_t len, const char *name)
{
    char *path = s->request->path;

    if (len + 1 + strlen(name) < sizeof(s->request->path))
        (void) snprintf(path + len, sizeof(s->request->path) - len, "/%s", name);
}

static void cut_path(struct state *s, size_t len)
{
    if (len < sizeof(s->request->path))
        s->request->path[len] = '\0';
}

static int remove_name(struct state *s, int dir, const char *name, int flags)
{
    if (unlinkat(dir, name, flags) != 0)
        return errno == ENOENT ? 0 : errno; /* somebody else was faster */
    s->request->removed++;
    return 0;
}

/* Begins with the directory `name` in the last level. */
static int push(struct state *s, const char *name, size_t len)
{
    struct level *l = &s->levels[s->depth];
    int above = parent_of(s, s->depth);
    int fd = plain_open(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    int sys = errno;

    if (fd < 0 && sys == ENOENT)
        return 0;
    if (fd < 0 && remove_name(s, above, name, AT_REMOVEDIR) == 0)
        return 0; /* one that cannot be read, and is empty */
    if (fd < 0)
        return sys;
    l->dir = fdopendir(fd);
    if (l->dir == NULL) {
        (void) close(fd); /* the error is that of fdopendir() */
        return ENOMEM;
    }
    l->len = len;
    l->removed = s->request->removed;
    str_copy_cut(l->name, sizeof(l->name), name);
    s->depth++;
    return 0;
}

/* The last level is empty, as far as was seen. What came into it meanwhile is removed, too, as long as that goes
 * on. */
static int pop(struct state *s)
{
    struct level *l = &s->levels[s->depth - 1];
    uint64_t removed = l->removed;
    char name[NAME_MAX + 1];
    int sys;

    (void) closedir(l->dir); /* it was only read */
    s->depth--;
    str_copy_cut(name, sizeof(name), l->name);
    sys = remove_name(s, parent_of(s, s->depth), name, AT_REMOVEDIR);
    cut_path(s, l->len + (s->depth > 0 ? 1 + strlen(name) : 0));
    if ((sys == ENOTEMPTY || sys == EEXIST) && s->request->removed > removed)
        return push(s, name, l->len);
    return sys;
}

/* To the top, under a name that nobody has. */
static int move_up(struct state *s, const char *name)
{
    char hex[17];
    char temp[40];
    uint64_t id;

    rand_secure(&id, sizeof(id));
    str_hex64(hex, id);
    (void) snprintf(temp, sizeof(temp), ".sandpool-%s", hex);
    if (renameat(parent_of(s, s->depth), name, dirfd(s->levels[0].dir), temp) != 0)
        return errno == ENOENT ? 0 : errno;
    s->levels[0].removed = 0; /* something has happened: it is looked at again */
    return 0;
}

static int take(struct state *s, const struct dirent *d)
{
    struct level *l = &s->levels[s->depth - 1];
    size_t len = l->len + (s->depth > 1 ? 1 + strlen(l->name) : 0);
    int sys = EISDIR;

    put_path(s, len, d->d_name);
    if (d->d_type != DT_DIR)
        sys = remove_name(s, dirfd(l->dir), d->d_name, 0);
    if (sys != EISDIR)
        return sys;
    return s->depth < DEPTH ? push(s, d->d_name, len) : move_up(s, d->d_name);
}

static int remove_all(struct state *s)
{
    int sys = 0;

    while (s->depth > 0 && sys == 0) {
        const struct dirent *d = readdir(s->levels[s->depth - 1].dir);

        if (!file_wire_is_wanted(s->request->wire))
            sys = -1;
        else if (d == NULL)
            sys = pop(s);
        else if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            sys = take(s, d);
    }
    while (s->depth > 0)
        (void) closedir(s->levels[--s->depth].dir); /* it was only read */
    return sys;
}

int file_remove_run(struct file_remove *r, int dir, const char *name, bool is_recursive)
{
    struct state s = {.request = r, .dir = dir};
    int sys;

    r->removed = 0;
    if (unlinkat(dir, name, 0) == 0) {
        r->removed = 1;
        return 0;
    }
    if (errno != EISDIR && errno != EPERM)
        return errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0) {
        r->removed = 1;
        return 0;
    }
    if (errno == ENOTDIR)
        return EPERM; /* a file that may not be removed */
    if (!is_recursive || (errno != ENOTEMPTY && errno != EEXIST))
        return errno == EEXIST ? ENOTEMPTY : errno;
    sys = push(&s, name, strlen(r->path));
    return sys != 0 ? sys : remove_all(&s);
}
