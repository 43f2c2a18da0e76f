/* capture.c - the disk of a running box, copied while the box stands still: what its processes had written is
 * written out first, so the copy is what they would read. The copy is then hashed, while the box goes on. */
#include "helper/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "helper/box_dir.h"
#include "helper/disk.h"
#include "helper/disk_digest.h"
#include "helper/freezer.h"
#include "helper/proc.h"
#include "helper/start.h"

/* The device of the box's disk, if it still is. */
static int find_device(const struct box_dir *d, int disk, char *ret, size_t cap, struct err *err)
{
    struct loop_info64 info;
    unsigned long long number[2];
    struct stat st;
    AUTO_CLOSE int fd = -1;

    box_dir_numbers(d, "loop", number);
    (void) snprintf(ret, cap, "/dev/loop%llu", number[0]);
    fd = number[1] != 0 ? open(ret, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) != 0 || fstat(disk, &st) != 0 ||
        info.lo_inode != st.st_ino || info.lo_device != st.st_dev)
        return err_set(err, SP_NOT_FOUND, "the box has no disk of its own, or does not run");
    return SP_OK;
}

/* Mounted a second time it is the same file system: the kernel has one for each device. */
static int write_out(const char *device, const char *stage, struct err *err)
{
    AUTO_CLOSE int fd = -1;

    if (disk_leave_host(err) != SP_OK)
        return err->code;
    if (mount(device, stage, "ext4", MS_NODEV | MS_NOSUID | MS_NOATIME,
              "noinit_itable,barrier=0") != 0)
        return err_sys(err, SP_IO, errno, "mount '%s' again", device);
    fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || syncfs(fd) != 0)
        return err_sys(err, SP_IO, errno, "write out the box's disk");
    return SP_OK;
}

static int copy_frozen(const struct plan *p, const char *device, int disk, int to,
                       uint64_t *ret_frozen_ms, struct err *err)
{
    struct stat st;
    struct err second;
    uint64_t since;
    /* Most of what is to be written out is written before the box stands still. */
    int rc = write_out(device, p->stage, err);

    if (rc != SP_OK)
        return rc;
    if (fstat(disk, &st) != 0)
        return err_sys(err, SP_IO, errno, "look at 'disk'");
    since = proc_now_ms();
    if ((rc = freezer_set(p->cgroup, true, err)) != SP_OK)
        return rc;
    {
        AUTO_CLOSE int fd = open(p->stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || syncfs(fd) != 0)
            rc = err_sys(err, SP_IO, errno, "write out the box's disk");
    }
    if (rc == SP_OK)
        rc = disk_copy(disk, to, st.st_size, err);
    if (rc == SP_OK && start_is_stopped())
        rc = err_set(err, SP_CANCELLED, "stopped by a signal");
    if (freezer_set(p->cgroup, false, rc == SP_OK ? err : &second) != SP_OK && rc == SP_OK)
        rc = err->code;
    *ret_frozen_ms = proc_now_ms() - since;
    return rc;
}

static int make_copy(const struct plan *p, const char *device, int disk, struct buf *answer,
                     struct err *err)
{
    AUTO_CLOSE int to = open(p->to, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    uint64_t frozen_ms = 0;
    struct json_out out;
    char digest[DISK_DIGEST_MAX];
    int rc;

    if (to < 0)
        return err_sys(err, SP_IO, errno, "make '%.150s'", p->to);
    if ((rc = copy_frozen(p, device, disk, to, &frozen_ms, err)) != SP_OK ||
        (rc = disk_settle(to, p->stage, err)) != SP_OK ||
        (rc = disk_digest(to, digest, err)) != SP_OK ||
        (rc = disk_finish(to, p->to, &out, err)) != SP_OK)
        return rc;
    json_put_str(&out, "digest", digest);
    json_put_u64(&out, "frozen_ms", frozen_ms);
    json_end(&out);
    json_out_finish(&out, answer);
    return SP_OK;
}

int capture_disk(const struct plan *p, struct buf *answer, struct err *err)
{
    AUTO_CLOSE int disk = -1;
    struct box_dir d;
    char device[32];
    int rc = box_dir_open(p->dir, &d, err);

    if (rc != SP_OK)
        return rc;
    disk = openat(d.fd, "disk", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    rc = disk < 0 ? err_set(err, SP_UNSUPPORTED,
                            "the box has no disk of its own: `limits.disk` of its profile is 0")
                  : find_device(&d, disk, device, sizeof(device), err);
    if (rc == SP_OK)
        rc = make_copy(p, device, disk, answer, err);
    box_dir_close(&d);
    if (rc != SP_OK)
        (void) unlink(p->to); /* the error is what matters */
    return rc;
}
