/* merge.c - walks the directories of all layers at once. Of each name the uppermost one counts; directories are merged until one is
 * opaque, or something that is no directory lies below. */
#include "helper/merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/mem.h"
#include "helper/plan_read.h"
#include "helper/start.h"

/* A file with several names. */
struct known {
    struct map_node node;
    struct known *next;
    uint64_t ino;
    size_t layer;
    char path[];
};

struct walk {
    const struct merge_layer *layers;
    const struct merge_sink *sink;
    struct map links;
    struct known *all;
    unsigned depth;
    char path[MERGE_PATH_MAX + 1];
};

/* A directory in each layer that has it. */
struct place {
    int fds[PLAN_LAYERS_MAX];
    size_t layers[PLAN_LAYERS_MAX];
    size_t count;
};

struct name {
    char *text;
    size_t at; /* of the place */
};

struct names {
    struct name *list;
    size_t count;
    size_t cap;
};

/* --- names --- */

static int compare(const void *a, const void *b)
{
    const struct name *x = a;
    const struct name *y = b;
    int order = strcmp(x->text, y->text);

    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

static void names_fini(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i].text);
    free(n->list);
}

static int read_names(int fd, size_t at, struct names *n, struct err *err)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    DIR *d = own >= 0 ? fdopendir(own) : NULL;
    const struct dirent *e;

    if (d == NULL) {
        if (own >= 0)
            (void) close(own); /* a directory */
        return err_sys(err, SP_IO, errno, "read a directory of the snapshot");
    }
    rewinddir(d);
    errno = 0;
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (n->count == n->cap) {
            n->cap = n->cap == 0 ? 64 : 2 * n->cap;
            n->list = xrealloc(n->list, n->cap * sizeof(*n->list));
        }
        n->list[n->count++] = (struct name){.text = xstrdup(e->d_name), .at = at};
        errno = 0;
    }
    if (errno != 0)
        (void) err_sys(err, SP_IO, errno, "read a directory of the snapshot");
    else
        err->code = SP_OK;
    (void) closedir(d); /* only read */
    return err->code;
}

/* --- what a layer says of a name --- */

static bool has_mark(int dir, const char *name, const char *mark, struct err *err)
{
    char path[64 + 256 + 16];
    char value[8];
    ssize_t n;

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
    n = lgetxattr(path, mark, value, sizeof(value));
    if (n < 0 && errno != ENODATA && errno != ERANGE && errno != ENOTSUP)
        (void) err_sys(err, SP_IO, errno, "read the attributes of '%.80s'", name);
    return n > 0 || (n < 0 && errno == ERANGE);
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* Not written with the options that we mount with; still, nothing is to be lost. */
static int refuse_marks(int dir, const char *name, const char *path, struct err *err)
{
    static const char *const marks[] = {"trusted.overlay.redirect", "trusted.overlay.metacopy",
                                        "trusted.overlay.whiteout"};

    err->code = SP_OK;
    for (size_t i = 0; i < ARRAY_LEN(marks) && err->code == SP_OK; i++)
        if (has_mark(dir, name, marks[i], err))
            return err_set(err, SP_UNSUPPORTED, "'%.150s' has the attribute %s", path, marks[i]);
    return err->code;
}

static uint32_t in_box(uint32_t id, uint32_t base)
{
    return id >= base && id - base < MERGE_IDS ? id - base : 65534;
}

static void show_as_in_box(const struct merge_layer *l, struct stat *st)
{
    if (l->is_raw)
        return;
    st->st_uid = in_box(st->st_uid, l->id_base);
    st->st_gid = in_box(st->st_gid, l->id_base);
}

/* Root of a box is somebody else on the host, and can read there what everybody can. */
static bool is_left_out(const struct merge_layer *l, const struct stat *st)
{
    bool is_device = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode);
    mode_t wanted = 0;

    if (S_ISDIR(st->st_mode) || S_ISREG(st->st_mode))
        wanted = S_ISDIR(st->st_mode) ? 0005 : 0004;
    return (l->is_base && is_device) || (l->is_host && (st->st_mode & wanted) != wanted);
}

/* --- files with several names --- */

struct link_key {
    uint64_t ino;
    size_t layer;
};

static bool is_known(const struct map_node *node, const void *key)
{
    const struct known *k = container_of(node, const struct known, node);
    const struct link_key *l = key;

    return k->ino == l->ino && k->layer == l->layer;
}

static const char *find_link(struct walk *w, const struct stat *st, size_t layer)
{
    struct link_key key = {.ino = st->st_ino, .layer = layer};
    uint64_t hash = hash_u64(key.ino * PLAN_LAYERS_MAX + layer);
    struct map_node *n = map_find(&w->links, hash, is_known, &key);
    struct known *k;

    if (n != NULL)
        return container_of(n, struct known, node)->path;
    k = xcalloc(1, sizeof(*k) + strlen(w->path) + 1);
    k->ino = key.ino;
    k->layer = layer;
    memcpy(k->path, w->path, strlen(w->path) + 1);
    k->next = w->all;
    w->all = k;
    map_insert(&w->links, &k->node, hash);
    return NULL;
}

/* --- the walk --- */

static int walk_dir(struct walk *w, const struct place *p, struct err *err);

static int open_in(struct place *to, int dir, const char *name, size_t layer, struct err *err)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return err_sys(err, SP_IO, errno, "open '%.80s' of the snapshot", name);
    to->fds[to->count] = fd;
    to->layers[to->count++] = layer;
    return SP_OK;
}

/* The directories of this name: `same` are all that have it, the uppermost first. */
static int merge_dirs(const struct place *p, const struct name *same, size_t count,
                      struct place *to, bool *ret_opaque, struct err *err)
{
    int rc = SP_OK;

    for (size_t i = 0; rc == SP_OK && i < count && !*ret_opaque; i++) {
        int dir = p->fds[same[i].at];
        struct stat st;

        if (fstatat(dir, same[i].text, &st, AT_SYMLINK_NOFOLLOW) != 0)
            return err_sys(err, SP_IO, errno, "look at '%.80s' of the snapshot", same[i].text);
        if (!S_ISDIR(st.st_mode)) {
            *ret_opaque = true;
            break;
        }
        if ((rc = refuse_marks(dir, same[i].text, same[i].text, err)) == SP_OK)
            *ret_opaque = has_mark(dir, same[i].text, "trusted.overlay.opaque", err);
        if ((rc = err->code) == SP_OK)
            rc = open_in(to, dir, same[i].text, p->layers[same[i].at], err);
    }
    return rc;
}

static int put_dir(struct walk *w, const struct place *p, const struct name *same, size_t count,
                   struct merge_item *item, struct err *err)
{
    struct place below = {.count = 0};
    int rc = merge_dirs(p, same, count, &below, &item->is_opaque, err);

    if (rc == SP_OK && w->depth == MERGE_DEPTH_MAX)
        rc = err_set(err, SP_UNSUPPORTED, "'%.100s…' is deeper than %d directories", w->path,
                     MERGE_DEPTH_MAX);
    if (rc == SP_OK)
        rc = w->sink->put(w->sink->ctx, item, err);
    w->depth++;
    if (rc == SP_OK)
        rc = walk_dir(w, &below, err);
    w->depth--;
    if (rc == SP_OK)
        rc = w->sink->leave(w->sink->ctx, item, err);
    for (size_t i = 0; i < below.count; i++)
        (void) close(below.fds[i]); /* directories */
    return rc;
}

static int put_name(struct walk *w, const struct place *p, const struct name *same, size_t count,
                    struct err *err)
{
    size_t layer = p->layers[same->at];
    struct merge_item item = {.path = w->path,
                              .dir = p->fds[same->at],
                              .name = same->text,
                              .id_base = w->layers[layer].id_base,
                              .is_host = w->layers[layer].is_host};
    int rc;

    if (start_is_stopped())
        return err_set(err, SP_CANCELLED, "stopped by a signal");
    if (fstatat(item.dir, item.name, &item.st, AT_SYMLINK_NOFOLLOW) != 0)
        return err_sys(err, SP_IO, errno, "look at '%.150s' of the snapshot", w->path);
    if (is_left_out(&w->layers[layer], &item.st))
        return SP_OK;
    if (item.is_host) /* boxes see it by a mount where they count for nothing */
        item.st.st_mode &= ~(mode_t) (S_ISUID | S_ISGID);
    item.is_whiteout = is_whiteout(&item.st);
    if (!item.is_whiteout && S_ISREG(item.st.st_mode) && item.st.st_nlink > 1)
        item.link = find_link(w, &item.st, layer);
    show_as_in_box(&w->layers[layer], &item.st);
    if (S_ISDIR(item.st.st_mode))
        return put_dir(w, p, same, count, &item, err);
    if (!item.is_whiteout && (S_ISCHR(item.st.st_mode) || S_ISBLK(item.st.st_mode)))
        return err_set(err, SP_UNSUPPORTED, "'%.150s' is a device", w->path);
    if (!item.is_whiteout && S_ISREG(item.st.st_mode) &&
        (rc = refuse_marks(item.dir, item.name, w->path, err)) != SP_OK)
        return rc;
    return w->sink->put(w->sink->ctx, &item, err);
}

static int walk_names(struct walk *w, const struct place *p, const struct names *n, struct err *err)
{
    size_t len = strlen(w->path);
    int rc = SP_OK;

    for (size_t i = 0; rc == SP_OK && i < n->count;) {
        size_t same = 1;

        while (i + same < n->count && strcmp(n->list[i].text, n->list[i + same].text) == 0)
            same++;
        if (len + strlen(n->list[i].text) + 1 > MERGE_PATH_MAX)
            return err_set(err, SP_UNSUPPORTED, "'%.100s…' is longer than %d bytes", w->path,
                           MERGE_PATH_MAX);
        (void) snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len > 0 ? "/" : "",
                        n->list[i].text);
        rc = put_name(w, p, &n->list[i], same, err);
        w->path[len] = '\0';
        i += same;
    }
    return rc;
}

static int walk_dir(struct walk *w, const struct place *p, struct err *err)
{
    struct names n = {0};
    int rc = SP_OK;

    for (size_t i = 0; rc == SP_OK && i < p->count; i++)
        rc = read_names(p->fds[i], i, &n, err);
    if (rc == SP_OK) {
        if (n.count > 0)
            qsort(n.list, n.count, sizeof(*n.list), compare);
        rc = walk_names(w, p, &n, err);
    }
    names_fini(&n);
    return rc;
}

int merge_layers(const struct merge_layer *layers, size_t count, const struct merge_sink *sink,
                 struct err *err)
{
    struct walk *w = xcalloc(1, sizeof(*w));
    struct merge_item top = {
        .path = "", .dir = layers[0].fd, .name = ".", .id_base = layers[0].id_base};
    struct place p = {.count = count};
    int rc = SP_OK;

    assert(count > 0 && count <= PLAN_LAYERS_MAX);
    w->layers = layers;
    w->sink = sink;
    map_init(&w->links, 1024);
    for (size_t i = 0; i < count; i++) {
        p.fds[i] = layers[i].fd;
        p.layers[i] = i;
    }
    if (fstat(layers[0].fd, &top.st) != 0)
        rc = err_sys(err, SP_IO, errno, "look at the snapshot");
    show_as_in_box(&layers[0], &top.st);
    if (rc == SP_OK)
        rc = sink->put(sink->ctx, &top, err);
    if (rc == SP_OK)
        rc = walk_dir(w, &p, err);
    if (rc == SP_OK)
        rc = sink->leave(sink->ctx, &top, err);
    while (w->all != NULL) {
        struct known *k = w->all;

        w->all = k->next;
        map_remove(&w->links, &k->node);
        free(k);
    }
    map_fini(&w->links);
    free(w);
    return rc;
}
