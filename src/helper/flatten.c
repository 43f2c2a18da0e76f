/* flatten.c - the layers of a snapshot are merged into a new file system, file by file, when nobody else wants the processor or the
 * disk. Links, holes, attributes and owners stay; what was deleted stays deleted. */
#include "helper/flatten.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "helper/disk.h"
#include "helper/layers.h"
#include "helper/merge_copy.h"
#include "helper/tree_write.h"

#define MB (1024ULL * 1024)
#define SLACK (64 * MB)
#define INODE_BYTES 16384ULL /* of a file system as disk_make() makes it */

/* --- how large --- */

/* What all layers use together: at most what the result needs. */
static int measure(const struct merge_layer *layers, size_t count, uint64_t *ret_bytes,
                   uint64_t *ret_size, struct err *err)
{
    uint64_t bytes = 0;
    uint64_t inodes = 0;
    struct statvfs fs;

    for (size_t i = 0; i < count; i++) {
        if (fstatvfs(layers[i].fd, &fs) != 0)
            return err_sys(err, SP_IO, errno, "measure the snapshot");
        bytes += (uint64_t) (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
        inodes += (uint64_t) (fs.f_files - fs.f_ffree);
    }
    *ret_bytes = bytes;
    *ret_size = MAX_OF(bytes + bytes / 8, (inodes + 1024) * INODE_BYTES) + SLACK;
    *ret_size += (4096 - *ret_size % 4096) % 4096;
    return SP_OK;
}

static int check_space(const struct plan *p, uint64_t bytes, struct err *err)
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

/* --- the work --- */

/* Not the idle class of the disk: a request of it can wait 10 s while others keep the disk busy, and a snapshot may be
 * waiting for this. */
static void be_modest(void)
{
    (void) setpriority(PRIO_PROCESS, 0, 15);
    (void) syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 7); /* this process, best effort, the last */
}

static int fill(const struct plan *p, const struct merge_layer *layers, int disk, struct err *err)
{
    char target[PLAN_PATH_MAX + 16];
    struct tree_writer w;
    AUTO_CLOSE int top = -1;
    int rc;

    (void) snprintf(target, sizeof(target), "%s/disk", p->stage);
    if ((rc = layers_mount_new(target, disk, &top, err)) != SP_OK)
        return rc;
    tree_writer_init(&w, top, p->id_base);
    rc = merge_layers(layers, p->layer_count,
                      &(struct merge_sink){.put = merge_put, .leave = merge_leave, .ctx = &w}, err);
    tree_writer_fini(&w);
    (void) close(TAKE_FD(top)); /* else it cannot be unmounted */
    if (umount2(target, 0) != 0 && rc == SP_OK)
        rc = err_sys(err, SP_IO, errno, "write out the new layer");
    return rc;
}

static int make(const struct plan *p, const struct merge_layer *layers, struct buf *answer,
                struct err *err)
{
    AUTO_CLOSE int disk = -1;
    struct json_out out;
    struct stat st;
    uint64_t bytes = 0;
    uint64_t size = 0;
    int rc;

    if ((rc = measure(layers, p->layer_count, &bytes, &size, err)) != SP_OK ||
        (rc = check_space(p, bytes, err)) != SP_OK ||
        (rc = disk_make(p->to, size, &disk, err)) != SP_OK ||
        (rc = fill(p, layers, disk, err)) != SP_OK)
        return rc;
    if (fsync(disk) != 0 || fstat(disk, &st) != 0) /* it is taken as whole from now on */
        return err_sys(err, SP_IO, errno, "sync '%.150s'", p->to);
    json_out_init(&out);
    json_begin_obj(&out, NULL);
    json_put_u64(&out, "size", (uint64_t) st.st_blocks * 512);
    json_end(&out);
    json_out_finish(&out, answer);
    return SP_OK;
}

int flatten_layers(const struct plan *p, struct buf *answer, struct err *err)
{
    struct merge_layer layers[PLAN_LAYERS_MAX];
    size_t count = 0;
    int rc;

    be_modest();
    (void) unlink(p->to); /* of one that was cut short */
    rc = layers_open(p, layers, &count, err);
    if (rc == SP_OK)
        rc = make(p, layers, answer, err);
    layers_close(layers, count);
    if (rc != SP_OK)
        (void) unlink(p->to); /* the error is what matters */
    return rc;
}
