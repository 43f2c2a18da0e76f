/* layer.c - a snapshot as a layer of a box's root: its disk on a loop device, its owners shifted from those of the box it
 * was taken from. Nothing is copied. The file may lose its name while the box runs. */
#include "helper/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/disk.h"
#include "helper/idmap.h"

int layer_mount_disk(const struct plan *p, const struct plan_layer *l, const char *name,
                     struct err *err)
{
    AUTO_CLOSE int file = open(l->disk, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int loop = -1;
    char target[PLAN_PATH_MAX + 32];
    char device[32];
    int number;
    int rc;

    if (file < 0)
        return err_sys(err, SP_IO, errno, "open '%.150s'", l->disk);
    if ((rc = disk_attach(file, true, device, sizeof(device), &number, &loop, err)) != SP_OK)
        return rc;
    (void) snprintf(target, sizeof(target), "%s/%s", p->stage, name);
    if (mount(device, target, "ext4", MS_RDONLY | MS_NODEV | MS_NOSUID | MS_NOATIME, "") != 0)
        return err_sys(err, SP_IO, errno, "mount '%.150s'", l->disk);
    return SP_OK;
}

static int show(const struct plan *p, const struct plan_layer *l, int stage, const char *name,
                const char *place, int *ret_fd, struct err *err)
{
    const struct idmap map = {.from_uid = l->id_base,
                              .from_gid = l->id_base,
                              .to_uid = p->id_base,
                              .to_gid = p->id_base,
                              .count = p->id_count};
    AUTO_CLOSE int top = openat(stage, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int upper =
        top < 0 ? -1 : openat(top, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int tree = -1;
    int rc;

    if (upper < 0)
        return err_sys(err, SP_IO, errno, "open the files of '%.150s'", l->disk);
    if ((rc = idmap_copy(upper, false, &tree, err)) != SP_OK ||
        (l->id_base != p->id_base && (rc = idmap_apply(tree, &map, err)) != SP_OK) ||
        (rc = idmap_restrict(tree, true, false, err)) != SP_OK)
        return rc;
    if (move_mount(tree, "", stage, place, MOVE_MOUNT_F_EMPTY_PATH) != 0)
        return err_sys(err, SP_IO, errno, "attach the snapshot");
    *ret_fd = openat(stage, place, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "open the snapshot");
}

int layer_mount(const struct plan *p, const struct plan_layer *l, int stage, unsigned number,
                int *ret_fd, struct err *err)
{
    char name[16];
    char place[16];
    int rc;

    (void) snprintf(name, sizeof(name), "disk%u", number);
    (void) snprintf(place, sizeof(place), "layer%u", number);
    if (mkdirat(stage, name, 0700) != 0 || mkdirat(stage, place, 0755) != 0)
        return err_sys(err, SP_IO, errno, "make a place for a snapshot");
    rc = layer_mount_disk(p, l, name, err);
    return rc == SP_OK ? show(p, l, stage, name, place, ret_fd, err) : rc;
}
