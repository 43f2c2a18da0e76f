/* tar_tree.c - what plain tar has no room for is in pax records: fractions of seconds, attributes, holes, marks. */
#include "helper/tar_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bundle.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/tar_write.h"
#include "helper/attrs.h"

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

enum {
    TEXT_MAX = 2 * 1024 * 1024,
    RECORDS_MAX = 1000 * 1000, /* the reader takes 1 MiB with names */
    PIECE = 256 * 1024,
    RUNS_MAX = 8192, /* of data in a sparse file; the last one has the rest */
};

struct run {
    off_t at;
    off_t len;
};

void tar_tree_init(struct tar_tree *t)
{
    buf_init(&t->text, TEXT_MAX);
    buf_init(&t->records, RECORDS_MAX);
}

void tar_tree_fini(struct tar_tree *t)
{
    buf_fini(&t->text);
    buf_fini(&t->records);
}

/* --- entries --- */

static void put_name(const struct tar_tree *t, const char *path, char *dst, size_t cap)
{
    bool has_slash = !str_is_empty(t->prefix) && !str_is_empty(path);

    (void) snprintf(dst, cap, "%s%s%s", t->prefix, has_slash ? "/" : "", path);
}

static int flush(struct tar_tree *t, const char *path, struct err *err)
{
    int rc;

    if (buf_failed(&t->text) || buf_failed(&t->records))
        return err_set(err, SP_UNSUPPORTED, "'%.150s' has too many attributes", path);
    rc = t->put(t->ctx, buf_str(&t->text), t->text.len, err);
    buf_reset(&t->text);
    buf_reset(&t->records);
    return rc;
}

static void put_entry(struct tar_tree *t, char type, const char *path, const char *link,
                      const struct stat *st)
{
    char name[MERGE_PATH_MAX + 64];

    put_name(t, path, name, sizeof(name));
    tar_put_entry(&t->text, type, name, link, st, &t->records);
}

static int put_attr(void *ctx, const char *attr, unsigned char *value, size_t len,
                    struct err *err UNUSED)
{
    struct tar_tree *t = ctx;
    char key[ATTR_NAME_MAX + 32];

    (void) snprintf(key, sizeof(key), BUNDLE_XATTR "%s", attr);
    tar_put_record(&t->records, key, value, len);
    return SP_OK;
}

static int put_records(struct tar_tree *t, const struct merge_item *item, struct err *err)
{
    char text[48];
    int n;

    if (item->st.st_mtim.tv_nsec != 0 && item->st.st_mtim.tv_sec >= 0) {
        n = snprintf(text, sizeof(text), "%lld.%09ld", (long long) item->st.st_mtim.tv_sec,
                     item->st.st_mtim.tv_nsec);
        tar_put_record(&t->records, "mtime", text, (size_t) n);
    }
    if (item->is_opaque && !t->is_image)
        tar_put_record(&t->records, BUNDLE_OPAQUE, "1", 1);
    if (item->is_host)
        return SP_OK;
    return attrs_read(item->dir, item->name, item->id_base, put_attr, t, err);
}

/* --- data --- */

static int put_zeros(struct tar_tree *t, unsigned len, struct err *err)
{
    static const char zeros[TAR_BLOCK];

    return len > 0 ? t->put(t->ctx, zeros, len, err) : SP_OK;
}

static int put_run(struct tar_tree *t, int fd, const struct run *r, const char *path,
                   struct err *err)
{
    static char piece[PIECE];
    off_t at = r->at;
    int rc = SP_OK;

    while (rc == SP_OK && at < r->at + r->len) {
        ssize_t n = pread(fd, piece, MIN_OF((size_t) (r->at + r->len - at), sizeof(piece)), at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, SP_IO, n < 0 ? errno : EIO, "read '%.150s'", path);
        rc = t->put(t->ctx, piece, (size_t) n, err);
        at += n;
    }
    return rc;
}

/* Where the file has data; the count, or -1 and errno. */
static int find_runs(int fd, off_t size, struct run *runs)
{
    off_t at = 0;
    int count = 0;

    while (at < size) {
        off_t data = lseek(fd, at, SEEK_DATA);
        off_t end = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);

        if (data < 0 && errno == ENXIO)
            break;
        if (end < 0)
            return -1;
        if (data >= size)
            break;
        at = count == RUNS_MAX - 1 ? size : MIN_OF(end, size);
        runs[count++] = (struct run){.at = data, .len = at - data};
    }
    return count;
}

/* Its map is the first part of its data. */
static int put_sparse(struct tar_tree *t, const struct merge_item *item, int fd,
                      const struct run *runs, int count, struct err *err)
{
    struct stat st = item->st;
    char name[MERGE_PATH_MAX + 64];
    char text[24];
    struct buf map;
    int n = snprintf(text, sizeof(text), "%lld", (long long) st.st_size);
    int rc = SP_OK;

    buf_init(&map, TEXT_MAX);
    buf_printf(&map, "%d\n", count + 1);
    st.st_size = 0;
    for (int i = 0; i < count; i++) {
        buf_printf(&map, "%lld\n%lld\n", (long long) runs[i].at, (long long) runs[i].len);
        st.st_size += runs[i].len;
    }
    buf_printf(&map, "%s\n0\n", text); /* the end of the file, which may be a hole */
    while (map.len % TAR_BLOCK != 0)
        buf_putc(&map, '\0');
    st.st_size += (off_t) map.len;
    put_name(t, item->path, name, sizeof(name));
    tar_put_record(&t->records, "GNU.sparse.major", "1", 1);
    tar_put_record(&t->records, "GNU.sparse.minor", "0", 1);
    tar_put_record(&t->records, "GNU.sparse.name", name, strlen(name));
    tar_put_record(&t->records, "GNU.sparse.realsize", text, (size_t) n);
    put_entry(t, TAR_FILE, item->path, NULL, &st);
    buf_append(&t->text, buf_str(&map), map.len);
    rc = flush(t, item->path, err);
    for (int i = 0; rc == SP_OK && i < count; i++)
        rc = put_run(t, fd, &runs[i], item->path, err);
    buf_fini(&map);
    return rc == SP_OK ? put_zeros(t, tar_padding((uint64_t) st.st_size), err) : rc;
}

static int put_file(struct tar_tree *t, const struct merge_item *item, struct err *err)
{
    static struct run runs[RUNS_MAX];
    AUTO_CLOSE int fd = openat(item->dir, item->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const struct run whole = {.at = 0, .len = item->st.st_size};
    int count = fd < 0 ? -1 : find_runs(fd, item->st.st_size, runs);
    int rc;

    if (count < 0)
        return err_sys(err, SP_IO, errno, "open '%.150s'", item->path);
    if (t->file_max != 0 && (uint64_t) whole.len > t->file_max)
        return err_set(err, SP_BODY_TOO_LARGE,
                       "'%.150s' is too large for an image, where holes take space", item->path);
    if (!t->is_image && whole.len > 0 &&
        (count != 1 || runs[0].at != 0 || runs[0].len != whole.len))
        return put_sparse(t, item, fd, runs, count, err);
    put_entry(t, TAR_FILE, item->path, NULL, &item->st);
    rc = flush(t, item->path, err);
    if (rc == SP_OK)
        rc = put_run(t, fd, &whole, item->path, err);
    return rc == SP_OK ? put_zeros(t, tar_padding((uint64_t) whole.len), err) : rc;
}

static int put_symlink(struct tar_tree *t, const struct merge_item *item, struct err *err)
{
    char target[PATH_MAX + 1];
    ssize_t n = readlinkat(item->dir, item->name, target, sizeof(target) - 1);

    if (n < 0)
        return err_sys(err, SP_IO, errno, "read '%.150s'", item->path);
    target[n] = '\0';
    put_entry(t, TAR_SYMLINK, item->path, target, &item->st);
    return flush(t, item->path, err);
}

/* --- marks --- */

static int put_whiteout(struct tar_tree *t, const struct merge_item *item, struct err *err)
{
    static const struct stat none = {.st_mode = S_IFREG};
    const char *slash = strrchr(item->path, '/');
    const char *last = slash != NULL ? slash + 1 : item->path;
    char path[MERGE_PATH_MAX + 64];

    if (!t->is_image) {
        tar_put_record(&t->records, BUNDLE_WHITEOUT, "1", 1);
        put_entry(t, TAR_FILE, item->path, NULL, &none);
        return flush(t, item->path, err);
    }
    (void) snprintf(path, sizeof(path), "%.*s" WHITEOUT "%s", (int) (last - item->path), item->path,
                    last);
    put_entry(t, TAR_FILE, path, NULL, &none);
    return flush(t, path, err);
}

static int put_dir(struct tar_tree *t, const struct merge_item *item, struct err *err)
{
    static const struct stat none = {.st_mode = S_IFREG};
    char path[MERGE_PATH_MAX + 64];

    if (str_is_empty(item->path) && str_is_empty(t->prefix)) {
        buf_reset(&t->records);
        return SP_OK;
    }
    put_entry(t, TAR_DIRECTORY, item->path, NULL, &item->st);
    if (item->is_opaque && t->is_image) {
        buf_reset(&t->records);
        (void) snprintf(path, sizeof(path), "%s/" OPAQUE, item->path);
        put_entry(t, TAR_FILE, path, NULL, &none);
    }
    return flush(t, item->path, err);
}

static bool is_left_out(const struct tar_tree *t, const char *path)
{
    size_t len = t->left_out != NULL ? strlen(t->left_out) : 0;

    return len > 0 && str_is_empty(t->prefix) && strncmp(path, t->left_out, len) == 0 &&
           (path[len] == '\0' || path[len] == '/');
}

int tar_tree_item(void *ctx, const struct merge_item *item, struct err *err)
{
    struct tar_tree *t = ctx;
    char link[MERGE_PATH_MAX + 64];
    int rc;

    if (is_left_out(t, item->path))
        return SP_OK;
    if (t->is_image && strncmp(item->name, WHITEOUT, strlen(WHITEOUT)) == 0)
        return err_set(err, SP_UNSUPPORTED,
                       "'%.150s' cannot be in an image: a layer has names that begin with " WHITEOUT
                       " for what is deleted",
                       item->path);
    if (item->is_whiteout)
        return put_whiteout(t, item, err);
    if (item->link != NULL) {
        put_name(t, item->link, link, sizeof(link));
        put_entry(t, TAR_HARD_LINK, item->path, link, &item->st);
        return flush(t, item->path, err);
    }
    if (S_ISSOCK(item->st.st_mode))
        return SP_OK;
    if ((rc = put_records(t, item, err)) != SP_OK)
        return rc;
    if (S_ISDIR(item->st.st_mode))
        return put_dir(t, item, err);
    if (S_ISREG(item->st.st_mode))
        return put_file(t, item, err);
    if (S_ISLNK(item->st.st_mode))
        return put_symlink(t, item, err);
    put_entry(t, TAR_FIFO, item->path, NULL, &item->st);
    return flush(t, item->path, err);
}

int tar_tree_leave(void *ctx UNUSED, const struct merge_item *item UNUSED, struct err *err UNUSED)
{
    return SP_OK;
}
