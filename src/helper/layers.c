/* layers.c - see layers.h. What is mounted goes with the process. */
#include "helper/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/disk.h"
#include "helper/layer.h"

#define MB (1024ULL * 1024)
#define SLACK (64 * MB)
#define INODE_BYTES 16384ULL /* of a file system as disk_make() makes it */

/* Directories of all layers are open at once. */
static void raise_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void) setrlimit(RLIMIT_NOFILE, &files); /* what is missing is said when it is */
}

static int cover(const char *stage, int *ret_fd, struct err *err)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return err_sys(err, SP_IO, errno, "new mount namespace");
    if (mount("sandpool", stage, "tmpfs", MS_NOSUID | MS_NODEV,
              "mode=0700,size=64k,nr_inodes=64") != 0)
        return err_sys(err, SP_IO, errno, "mount a tmpfs at '%.100s'", stage);
    *ret_fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0 || mkdirat(*ret_fd, "disk", 0700) != 0)
        return err_sys(err, SP_IO, errno, "prepare '%.100s'", stage);
    return SP_OK;
}

int layers_open(const struct plan *p, struct merge_layer ret[PLAN_LAYERS_MAX], size_t *ret_count,
                struct err *err)
{
    AUTO_CLOSE int stage = -1;
    int rc = cover(p->stage, &stage, err);

    raise_files();
    for (size_t i = 0; rc == SP_OK && i < p->layer_count; i++) {
        char name[32];

        (void) snprintf(name, sizeof(name), "disk%zu", i);
        if (mkdirat(stage, name, 0700) != 0)
            return err_sys(err, SP_IO, errno, "make a place for a snapshot");
        if ((rc = layer_mount_disk(p, &p->layers[i], name, err)) != SP_OK)
            return rc;
        (void) snprintf(name, sizeof(name), "disk%zu/upper", i);
        ret[i] = (struct merge_layer){.id_base = p->layers[i].id_base};
        ret[i].fd = openat(stage, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (ret[i].fd < 0)
            return err_sys(err, SP_IO, errno, "open the files of '%.150s'", p->layers[i].disk);
        (*ret_count)++;
    }
    return rc;
}

void layers_close(struct merge_layer *layers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void) close(layers[i].fd); /* directories */
}

int layers_mount_new(const char *target, int disk, int *ret_top, struct err *err)
{
    AUTO_CLOSE int loop = -1;
    AUTO_CLOSE int dir = -1;
    char device[32];
    int number;
    int rc = disk_attach(disk, false, device, sizeof(device), &number, &loop, err);

    if (rc != SP_OK)
        return rc;
    if (mount(device, target, "ext4", MS_NODEV | MS_NOSUID | MS_NOATIME,
              "noinit_itable,barrier=0") != 0)
        return err_sys(err, SP_IO, errno, "mount '%s'", device);
    dir = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || mkdirat(dir, "upper", 0755) != 0)
        return err_sys(err, SP_IO, errno, "make the new layer");
    *ret_top = openat(dir, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_top >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "open the new layer");
}

int layers_unmount_new(const char *target, int *top, struct err *err)
{
    int rc = SP_OK;

    /* What the kernel could not write afterwards (the host's disk is full, or broken) is said here only, not by umount. */
    if (syncfs(*top) != 0)
        rc = err_sys(err, SP_IO, errno, "write out the files of the snapshot");
    (void) close(*top); /* else it cannot be unmounted */
    *top = -1;
    if (umount2(target, 0) != 0 && rc == SP_OK)
        rc = err_sys(err, SP_IO, errno, "write out the files of the snapshot");
    return rc;
}

int layers_measure(const struct merge_layer *layers, size_t count, uint64_t *ret_bytes,
                   uint64_t *ret_inodes, struct err *err)
{
    struct statvfs fs;

    *ret_bytes = *ret_inodes = 0;
    for (size_t i = 0; i < count; i++) {
        if (fstatvfs(layers[i].fd, &fs) != 0)
            return err_sys(err, SP_IO, errno, "measure the snapshot");
        *ret_bytes += (uint64_t) (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
        *ret_inodes += (uint64_t) (fs.f_files - fs.f_ffree);
    }
    return SP_OK;
}

uint64_t layers_disk_size(uint64_t bytes, uint64_t inodes)
{
    uint64_t size = MAX_OF(bytes + bytes / 8, (inodes + 1024) * INODE_BYTES) + SLACK;

    return size + (4096 - size % 4096) % 4096;
}

int layers_check_space(const struct plan *p, uint64_t bytes, struct err *err)
{
    char dir[PLAN_PATH_MAX + 1];
    struct statvfs fs;

    (void) snprintf(dir, sizeof(dir), "%s", p->to);
    *strrchr(dir, '/') = '\0'; /* it is absolute */
    if (statvfs(dir, &fs) != 0)
        return err_sys(err, SP_IO, errno, "measure '%.150s'", dir);
    if ((uint64_t) fs.f_bavail * fs.f_frsize < bytes + p->reserve)
        return err_set(err, SP_IO, "%llu MB are needed, and %llu MB more have to stay free",
                       (unsigned long long) (bytes / MB), (unsigned long long) (p->reserve / MB));
    return SP_OK;
}
