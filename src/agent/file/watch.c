/* watch.c - inotify: reads its events, pairs the halves of moves, and keeps every directory of the tree watched. No
 * directory is held open or is the current one: it could not be removed then. */
#include "agent/file/watch.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/helper.h"
#include "agent/core/plain.h"
#include "agent/file/store.h"
#include "agent/file/tree.h"
#include "agent/file/watch_nodes.h"
#include "base/cleanup.h"
#include "base/str.h"

enum {
    KEEPALIVE_MS = 15000,
    PAIR_MS = 100, /* the other half of a move comes at once, or never */
    EVENTS_SIZE = 64 * 1024,
};

#define CHANGES (IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB)
#define MASK                                                                          \
    (CHANGES | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | \
     IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

static const char operation[] = "watch";

struct state {
    struct file_watch *request;
    int fd; /* of inotify */
    struct watch_nodes nodes;
    bool is_over; /* the root is gone, or the client */
    bool is_full; /* too many directories, which was reported */
    /* Directories that are being added. */
    struct watch_node
        *at[FILE_TREE_DEPTH + 1]; /* [d]: of nodes of depth d + 1; NULL: not watched */
    bool want_report;
    int sys; /* why one could not be */
    /* Half of a move. */
    bool has_from;
    bool is_from_dir;
    uint32_t cookie;
    int from_wd; /* of the directory that it was in */
    char from_name[NAME_MAX + 1];
    char from[FILE_PATH_MAX];
    /* The last event of this batch, if it was a change. */
    int last_wd;
    char last_name[NAME_MAX + 1];
};

static void report(struct state *s, enum file_watch_kind kind, const char *path, const char *to,
                   mode_t mode)
{
    const struct file_watch *w = s->request;

    if (!s->is_over && !w->on_event(w->ctx, kind, path, to, mode))
        s->is_over = true;
}

/* --- directories --- */

static void unwatch(void *ctx, const struct watch_node *node)
{
    const struct state *s = ctx;

    (void) inotify_rm_watch(s->fd, node->wd); /* it may be gone already */
}

/* NULL and s->sys. */
static struct watch_node *watch_dir(struct state *s, struct watch_node *parent, const char *name,
                                    int dir)
{
    struct watch_node *node;
    int wd = -1;

    if (s->nodes.by_wd.len >= FILE_WATCH_DIRS) {
        s->sys = E2BIG;
        return NULL;
    }
    if (fchdir(dir) == 0)
        wd = inotify_add_watch(s->fd, ".", MASK);
    s->sys = wd < 0 ? errno : 0;
    if (chdir("/") != 0 || wd < 0)
        return NULL;
    node = watch_nodes_find(&s->nodes, wd);
    if (node == NULL)
        return watch_nodes_add(&s->nodes, parent, name, wd);
    if (parent != NULL)
        watch_nodes_move(node, parent, name); /* it was seen under another name */
    return node;
}

/* Whether to go on without it. */
static bool is_harmless(int sys)
{
    return sys == ENOENT || sys == EACCES || sys == EPERM || sys == ENOTDIR || sys == ELOOP;
}

static enum file_tree_next visit(void *ctx, const struct file_node *n)
{
    struct state *s = ctx;
    struct watch_node *parent = s->at[n->depth - 1];

    if (file_is_temp_name(n->name))
        return FILE_TREE_PRUNE;
    if (s->want_report)
        report(s, FILE_WATCH_CREATED, n->full, NULL, n->st.st_mode);
    if (s->is_over || parent == NULL || !file_wire_is_wanted(s->request->wire))
        return FILE_TREE_STOP;
    if (S_ISDIR(n->st.st_mode)) {
        AUTO_CLOSE int dir = plain_open(n->dir, n->name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);

        s->sys = dir < 0 ? errno : 0;
        s->at[n->depth] = dir >= 0 ? watch_dir(s, parent, n->name, dir) : NULL;
        if (s->at[n->depth] == NULL)
            return is_harmless(s->sys) ? FILE_TREE_PRUNE : FILE_TREE_STOP;
    }
    return FILE_TREE_ON;
}

/* What is in a directory that is watched. 0, or why not all of it could be watched. */
static int add_below(struct state *s, struct watch_node *top, const char *path, bool want_report)
{
    static struct file_tree tree;
    int dir = plain_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);

    if (dir < 0)
        return errno;
    memset(&tree, 0, sizeof(tree));
    tree.visit = visit;
    tree.ctx = s;
    s->at[0] = top;
    s->want_report = want_report;
    s->sys = 0;
    (void) !file_tree_run(&tree, dir, path); /* it is not strict: what it says is in s->sys */
    return is_harmless(s->sys) ? 0 : s->sys;
}

/* A directory that has just appeared. */
static void add_new(struct state *s, struct watch_node *parent, const char *name, const char *path)
{
    AUTO_CLOSE int dir = plain_open(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    struct watch_node *node;
    int sys;

    if (dir < 0)
        return; /* gone again */
    node = watch_dir(s, parent, name, dir);
    sys = node != NULL ? add_below(s, node, path, true) : s->sys;
    if (sys == 0 || is_harmless(sys) || s->is_full)
        return;
    s->is_full = true;
    report(s, FILE_WATCH_OVERFLOW, NULL, NULL, 0);
}

/* Everything from the start: at the beginning, and when events were lost. 0 or errno. */
static int watch_all(struct state *s)
{
    const struct file_watch *w = s->request;
    AUTO_CLOSE int dir = plain_open(AT_FDCWD, w->path, O_PATH | O_DIRECTORY, 0);
    struct watch_node *root;

    if (dir < 0)
        return errno;
    if (s->nodes.root != NULL) /* the instance is kept: there are few for a user */
        watch_nodes_drop(&s->nodes, s->nodes.root, unwatch, s);
    if (s->fd < 0)
        s->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (s->fd < 0)
        return errno;
    root = watch_dir(s, NULL, "", dir);
    if (root == NULL)
        return s->sys;
    return w->is_recursive ? add_below(s, root, w->path, false) : 0;
}

/* --- events --- */

static mode_t mode_of(const char *path)
{
    struct stat st;

    return fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode : 0;
}

/* What was moved went out of the tree. */
static void flush_from(struct state *s)
{
    struct watch_node *dir = s->has_from ? watch_nodes_find(&s->nodes, s->from_wd) : NULL;
    struct watch_node *node =
        dir != NULL && s->is_from_dir ? watch_nodes_child(dir, s->from_name) : NULL;

    if (!s->has_from)
        return;
    s->has_from = false;
    if (node != NULL)
        watch_nodes_drop(&s->nodes, node, unwatch, s);
    report(s, FILE_WATCH_DELETED, s->from, NULL, s->is_from_dir ? S_IFDIR : 0);
}

static void take_moved_to(struct state *s, struct watch_node *dir, const struct inotify_event *e,
                          const char *path)
{
    struct watch_node *old = watch_nodes_find(&s->nodes, s->from_wd);
    struct watch_node *node = NULL;

    if (!s->has_from) {
        report(s, FILE_WATCH_CREATED, path, NULL, mode_of(path));
        if ((e->mask & IN_ISDIR) != 0 && s->request->is_recursive)
            add_new(s, dir, e->name, path);
        return;
    }
    s->has_from = false;
    report(s, FILE_WATCH_MOVED, s->from, path, mode_of(path));
    if ((e->mask & IN_ISDIR) == 0 || !s->request->is_recursive)
        return;
    if (old != NULL)
        node = watch_nodes_child(old, s->from_name);
    if (node != NULL)
        watch_nodes_move(node, dir, e->name);
    else
        add_new(s, dir, e->name, path);
}

static void take_moved_from(struct state *s, const struct inotify_event *e, const char *path)
{
    flush_from(s);
    s->has_from = true;
    s->is_from_dir = (e->mask & IN_ISDIR) != 0;
    s->cookie = e->cookie;
    s->from_wd = e->wd;
    str_copy_cut(s->from_name, sizeof(s->from_name), e->name);
    str_copy_cut(s->from, sizeof(s->from), path);
}

static void take_deleted(struct state *s, const struct watch_node *dir,
                         const struct inotify_event *e, const char *path)
{
    struct watch_node *node = (e->mask & IN_ISDIR) != 0 ? watch_nodes_child(dir, e->name) : NULL;

    if (node != NULL)
        watch_nodes_drop(&s->nodes, node, unwatch, s);
    report(s, FILE_WATCH_DELETED, path, NULL, (e->mask & IN_ISDIR) != 0 ? S_IFDIR : 0);
}

/* One report for a file that was written to and closed; what comes after it was sent is another batch. */
static void take_changed(struct state *s, const struct inotify_event *e, const char *path)
{
    if (s->last_wd == e->wd && strcmp(s->last_name, e->name) == 0)
        return;
    s->last_wd = e->wd;
    str_copy_cut(s->last_name, sizeof(s->last_name), e->name);
    report(s, FILE_WATCH_MODIFIED, path, NULL, mode_of(path));
}

/* About a directory that is watched, not about a name in it. */
static void take_self(struct state *s, struct watch_node *dir, uint32_t mask)
{
    if (dir->parent == NULL && (mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED))) {
        report(s, FILE_WATCH_DELETED, s->request->path, NULL, S_IFDIR);
        s->is_over = true;
    } else if ((mask & IN_IGNORED) != 0) {
        watch_nodes_drop(&s->nodes, dir, unwatch, s);
    }
}

static void take_overflow(struct state *s)
{
    s->has_from = false;
    s->is_full = false;
    report(s, FILE_WATCH_OVERFLOW, NULL, NULL, 0);
    if (watch_all(s) != 0)
        s->is_over = true; /* the directory is gone */
}

static void take(struct state *s, const struct inotify_event *e)
{
    struct watch_node *dir;
    char path[FILE_PATH_MAX];

    if ((e->mask & IN_MOVED_TO) == 0 || e->cookie != s->cookie)
        flush_from(s); /* before anything is looked up: it drops directories */
    dir = watch_nodes_find(&s->nodes, e->wd);
    if (dir == NULL)
        return; /* it was dropped */
    if (e->len == 0) {
        take_self(s, dir, e->mask);
        return;
    }
    if (file_is_temp_name(
            e->name)) { /* of a file that is being written, or of what is being removed */
        flush_from(s);
        return;
    }
    if (!watch_nodes_path(dir, s->request->path, e->name, path, sizeof(path)))
        return; /* no call could name it */
    if ((e->mask & CHANGES) == 0)
        s->last_wd = -1;
    if ((e->mask & IN_MOVED_FROM) != 0) {
        take_moved_from(s, e, path);
    } else if ((e->mask & IN_MOVED_TO) != 0) {
        take_moved_to(s, dir, e, path);
    } else if ((e->mask & IN_DELETE) != 0) {
        take_deleted(s, dir, e, path);
    } else if ((e->mask & IN_CREATE) != 0) {
        report(s, FILE_WATCH_CREATED, path, NULL, mode_of(path));
        if ((e->mask & IN_ISDIR) != 0 && s->request->is_recursive)
            add_new(s, dir, e->name, path);
    } else {
        take_changed(s, e, path);
    }
}

static void read_events(struct state *s)
{
    static char data[EVENTS_SIZE] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(s->fd, data, sizeof(data));
    bool is_lost = false;

    s->last_wd = -1;
    for (ssize_t at = 0; at < n && !s->is_over;) {
        const struct inotify_event *e = (const void *) (data + at);

        at += (ssize_t) (sizeof(*e) + e->len);
        is_lost = is_lost || (e->mask & IN_Q_OVERFLOW) != 0;
        take(s, e);
    }
    if (is_lost && !s->is_over)
        take_overflow(s);
}

static void follow(struct state *s)
{
    struct file_wire *wire = s->request->wire;

    while (!s->is_over && file_wire_flush(wire)) {
        bool is_over = false;

        if (helper_wait(wire->fd, s->fd, s->has_from ? PAIR_MS : KEEPALIVE_MS, &is_over))
            read_events(s);
        else if (is_over)
            return;
        else if (s->has_from)
            flush_from(s);
        else
            report(s, FILE_WATCH_KEEPALIVE, NULL, NULL, 0);
    }
    (void) !file_wire_end(wire); /* without the end the agent breaks the answer off */
}

static int fail(const struct file_watch *w, struct file_error *error, int sys)
{
    if (sys == E2BIG)
        return file_error_set(error, 413, "too_many_directories", operation, w->path,
                              "there are more than 8192 directories to watch");
    if (sys == ENOSPC)
        return file_error_set(error, 507, "no_space", operation, w->path,
                              "the kernel has no more watches (fs.inotify.max_user_watches)");
    return file_error_sys(error, operation, w->path, sys);
}

int file_watch_run(struct file_watch *w, struct file_error *error)
{
    static struct state s;
    int sys;

    memset(&s, 0, sizeof(s));
    s.request = w;
    s.fd = -1;
    watch_nodes_init(&s.nodes, w->is_recursive ? 1024 : 1);
    sys = watch_all(&s);
    if (sys == 0 && file_wire_begin(w->wire, 0)) {
        report(&s, FILE_WATCH_READY, w->path, NULL, 0);
        follow(&s);
    }
    watch_nodes_fini(&s.nodes);
    if (s.fd >= 0)
        (void) close(TAKE_FD(s.fd)); /* it was only read */
    return sys == 0 ? SP_OK : fail(w, error, sys);
}
