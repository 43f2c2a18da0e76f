/* merge_copy.c - what merge_layers() finds is made anew elsewhere, file by file. */
#include "helper/merge_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/attrs.h"
#include "helper/disk.h"
#include "helper/tree_write.h"

struct attr_to {
    struct tree_writer *writer;
    const char *path;
};

static int put_attr(void *ctx, const char *attr, unsigned char *value, size_t len, struct err *err)
{
    const struct attr_to *to = ctx;

    return tree_write_attr(to->writer, to->path, attr, value, len, err);
}

static int copy_attrs(struct tree_writer *w, const struct merge_item *item, struct err *err)
{
    struct attr_to to = {.writer = w, .path = item->path};

    if (w->is_raw)
        return tree_write_attrs_of(w, item->path, item->dir, item->name, err);
    return attrs_read(item->dir, item->name, item->id_base, put_attr, &to, err);
}

static int copy_file(struct tree_writer *w, const struct merge_item *item, struct err *err)
{
    AUTO_CLOSE int from = openat(item->dir, item->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int to = -1;
    int rc;

    if (from < 0)
        return err_sys(err, SP_IO, errno, "open '%.150s'", item->path);
    if ((rc = tree_write_file(w, item->path, &item->st, &to, err)) != SP_OK)
        return rc;
    rc = disk_copy(from, to, item->st.st_size, err);
    return rc == SP_OK ? rc : err_wrap(err, "'%.150s'", item->path);
}

static int copy_symlink(struct tree_writer *w, const struct merge_item *item, struct err *err)
{
    char target[PATH_MAX + 1];
    ssize_t n = readlinkat(item->dir, item->name, target, sizeof(target) - 1);

    if (n < 0)
        return err_sys(err, SP_IO, errno, "read '%.150s'", item->path);
    target[n] = '\0';
    return tree_write_symlink(w, item->path, target, &item->st, err);
}

int merge_put(void *ctx, const struct merge_item *item, struct err *err)
{
    struct tree_writer *w = ctx;
    int rc;

    if (item->is_whiteout)
        return tree_write_whiteout(w, item->path, err);
    if (item->link != NULL)
        return tree_write_link(w, item->path, item->link, err);
    if (S_ISDIR(item->st.st_mode))
        rc = tree_write_dir(w, item->path, &item->st, item->is_opaque, err);
    else if (S_ISREG(item->st.st_mode))
        rc = copy_file(w, item, err);
    else if (S_ISLNK(item->st.st_mode))
        rc = copy_symlink(w, item, err);
    else
        rc = tree_write_node(w, item->path, &item->st, err);
    if (rc == SP_OK)
        rc = copy_attrs(w, item, err);
    if (rc == SP_OK && !S_ISDIR(item->st.st_mode))
        rc = tree_write_times(w, item->path, &item->st, err);
    return rc;
}

int merge_leave(void *ctx, const struct merge_item *item, struct err *err)
{
    return tree_write_times(ctx, item->path, &item->st, err);
}
