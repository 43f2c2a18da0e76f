/* flatten.c - the layers of a snapshot are merged into a new file system, file by file, when nobody else wants the processor or the
 * disk. Links, holes, attributes and owners stay; what was deleted stays deleted. */
#include "helper/flatten.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "helper/disk.h"
#include "helper/layers.h"
#include "helper/merge_copy.h"
#include "helper/tree_write.h"

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
    return rc == SP_OK ? layers_unmount_new(target, &top, err) : rc;
}

static int make(const struct plan *p, const struct merge_layer *layers, struct buf *answer,
                struct err *err)
{
    AUTO_CLOSE int disk = -1;
    struct json_out out;
    uint64_t bytes = 0;
    uint64_t inodes = 0;
    int rc;

    if ((rc = layers_measure(layers, p->layer_count, &bytes, &inodes, err)) != SP_OK ||
        (rc = layers_check_space(p, bytes, err)) != SP_OK ||
        (rc = disk_make(p->to, layers_disk_size(bytes, inodes), false, &disk, err)) != SP_OK ||
        (rc = fill(p, layers, disk, err)) != SP_OK ||
        (rc = disk_finish(disk, p->to, &out, err)) != SP_OK)
        return rc;
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
