/* container_disk.c - a file system of a fixed size below directories of a container that runs. Each directory becomes an
 * overlay: what the image has in it is seen as before, what is written goes to the one disk they share. The disk's
 * file has no name, and all of it is mounted in the container's mount namespace only: it goes when the container goes,
 * whoever ends that, and nothing has to be found or removed after a crash. */
#include "helper/container_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "helper/container.h"
#include "helper/container_places.h"
#include "helper/disk.h"
#include "helper/inside.h"

struct place {
    const char *path;
    int lower; /* as the image has it */
    int tree;  /* the overlay, detached */
};

struct places {
    struct place of[PLAN_PLACES_MAX + 1]; /* and the home */
    size_t count;
};

static int configure(int context, unsigned command, const char *key, const char *value)
{
    return fsconfig(context, command, key, value, 0);
}

static int make_detached(int context, unsigned flags, int *ret_fd)
{
    if (configure(context, FSCONFIG_CMD_CREATE, NULL, NULL) != 0)
        return -1;
    *ret_fd = fsmount(context, FSMOUNT_CLOEXEC, flags);
    return *ret_fd < 0 ? -1 : 0;
}

static int open_image(const struct plan *p, int *ret_fd, struct err *err)
{
    AUTO_CLOSE int to = open(p->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int rc;

    if (to < 0)
        return err_sys(err, SP_IO, errno, "make a file in '%.150s'", p->dir);
    rc = disk_fill(p, to, err);
    if (rc == SP_OK)
        *ret_fd = TAKE_FD(to);
    return rc;
}

/* container_places.c finds it again by that. */
static int name_device(const struct plan *p, int loop, struct err *err)
{
    struct loop_info64 info;

    if (ioctl(loop, LOOP_GET_STATUS64, &info) != 0)
        return err_sys(err, SP_IO, errno, "look at the box's disk");
    container_disk_name(p, (char *) info.lo_file_name);
    return ioctl(loop, LOOP_SET_STATUS64, &info) == 0
               ? SP_OK
               : err_sys(err, SP_IO, errno, "name the box's disk");
}

/* Without barriers, as in disk.c: it does not outlive its machine. */
int container_disk_mount(const char *device, int *ret_fd, struct err *err)
{
    AUTO_CLOSE int context = fsopen("ext4", FSOPEN_CLOEXEC);

    if (context < 0 || configure(context, FSCONFIG_SET_STRING, "source", device) != 0 ||
        configure(context, FSCONFIG_SET_FLAG, "noinit_itable", NULL) != 0 ||
        configure(context, FSCONFIG_SET_STRING, "barrier", "0") != 0 ||
        make_detached(context, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME, ret_fd))
        return err_sys(err, SP_IO, errno, "mount '%s'", device);
    return SP_OK;
}

/* What a machine does not have, or a container in which the daemon runs may not do, is no accident of this box. */
static int judge(int rc, struct err *err)
{
    static const int lacking[] = {EPERM, EACCES, EOPNOTSUPP, EISDIR, ENODEV, ENXIO, ENOENT};

    for (size_t i = 0; rc == SP_IO && i < ARRAY_LEN(lacking); i++)
        if (err->sys == lacking[i])
            rc = err->code = SP_UNSUPPORTED;
    return rc;
}

static int open_disk(const struct plan *p, int *ret_fd, struct err *err)
{
    AUTO_CLOSE int file = -1;
    AUTO_CLOSE int loop = -1;
    char device[32];
    int number;
    int rc = open_image(p, &file, err);

    if (rc != SP_OK ||
        (rc = disk_attach(file, false, device, sizeof(device), &number, &loop, err)) != SP_OK ||
        (rc = name_device(p, loop, err)) != SP_OK)
        return rc;
    return container_disk_mount(device, ret_fd, err);
}

/* Field 3 (an id) and field 6 (a directory) of a line of /etc/passwd. */
static bool read_home(char *line, uint32_t *ret_id, const char **ret_home)
{
    char *rest = line;
    const char *fields[6] = {NULL};

    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        fields[i] = strsep(&rest, ":\n");
    if (fields[5] == NULL)
        return false;
    *ret_id = (uint32_t) strtoul(fields[2], NULL, 10);
    *ret_home = fields[5];
    return plan_path_is_below(fields[5], "/") && strpbrk(fields[5], ",\\") == NULL &&
           strcmp(fields[5], "/") != 0;
}

/* Of the user that the container's first process runs as; "": none that can be used. */
static void find_home(const struct plan *p, char ret[static PLAN_PATH_MAX + 1])
{
    FILE *f = fopen("/etc/passwd", "re");
    char line[PLAN_PATH_MAX];
    const char *home;
    uint32_t id;

    ret[0] = '\0';
    while (f != NULL && ret[0] == '\0' && fgets(line, sizeof(line), f) != NULL)
        if (read_home(line, &id, &home) && id == p->owner_uid - p->id_base)
            (void) snprintf(ret, PLAN_PATH_MAX + 1, "%s", home);
    if (f != NULL)
        (void) fclose(f); /* only read */
}

/* One in another is limited with that. */
static bool is_in_another(const char *const *names, size_t count, size_t i)
{
    for (size_t k = 0; k < count; k++)
        if (k != i && strcmp(names[k], names[i]) != 0 && plan_path_is_below(names[i], names[k]))
            return true;
    return false;
}

static bool is_same(int a, int b)
{
    struct stat x;
    struct stat y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Of the container, whose mount namespace this process is in. */
struct inside {
    int fds;  /* /proc/self/fd, opened before */
    int root; /* its own */
};

/* By a link, or by what /etc/passwd says, a place can be anything of the container. An overlay of what the kernel or we have
 * mounted there would cover it, and show what the engine hides: that is no place. */
static int open_place(const struct inside *in, const char *path, struct places *ret,
                      struct err *err)
{
    struct place *place = &ret->of[ret->count];
    AUTO_CLOSE int fd =
        inside_open(in->root, path, O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    int rc;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return SP_OK; /* it does not have it */
    if (fd < 0)
        return err_sys(err, SP_IO, errno, "open '%.100s' in the box", path);
    rc = inside_is_free(in->fds, in->root, fd, path, err);
    if (rc != SP_OK)
        return rc == SP_NOT_FOUND ? SP_OK : rc;
    for (size_t i = 0; i < ret->count; i++)
        if (is_same(ret->of[i].lower, fd))
            return SP_OK;
    place->path = path;
    place->lower = TAKE_FD(fd);
    ret->count++;
    return SP_OK;
}

static int open_places(const struct inside *in, const struct plan *p, const char *home,
                       struct places *ret, struct err *err)
{
    const char *names[PLAN_PLACES_MAX + 1];
    size_t count = 0;
    int rc = SP_OK;

    for (size_t i = 0; i < p->place_count; i++)
        names[count++] = p->places[i];
    if (home[0] != '\0')
        names[count++] = home;
    for (size_t i = 0; rc == SP_OK && i < count; i++)
        if (!is_in_another(names, count, i))
            rc = open_place(in, names[i], ret, err);
    if (rc != SP_OK)
        return rc;
    return ret->count > 0 ? SP_OK
                          : err_set(err, SP_NOT_FOUND, "the box has none of its directories");
}

/* What is written to a place, owned and accessible as the place itself. */
static int make_upper(int disk, const struct place *place, size_t i, struct err *err)
{
    AUTO_CLOSE int upper = -1;
    char name[24];
    struct stat st;

    (void) snprintf(name, sizeof(name), "w%zu", i);
    if (mkdirat(disk, name, 0700) != 0)
        return err_sys(err, SP_IO, errno, "make '%s' on the disk", name);
    name[0] = 'u';
    if (mkdirat(disk, name, 0700) != 0 || fstat(place->lower, &st) != 0)
        return err_sys(err, SP_IO, errno, "make '%s' on the disk", name);
    upper = openat(disk, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (upper < 0 || fchown(upper, st.st_uid, st.st_gid) != 0 ||
        fchmod(upper, st.st_mode & 07777) != 0)
        return err_sys(err, SP_IO, errno, "set the owner of '%s' on the disk", name);
    return SP_OK;
}

/* "." is the place as the image has it, also while the disk is mounted over the first of them. What is written to an
 * upper directory is understood there alone, without the others: a snapshot takes it elsewhere. */
static int make_overlay(struct place *place, const char *disk_at, size_t i, struct err *err)
{
    AUTO_CLOSE int context = fsopen("overlay", FSOPEN_CLOEXEC);
    char upper[PLAN_PATH_MAX + 16];
    char work[PLAN_PATH_MAX + 16];

    (void) snprintf(upper, sizeof(upper), "%s/u%zu", disk_at, i);
    (void) snprintf(work, sizeof(work), "%s/w%zu", disk_at, i);
    if (context < 0 || fchdir(place->lower) != 0 ||
        configure(context, FSCONFIG_SET_STRING, "source", CONTAINER_OVERLAY) != 0 ||
        configure(context, FSCONFIG_SET_STRING, "lowerdir", ".") != 0 ||
        configure(context, FSCONFIG_SET_STRING, "upperdir", upper) != 0 ||
        configure(context, FSCONFIG_SET_STRING, "workdir", work) != 0 ||
        configure(context, FSCONFIG_SET_STRING, "redirect_dir", "off") != 0 ||
        configure(context, FSCONFIG_SET_STRING, "metacopy", "off") != 0 ||
        configure(context, FSCONFIG_SET_STRING, "index", "off") != 0 ||
        make_detached(context, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &place->tree) != 0)
        return err_sys(err, SP_UNSUPPORTED, errno, "an overlay for '%.100s' in the box",
                       place->path);
    return SP_OK;
}

static int cover(struct places *ps, int disk, struct err *err)
{
    const char *disk_at = ps->of[0].path;
    int rc = SP_OK;

    for (size_t i = 0; rc == SP_OK && i < ps->count; i++)
        rc = make_upper(disk, &ps->of[i], i, err);
    if (rc != SP_OK)
        return rc;
    if (move_mount(disk, "", ps->of[0].lower, "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH))
        return err_sys(err, SP_IO, errno, "attach the disk to the box");
    for (size_t i = 0; rc == SP_OK && i < ps->count; i++)
        rc = make_overlay(&ps->of[i], disk_at, i, err);
    if (umount2(disk_at, MNT_DETACH) != 0 && rc == SP_OK)
        rc = err_sys(err, SP_IO, errno, "take the disk out of the box again");
    for (size_t i = 0; rc == SP_OK && i < ps->count; i++)
        if (move_mount(ps->of[i].tree, "", ps->of[i].lower, "",
                       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
            rc = err_sys(err, SP_IO, errno, "attach an overlay at '%.100s' in the box",
                         ps->of[i].path);
    return rc;
}

static void print(const struct places *ps, struct buf *answer)
{
    struct json_out out;

    json_out_init(&out);
    json_begin_obj(&out, NULL);
    json_put_u64(&out, "places", ps->count);
    json_end(&out);
    json_out_finish(&out, answer);
}

static int enter(int pid_fd, int *ret_fds, int *ret_root, struct err *err)
{
    *ret_fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fds < 0)
        return err_sys(err, SP_IO, errno, "/proc/self");
    if (setns(pid_fd, CLONE_NEWNS) != 0)
        return err_sys(err, SP_IO, errno, "enter the box");
    *ret_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *ret_root >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "open the box's root");
}

int container_disk(struct plan *p, struct buf *answer, struct err *err)
{
    AUTO_CLOSE int host = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int pid_fd = -1;
    AUTO_CLOSE int disk = -1;
    AUTO_CLOSE int fds = -1;
    AUTO_CLOSE int root = -1;
    struct places ps = {.count = 0};
    char home[PLAN_PATH_MAX + 1];
    int rc;

    for (size_t i = 0; i < ARRAY_LEN(ps.of); i++)
        ps.of[i] = (struct place){.lower = -1, .tree = -1};
    if ((rc = container_open(p, &pid_fd, err)) != SP_OK ||
        (rc = judge(open_disk(p, &disk, err), err)) != SP_OK)
        return rc;
    rc = enter(pid_fd, &fds, &root, err);
    if (rc == SP_OK) {
        find_home(p, home);
        rc = open_places(&(struct inside){.fds = fds, .root = root}, p, home, &ps, err);
    }
    if (rc == SP_OK)
        rc = cover(&ps, disk, err);
    (void) setns(host, CLONE_NEWNS); /* what looks at this process when it ends finds its /proc */
    if (rc == SP_OK)
        print(&ps, answer);
    for (size_t i = 0; i < ARRAY_LEN(ps.of); i++) {
        if (ps.of[i].lower >= 0)
            (void) close(ps.of[i].lower); /* only opened */
        if (ps.of[i].tree >= 0)
            (void) close(ps.of[i].tree); /* the mount stays where it is */
    }
    return rc;
}
