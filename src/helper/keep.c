/* keep.c - the disk of a durable box. While the box runs it is the box's alone; when the box has ended with its machine or
 * its runtime, it gets a second name, under which it is a snapshot. Nothing is copied, and at any moment at least one name
 * leads to it. */
#include "helper/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "helper/disk.h"
#include "helper/remove.h"

static int open_disk(const struct box_dir *d, int *ret, struct err *err)
{
    struct stat st;

    *ret = openat(d->fd, "disk", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (*ret < 0 || fstat(*ret, &st) != 0)
        return err_sys(err, SP_NOT_FOUND, errno, "the box has no disk");
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
        return err_set(err, SP_NOT_FOUND, "the disk of the box has been kept already");
    return SP_OK;
}

/* By its path: the descriptor of the directory belongs to the mount namespace that was left. */
static int name_it(const struct plan *p, int disk, struct buf *answer, struct err *err)
{
    char path[PLAN_PATH_MAX + 16];
    struct json_out out;
    int rc;

    (void) snprintf(path, sizeof(path), "%s/disk", p->dir);
    if ((rc = disk_finish(disk, path, &out, err)) != SP_OK)
        return rc;
    if (link(path, p->to) != 0)
        rc = err_sys(err, SP_IO, errno, "make '%.150s'", p->to);
    json_end(&out);
    json_out_finish(&out, answer);
    return rc;
}

int keep_disk(const struct plan *p, struct buf *answer, struct err *err)
{
    AUTO_CLOSE int disk = -1;
    struct box_dir d;
    int rc = box_dir_open(p->dir, &d, err);

    if (rc != SP_OK)
        return rc;
    if ((rc = remove_running(p, &d, err)) == SP_OK && (rc = open_disk(&d, &disk, err)) == SP_OK &&
        (rc = disk_leave_host(err)) == SP_OK && (rc = disk_settle(disk, p->stage, err)) == SP_OK)
        rc = name_it(p, disk, answer, err);
    box_dir_close(&d);
    return rc;
}

static int sync_path(const char *path, bool is_whole, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || (is_whole ? syncfs(fd) : fsync(fd)) != 0)
        return err_sys(err, SP_IO, errno, "write out '%.150s'", path);
    return SP_OK;
}

/* Flushing the file system on the loop device flushes the file behind it. */
int keep_sync(const struct plan *p, const struct box_dir *d, struct err *err)
{
    AUTO_CLOSE int record = openat(d->fd, "box.json", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char path[PLAN_PATH_MAX + 16];
    int rc;

    (void) snprintf(path, sizeof(path), "%s/disk", p->stage);
    if ((rc = sync_path(path, true, err)) != SP_OK)
        return rc;
    if (record < 0 || fsync(record) != 0 || fsync(d->fd) != 0)
        return err_sys(err, SP_IO, errno, "write out the box's directory");
    (void) snprintf(path, sizeof(path), "%s", p->dir);
    *strrchr(path, '/') = '\0';
    return sync_path(path, false, err);
}
