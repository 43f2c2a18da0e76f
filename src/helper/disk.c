/* disk.c - a file system of a fixed size for one box: a sparse copy of an empty one, on a loop
 * device that the kernel frees when the last mount of it is gone. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/disk.h"
#include "helper/proc.h"

#define MKFS_MS 30000
#define LOOP_TRIES 200
#define STEP_MIN ((off_t) 4 * 1024 * 1024) /* at most 1024 pieces */
#define STEPS_MAX 4096
#define SUPER_INCOMPAT (1024 + 0x60) /* s_feature_incompat in the superblock, little-endian */
#define INCOMPAT_RECOVER 0x4U        /* its journal has something that is not in its place yet */

static const char *const mkfs_paths[] = {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4",
                                         "/usr/bin/mkfs.ext4"};

static const char *find_mkfs(void)
{
    for (size_t i = 0; i < ARRAY_LEN(mkfs_paths); i++) {
        if (access(mkfs_paths[i], X_OK) == 0)
            return mkfs_paths[i];
    }
    return NULL;
}

/* No journal, unless the box outlives its machine. Nothing reserved, nothing written that need not
 * be, so that the file stays small and is copied in no time. */
static int run_mkfs(const char *path, bool is_durable, struct err *err)
{
    const char *mkfs = find_mkfs();
    const char *const argv[] = {mkfs,
                                "-q",
                                "-F",
                                "-b",
                                "4096",
                                "-I",
                                "256",
                                "-i",
                                "16384",
                                "-m",
                                "0",
                                "-O",
                                is_durable ? "has_journal,^resize_inode,sparse_super2"
                                           : "^has_journal,^resize_inode,sparse_super2",
                                "-E",
                                "lazy_itable_init=1,lazy_journal_init=1,nodiscard,num_backup_sb=0",
                                path,
                                is_durable ? "-J" : NULL,
                                "size=4",
                                NULL};
    struct proc_tail tail = {0};
    int status = 0;
    int rc;

    if (mkfs == NULL)
        return err_set(err, SP_UNSUPPORTED, "mkfs.ext4 (e2fsprogs) is not installed");
    rc = proc_run(argv, MKFS_MS, &tail, &status, err);
    if (rc == SP_OK && status != 0)
        return err_set(err, SP_IO, "mkfs.ext4 failed with status %d: %.150s", status, tail.text);
    return rc;
}

int disk_make(const char *path, uint64_t size, bool is_durable, int *ret_fd, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_sys(err, SP_IO, errno, "make '%.150s'", path);
    *ret_fd = fd;
    if (ftruncate(fd, (off_t) size) != 0)
        return err_sys(err, SP_IO, errno, "size '%.150s'", path);
    return run_mkfs(path, is_durable, err);
}

int disk_reserve(int fd, uint64_t size, struct err *err)
{
    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t) size) == 0 || errno == EOPNOTSUPP)
        return SP_OK;
    return err_sys(err, SP_IO, errno, "set %llu MB aside", (unsigned long long) (size >> 20));
}

int disk_trim(int fd, struct err *err)
{
    off_t size = lseek(fd, 0, SEEK_END);
    off_t data = 0;

    for (off_t hole = 0; hole < size; hole = lseek(fd, data, SEEK_HOLE)) {
        if (hole < 0 || ((data = lseek(fd, hole, SEEK_DATA)) < 0 && errno != ENXIO))
            return err_sys(err, SP_IO, errno, "look for unused space");
        if (data < 0) /* none follows */
            data = size;
        if (data > hole &&
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, hole, data - hole) != 0 &&
            errno != EOPNOTSUPP)
            return err_sys(err, SP_IO, errno, "give back unused space");
        if (data == size)
            break;
    }
    return SP_OK;
}

/* Two makers at once both make one; the last rename wins and either is good. */
static int make_template(const struct plan *p, int *ret_fd, struct err *err)
{
    const char *path = p->disk_template;
    char name[PLAN_PATH_MAX + 32];
    AUTO_CLOSE int fd = -1;
    int rc;

    (void) snprintf(name, sizeof(name), "%s.%d", path, (int) getpid());
    (void) unlink(name); /* of a maker that died and had our number */
    rc = disk_make(name, p->disk, p->is_durable, &fd, err);
    if (rc == SP_OK && fsync(fd) != 0) /* it is taken as whole from now on */
        rc = err_sys(err, SP_IO, errno, "sync '%.150s'", name);
    if (rc == SP_OK && rename(name, path) != 0)
        rc = err_sys(err, SP_IO, errno, "rename '%.150s'", name);
    if (rc != SP_OK) {
        (void) unlink(name); /* the first error is the one to report */
        return rc;
    }
    *ret_fd = TAKE_FD(fd);
    return SP_OK;
}

/* A template of another size (the setting was changed) is made anew. */
static int open_template(const struct plan *p, int *ret_fd, struct err *err)
{
    AUTO_CLOSE int fd = open(p->disk_template, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t) st.st_size == p->disk) {
        *ret_fd = TAKE_FD(fd);
        return SP_OK;
    }
    return make_template(p, ret_fd, err);
}

/* One run of data; both descriptors have the same offset before and after. */
static int copy_run(int from, int to, off_t at, off_t end)
{
    static char chunk[256 * 1024];

    while (at < end) {
        size_t want = MIN_OF((size_t) (end - at), sizeof(chunk));
        ssize_t n = pread(from, chunk, want, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || pwrite(to, chunk, (size_t) n, at) != n)
            return -1;
        at += n;
    }
    return 0;
}

int disk_copy(int from, int to, off_t size, struct err *err)
{
    off_t at = 0;

    if (ioctl(to, FICLONE, from) == 0)
        return SP_OK;
    if (ftruncate(to, size) != 0)
        return err_sys(err, SP_IO, errno, "size the disk");
    for (;;) {
        off_t data = lseek(from, at, SEEK_DATA);
        off_t end = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);

        if (data < 0 && errno == ENXIO)
            return SP_OK;
        if (end < 0 || copy_run(from, to, data, end) != 0)
            return err_sys(err, SP_IO, errno, "copy the disk");
        at = end;
    }
}

/* Between asking for a free device and taking it another may take it. */
int disk_attach(int file, bool is_ro, char *ret_path, size_t cap, int *ret_number, int *ret_fd,
                struct err *err)
{
    AUTO_CLOSE int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    struct loop_config config = {.fd = (unsigned) file};

    if (control < 0)
        return err_sys(err, SP_UNSUPPORTED, errno, "open /dev/loop-control");
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | (is_ro ? LO_FLAGS_READ_ONLY : 0);
    for (int i = 0; i < LOOP_TRIES; i++) {
        AUTO_CLOSE int fd = -1;
        int number = ioctl(control, LOOP_CTL_GET_FREE);

        if (number < 0)
            return err_sys(err, SP_IO, errno, "find a free loop device");
        (void) snprintf(ret_path, cap, "/dev/loop%d", number);
        fd = open(ret_path, (is_ro ? O_RDONLY : O_RDWR) | O_CLOEXEC);
        if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
            *ret_number = number;
            *ret_fd = TAKE_FD(fd);
            return SP_OK;
        }
        if (errno != EBUSY && errno != ENXIO && errno != ENOENT)
            return err_sys(err, SP_IO, errno, "set up '%s'", ret_path);
        proc_sleep_ms(i < 10 ? 0 : 5);
    }
    return err_set(err, SP_IO, "no loop device is available");
}

int disk_fill(const struct plan *p, int to, struct err *err)
{
    AUTO_CLOSE int from = -1;
    int rc = open_template(p, &from, err);

    if (rc != SP_OK)
        return err_wrap(err, "template");
    return disk_copy(from, to, (off_t) p->disk, err);
}

static int make_image(const struct plan *p, const struct box_dir *d, int *ret_fd, struct err *err)
{
    AUTO_CLOSE int to =
        openat(d->fd, "disk", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int rc;

    if (to < 0)
        return err_sys(err, SP_IO, errno, "make 'disk'");
    rc = disk_fill(p, to, err);
    if (rc == SP_OK)
        *ret_fd = TAKE_FD(to);
    return rc;
}

/* Whether the file system is one: made from a template that was damaged it may not be. */
static bool is_usable(const char *target)
{
    char path[PLAN_PATH_MAX + 16];

    (void) snprintf(path, sizeof(path), "%s/trial", target);
    return mkdir(path, 0700) == 0 && rmdir(path) == 0;
}

/* Whatever the template had, the next box does without it. */
static int blame_template(const struct plan *p, struct err *err)
{
    if (unlink(p->disk_template) != 0)
        return err_wrap(err, "the template '%.150s', which could not be removed", p->disk_template);
    return err_wrap(err, "the template '%.150s', which is made anew for the next box",
                    p->disk_template);
}

int disk_mount(const struct plan *p, const struct box_dir *d, const char *target, struct err *err)
{
    AUTO_CLOSE int file = -1;
    AUTO_CLOSE int loop = -1;
    char device[32];
    char text[32];
    int number = 0;
    int rc = make_image(p, d, &file, err);

    if (rc != SP_OK ||
        (rc = disk_attach(file, false, device, sizeof(device), &number, &loop, err)) != SP_OK)
        return rc;
    (void) snprintf(text, sizeof(text), "%d 1\n", number);
    if ((rc = box_dir_write(d, "loop", text, err)) != SP_OK)
        return rc;
    /* Without a thread that fills in the inode tables behind our back. Without barriers, unless the box outlives its
     * machine: its fsync() need not wait for the host's disk, and cannot keep that busy, nor the box from ending. */
    if (mount(device, target, "ext4", MS_NODEV | MS_NOSUID | MS_NOATIME,
              p->is_durable ? "noinit_itable" : "noinit_itable,barrier=0") != 0) {
        (void) err_sys(err, SP_IO, errno, "mount '%s'", device);
        return blame_template(p, err);
    }
    if (!is_usable(target)) {
        (void) err_sys(err, SP_IO, errno, "write to the file system on '%s'", device);
        return blame_template(p, err);
    }
    return SP_OK;
}

int disk_shrink(const struct box_dir *d, uint64_t *freed, struct err *err)
{
    AUTO_CLOSE int fd = openat(d->fd, "disk", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    off_t step;

    if (fd < 0)
        return errno == ENOENT ? SP_OK : err_sys(err, SP_IO, errno, "open 'disk'");
    if (fstat(fd, &st) != 0)
        return err_sys(err, SP_IO, errno, "look at 'disk'");
    if (st.st_nlink > 1) /* it is a snapshot's by now: only this name goes */
        return SP_OK;
    if ((off_t) st.st_blocks * 512 <= STEP_MIN) /* most: they go with their name */
        return SP_OK;
    step = MAX_OF(STEP_MIN, st.st_size / STEPS_MAX);
    for (off_t size = st.st_size; size > 0;) {
        size = size > step ? size - step : 0;
        if (ftruncate(fd, size) != 0)
            return err_sys(err, SP_IO, errno, "shrink 'disk'");
    }
    *freed += (uint64_t) st.st_blocks * 512;
    return SP_OK;
}

static bool needs_recovery(int file)
{
    unsigned char text[4] = {0};

    return pread(file, text, sizeof(text), SUPER_INCOMPAT) == (ssize_t) sizeof(text) &&
           (text[0] & INCOMPAT_RECOVER) != 0;
}

int disk_settle(int file, const char *target, struct err *err)
{
    AUTO_CLOSE int loop = -1;
    char device[32];
    int number;
    int rc;

    if (!needs_recovery(file))
        return SP_OK;
    if ((rc = disk_attach(file, false, device, sizeof(device), &number, &loop, err)) != SP_OK)
        return rc;
    if (mount(device, target, "ext4", MS_NODEV | MS_NOSUID | MS_NOEXEC | MS_NOATIME,
              "noinit_itable") != 0)
        return err_sys(err, SP_IO, errno, "mount '%s' to repair it", device);
    if (umount2(target, 0) != 0)
        return err_sys(err, SP_IO, errno, "unmount '%s'", device);
    if (fsync(file) != 0)
        return err_sys(err, SP_IO, errno, "write out the disk");
    return needs_recovery(file) ? err_set(err, SP_IO, "the file system is still not whole") : SP_OK;
}

int disk_leave_host(struct err *err)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        return err_sys(err, SP_IO, errno, "new mount namespace");
    return SP_OK;
}

int disk_finish(int file, const char *path, struct json_out *answer, struct err *err)
{
    struct stat st;

    if (fsync(file) != 0 || fstat(file, &st) != 0)
        return err_sys(err, SP_IO, errno, "write out '%.150s'", path);
    json_out_init(answer);
    json_begin_obj(answer, NULL);
    json_put_u64(answer, "size", (uint64_t) st.st_blocks * 512);
    return SP_OK;
}
