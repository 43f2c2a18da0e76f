/* rootfs.c - puts a box's root together: overlay over the base, its own directories and files, and
 * what it may see of the host. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "helper/alone.h"
#include "helper/connector.h"
#include "helper/disk.h"
#include "helper/fit.h"
#include "helper/idmap.h"
#include "helper/inside.h"
#include "helper/layer.h"
#include "helper/rootfs.h"
#include "helper/source.h"
#include "helper/user_ns.h"

/* What the overlay is made of. Opened after the namespace was left and before the stage is covered:
 * the kernel wants them from this namespace, and they may lie below the stage. */
struct layers {
    int lower;
    int upper;
    int work;
    int snapshots[PLAN_LAYERS_MAX]; /* the last one first */
    size_t snapshot_count;
};

static int enter_namespace(struct err *err)
{
    if (unshare(CLONE_NEWNS) != 0)
        return err_sys(err, SP_IO, errno, "new mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        return err_sys(err, SP_IO, errno, "keep mounts from the host");
    return SP_OK;
}

static int cover_stage(const char *stage, int *ret_fd, struct err *err)
{
    if (mount("sandpool", stage, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k,nr_inodes=64"))
        return err_sys(err, SP_IO, errno, "mount a tmpfs at '%.100s'", stage);
    *ret_fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0 || mkdirat(*ret_fd, "rootfs", 0755) != 0 || mkdirat(*ret_fd, "lower", 0755) ||
        mkdirat(*ret_fd, "disk", 0700) != 0 || mkdirat(*ret_fd, "empty", 0755) != 0 ||
        mkdirat(*ret_fd, "file", 0755) != 0)
        return err_sys(err, SP_IO, errno, "prepare '%.100s'", stage);
    return SP_OK;
}

/* The root of the upper layer is the box's "/". */
static int make_layers(int dir, const struct plan *p, struct layers *l, struct err *err)
{
    if (mkdirat(dir, "upper", 0755) != 0 || mkdirat(dir, "work", 0700) != 0)
        return err_sys(err, SP_IO, errno, "make the upper layer");
    l->upper = openat(dir, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    l->work = openat(dir, "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (l->upper < 0 || l->work < 0 || fchown(l->upper, p->id_base, p->id_base) != 0)
        return err_sys(err, SP_IO, errno, "open the upper layer");
    return SP_OK;
}

static int make_upper(const struct plan *p, const struct box_dir *d, int stage, struct layers *l,
                      struct err *err)
{
    AUTO_CLOSE int own = -1;
    char path[PLAN_PATH_MAX + 16];
    int rc;

    /* Reached by its path from here: the descriptor belongs to the namespace that was left. */
    if (p->disk == 0)
        own = open(p->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    else {
        (void) snprintf(path, sizeof(path), "%s/disk", p->stage);
        if ((rc = disk_mount(p, d, path, err)) != SP_OK)
            return err_wrap(err, "disk");
        own = openat(stage, "disk", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (own < 0)
        return err_sys(err, SP_IO, errno, "open the upper layer");
    return make_layers(own, p, l, err);
}

/* SP_UNSUPPORTED: the base can only be shown with the owners it has. */
static int map_lower(const struct plan *p, int stage, struct layers *l, struct err *err)
{
    struct idmap map = {.to_uid = p->id_base, .to_gid = p->id_base, .count = p->id_count};
    AUTO_CLOSE int tree = -1;
    int mapped;
    int rc;

    if ((rc = idmap_copy(l->lower, false, &tree, err)) != SP_OK ||
        (rc = idmap_apply(tree, &map, err)) != SP_OK ||
        (rc = idmap_restrict(tree, true, false, err)) != SP_OK)
        return rc;
    if (move_mount(tree, "", stage, "lower", MOVE_MOUNT_F_EMPTY_PATH) != 0)
        return err_sys(err, SP_IO, errno, "attach the base");
    mapped = openat(stage, "lower", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (mapped < 0)
        return err_sys(err, SP_IO, errno, "open the base");
    (void) close(l->lower); /* O_PATH */
    l->lower = mapped;
    return SP_OK;
}

/* Names by descriptor: no character in a path can be taken for an option, and the box does not see
 * in its list of mounts where on the host it lies. */
static int mount_overlay(const char *target, bool is_durable, const struct layers *l)
{
    char options[256 + 32 * PLAN_LAYERS_MAX];
    int len = snprintf(options, sizeof(options), "lowerdir=");

    for (size_t i = 0; i < l->snapshot_count; i++)
        len += snprintf(options + len, sizeof(options) - (size_t) len,
                        "/proc/self/fd/%d:", l->snapshots[i]);
    (void) snprintf(options + len, sizeof(options) - (size_t) len,
                    "/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d%s%s",
                    l->lower, l->upper, l->work, user_ns_is_entered() ? ",userxattr" : "",
                    is_durable ? "" : ",volatile");
    /* A box that does not outlive its machine has nothing that needs to reach the disk in time. */
    if (mount("sandpool", target, "overlay", MS_NODEV, options) == 0)
        return 0;
    if (is_durable)
        return -1;
    *strrchr(options, ',') = '\0'; /* older kernels */
    return mount("sandpool", target, "overlay", MS_NODEV, options);
}

static int mount_snapshots(const struct plan *p, int stage, struct layers *l, struct err *err)
{
    int rc = SP_OK;

    for (size_t i = 0; rc == SP_OK && i < p->layer_count; i++) {
        rc = layer_mount(p, &p->layers[i], stage, (unsigned) i, &l->snapshots[i], err);
        if (rc == SP_OK)
            l->snapshot_count++;
    }
    return rc;
}

static int make_root(const struct plan *p, int stage, struct layers *l, struct err *err)
{
    AUTO_CLOSE int plain = fcntl(l->lower, F_DUPFD_CLOEXEC, 5);
    char target[PLAN_PATH_MAX + 16];
    int rc = SP_OK;

    (void) snprintf(target, sizeof(target), "%s/rootfs", p->stage);
    if (p->is_lower_mapped)
        rc = map_lower(p, stage, l, err);
    if (rc != SP_OK && rc != SP_UNSUPPORTED)
        return rc;
    if (mount_overlay(target, p->is_durable, l) == 0)
        return SP_OK;
    if (p->is_lower_mapped && rc == SP_OK && errno == EINVAL && plain >= 0) {
        (void) close(l->lower); /* O_PATH */
        l->lower = TAKE_FD(plain);
        if (mount_overlay(target, p->is_durable, l) == 0)
            return SP_OK; /* a kernel that maps mounts but not those of an overlay */
    }
    return err_sys(err, SP_IO, errno, "mount the overlay");
}

/* `fds`: -1 for what the daemon itself chose, else /proc/self/fd: a link of the base may lead anywhere in the box. */
static int attach(int root, int fds, const struct plan *p, const struct plan_mount *m,
                  const struct source *s, struct err *err)
{
    AUTO_CLOSE int target = -1;
    int rc = inside_target(root, m->to, s->is_dir, p->id_base, &target, err);

    if (rc == SP_OK && fds >= 0)
        rc = inside_is_free(fds, root, target, m->to, err);
    if (rc != SP_OK)
        return rc;
    if (move_mount(s->tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return err_sys(err, SP_IO, errno, "attach '%.80s' at '%.80s'", m->from, m->to);
    return SP_OK;
}

/* An overlay of this box's own at the directory `target`, which shows `from`. SP_UNSUPPORTED: the
 * host's file system has too many layers already. */
static int mount_own(int stage, const char *from, const char *target, struct err *err)
{
    AUTO_CLOSE int shown = open(from, O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int empty = openat(stage, "empty", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char options[96];

    if (shown < 0 || empty < 0)
        return err_sys(err, SP_IO, errno, "open '%.150s'", from);
    (void) snprintf(options, sizeof(options), "lowerdir=/proc/self/fd/%d:/proc/self/fd/%d", shown,
                    empty);
    if (mount("sandpool", target, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options) != 0)
        return err_sys(err, errno == EINVAL ? SP_UNSUPPORTED : SP_IO, errno, "show '%.100s'", from);
    return SP_OK;
}

/* A directory of the host that every box sees: with a bind the boxes and the host would share its
 * inodes, and so see each other's inotify events and wait for each other's locks. */
static int show_dir(int root, int stage, const struct plan *p, const struct plan_mount *m,
                    struct err *err)
{
    AUTO_CLOSE int target = -1;
    char path[32];
    int rc = inside_target(root, m->to, true, p->id_base, &target, err);

    if (rc != SP_OK)
        return rc;
    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", target);
    return mount_own(stage, m->from, path, err);
}

/* The same for a file: it is taken out of an overlay of its directory. So the box does not see in its
 * list of mounts either where on the host the file lies. */
static int show_file(int root, int stage, const struct plan *p, const struct plan_mount *m,
                     struct err *err)
{
    AUTO_FREE char *from = realpath(m->from, NULL);
    char *name = from != NULL ? strrchr(from, '/') : NULL;
    char path[2 * PLAN_PATH_MAX];
    struct plan_mount own = {.from = path, .to = m->to, .is_ro = true};
    char over[PLAN_PATH_MAX + 16];
    struct source s;
    int rc;

    if (name == NULL)
        return err_sys(err, SP_IO, errno, "open '%.150s'", m->from);
    *name++ = '\0';
    (void) snprintf(over, sizeof(over), "%s/file", p->stage);
    (void) snprintf(path, sizeof(path), "%s/%s", over, name);
    if ((rc = mount_own(stage, from[0] != '\0' ? from : "/", over, err)) != SP_OK)
        return rc;
    if ((rc = source_open_own(&own, &s, err)) == SP_OK)
        rc = attach(root, -1, p, m, &s, err);
    source_close(&s);
    (void) umount2(over,
                   MNT_DETACH); /* the file has been taken out; the next one needs the place */
    return rc;
}

static bool is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int add_bind(int root, int stage, const struct plan *p, const struct plan_mount *m,
                    struct err *err)
{
    struct source s;
    int rc = SP_UNSUPPORTED;

    if (m->is_ro)
        rc = is_dir(m->from) ? show_dir(root, stage, p, m, err) : show_file(root, stage, p, m, err);
    if (rc != SP_UNSUPPORTED)
        return rc;
    rc = source_open_own(m, &s, err);
    if (rc == SP_OK)
        rc = attach(root, -1, p, m, &s, err);
    source_close(&s);
    return rc;
}

/* What is in the way in a snapshot is not the machine's fault, and stays. */
static int blame(const struct plan *p, int rc)
{
    return rc == SP_NOT_FOUND && p->layer_count > 0 ? SP_PROGRAM_NOT_EXECUTABLE : rc;
}

static int add_mounts(int root, int stage, const struct plan *p, const struct source *sources,
                      struct err *err)
{
    AUTO_CLOSE int fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fds >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "/proc/self");

    for (size_t i = 0; rc == SP_OK && i < p->bind_count; i++)
        rc = blame(p, add_bind(root, stage, p, &p->binds[i], err));
    for (size_t i = 0; rc == SP_OK && i < p->mount_count; i++)
        rc = attach(root, fds, p, &p->mounts[i], &sources[i], err);
    return rc;
}

static int fill(int root, const struct plan *p, struct err *err)
{
    int rc = SP_OK;

    for (size_t i = 0; rc == SP_OK && i < p->owned_count; i++) {
        if (p->layer_count == 0) /* else it would hide what the snapshot has in it */
            rc = alone_make(root, p->owned[i].path, err);
        if (rc == SP_OK)
            rc = inside_own(root, p->owned[i].path, p->id_base + p->owned[i].id, p->owned[i].mode,
                            p->id_base, err);
    }
    for (size_t i = 0; rc == SP_OK && i < p->file_count; i++)
        rc = inside_write(root, p->files[i].path, p->files[i].text, p->id_base, err);
    return blame(p, rc);
}

static int build(const struct plan *p, const struct box_dir *d, const struct source *sources,
                 struct err *err)
{
    struct layers l = {.lower = -1, .upper = -1, .work = -1};
    AUTO_CLOSE int stage = -1;
    AUTO_CLOSE int root = -1;
    int rc;

    l.lower = open(p->lower, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (l.lower < 0)
        return err_sys(err, SP_IO, errno, "open the base '%.150s'", p->lower);
    if ((rc = cover_stage(p->stage, &stage, err)) == SP_OK &&
        (rc = make_upper(p, d, stage, &l, err)) == SP_OK &&
        (rc = mount_snapshots(p, stage, &l, err)) == SP_OK)
        rc = make_root(p, stage, &l, err);
    for (size_t i = 0; i < l.snapshot_count; i++)
        (void) close(l.snapshots[i]); /* O_PATH */
    (void) close(l.lower);            /* O_PATH */
    if (l.upper >= 0)
        (void) close(l.upper); /* a directory */
    if (l.work >= 0)
        (void) close(l.work); /* a directory */
    if (rc != SP_OK)
        return rc;
    root = openat(stage, "rootfs", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return err_sys(err, SP_IO, errno, "open the box's root");
    if ((rc = fill(root, p, err)) != SP_OK)
        return rc;
    if ((rc = add_mounts(root, stage, p, sources, err)) != SP_OK ||
        (rc = fit_check(root, err)) != SP_OK || p->connect == NULL)
        return rc;
    return blame(p, connector_make_dir(p, root, err));
}

int rootfs_make(const struct plan *p, const struct box_dir *d, unsigned *ret_unmapped,
                struct err *err)
{
    struct source *sources;
    int rc = enter_namespace(err);

    if (rc != SP_OK)
        return rc;
    sources = xcalloc(p->mount_count + 1, sizeof(*sources));
    rc = source_open_all(p, sources, ret_unmapped, err); /* they may lie below the stage */
    if (rc == SP_OK)
        rc = build(p, d, sources, err);
    for (size_t i = 0; i < p->mount_count; i++)
        source_close(&sources[i]);
    free(sources);
    return rc;
}
