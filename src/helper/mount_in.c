/* mount_in.c - attaches directories of the host to a box that runs: copies of mounts are prepared
 * here, then this process moves into the box's mount namespace and puts them in place. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/mem.h"
#include "helper/box_dir.h"
#include "helper/container.h"
#include "helper/host_dir.h"
#include "helper/inside.h"
#include "helper/mount_in.h"
#include "helper/proc.h"
#include "helper/source.h"

struct work {
    const struct plan *p;
    struct source *sources;
    int *attached; /* for undoing: the root of each new mount, or -1 */
    unsigned unmapped;
};

/* The lock is asked for after the process was got hold of: it was the box's then, so it is now. */
static int open_box(const struct plan *p, int *ret_pid_fd, struct err *err)
{
    AUTO_CLOSE int fd = pidfd_open(p->pid, 0);
    unsigned long long seen[2];
    struct box_dir d;
    int rc;

    if (fd < 0)
        return err_sys(err, ERR_BOX_DEAD, errno, "the box does not run");
    rc = box_dir_open(p->dir, &d, err);
    if (rc == SP_NOT_FOUND)
        return err_set(err, ERR_BOX_DEAD, "the box does not exist");
    if (rc != SP_OK)
        return rc;
    rc = box_dir_lock(&d, 0, err);
    box_dir_numbers(&d, "init", seen);
    box_dir_close(&d);
    if (rc == SP_OK)
        return err_set(err, ERR_BOX_DEAD, "the box does not run");
    if (rc != SP_LOCKED)
        return rc;
    if (seen[0] != (unsigned long long) p->pid || seen[1] != proc_start_time(p->pid))
        return err_set(err, ERR_BOX_DEAD, "process %d is not the box's", p->pid);
    *ret_pid_fd = TAKE_FD(fd);
    return SP_OK;
}

/* Is a mount there already, and is it this one? SP_NOT_FOUND: there is none. */
static int compare(int target, const struct source *s, const char *to, struct err *err)
{
    struct statvfs there;
    struct statvfs here;
    struct statx sx;
    struct stat st;

    if (statx(target, "", AT_EMPTY_PATH, STATX_INO, &sx) != 0 || fstat(target, &st) != 0 ||
        fstatvfs(target, &there) != 0 || fstatvfs(s->tree, &here) != 0)
        return err_sys(err, SP_IO, errno, "look at '%.100s' in the box", to);
    if ((sx.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0)
        return err_set(err, SP_NOT_FOUND, "nothing is mounted at '%.100s'", to);
    if (st.st_dev == s->dev && st.st_ino == s->ino &&
        (there.f_flag & ST_RDONLY) == (here.f_flag & ST_RDONLY))
        return SP_OK;
    return err_set(err, ERR_TAKEN, "something else is mounted at '%.100s' in the box", to);
}

static int attach(struct work *w, int own_fds, int root, size_t i, struct err *err)
{
    const struct plan_mount *m = &w->p->mounts[i];
    struct source *s = &w->sources[i];
    AUTO_CLOSE int target = -1;
    int rc;

    if (m->from == NULL)
        return host_dir_inside(w->p, m, root, err);
    rc = inside_target(root, m->to, s->is_dir, w->p->id_base, &target, err);
    if (rc == SP_OK)
        rc = inside_is_free(own_fds, root, target, m->to, err);
    if (rc != SP_OK)
        return rc;
    rc = compare(target, s, m->to, err);
    if (rc != SP_NOT_FOUND)
        return rc;
    if (move_mount(s->tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return err_sys(err, SP_IO, errno, "attach '%.80s' at '%.80s'", m->from, m->to);
    w->attached[i] = TAKE_FD(s->tree); /* it is the root of the mount in its place now */
    return SP_OK;
}

/* By descriptor: the path is the box's to change. `own_fds` is the host's /proc/self/fd, opened
 * before the box was entered. */
static void undo(const struct work *w, int own_fds)
{
    char name[16];

    if (fchdir(own_fds) != 0)
        return; /* the first error is the one to report */
    for (size_t i = 0; i < w->p->mount_count; i++) {
        if (w->attached[i] < 0)
            continue;
        (void) snprintf(name, sizeof(name), "%d", w->attached[i]);
        (void) umount2(name, MNT_DETACH); /* likewise */
    }
}

static int attach_all(struct work *w, int pid_fd, struct err *err)
{
    AUTO_CLOSE int own_fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int host = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int root = -1;
    int rc = SP_OK;

    if (own_fds < 0 || host < 0)
        return err_sys(err, SP_IO, errno, "/proc/self");
    if (setns(pid_fd, CLONE_NEWNS) != 0)
        return err_sys(err, SP_IO, errno, "enter the box");
    root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return err_sys(err, SP_IO, errno, "open the box's root");
    for (size_t i = 0; rc == SP_OK && i < w->p->mount_count; i++)
        rc = attach(w, own_fds, root, i, err);
    if (rc != SP_OK)
        undo(w, own_fds);
    (void) setns(host, CLONE_NEWNS); /* nothing is left to do but to print and exit */
    return rc;
}

static void print(const struct work *w, struct buf *answer)
{
    struct json_out out;

    json_out_init(&out);
    json_begin_obj(&out, NULL);
    json_put_u64(&out, "mounted", w->p->mount_count);
    json_put_u64(&out, "unmapped", w->unmapped);
    json_end(&out);
    json_out_finish(&out, answer);
}

int mount_in(struct plan *p, struct buf *answer, struct err *err)
{
    struct work w = {.p = p};
    AUTO_CLOSE int pid_fd = -1;
    int rc;

    w.sources = xcalloc(p->mount_count + 1, sizeof(*w.sources));
    w.attached = xcalloc(p->mount_count + 1, sizeof(*w.attached));
    for (size_t i = 0; i < p->mount_count; i++)
        w.attached[i] = -1;
    rc = p->container != NULL ? container_open(p, &pid_fd, err) : open_box(p, &pid_fd, err);
    if (rc == SP_OK && (rc = source_open_all(p, w.sources, &w.unmapped, err)) == SP_OK)
        rc = attach_all(&w, pid_fd, err);
    if (rc == SP_OK)
        print(&w, answer);
    for (size_t i = 0; i < p->mount_count; i++) {
        source_close(&w.sources[i]);
        if (w.attached[i] >= 0)
            (void) close(w.attached[i]); /* the mount stays where it is */
    }
    free(w.sources);
    free(w.attached);
    return rc;
}
