/* remove.c - ends a box: its processes, what the runtime knows of it, its cgroups, its files, in
 * this order, so that whatever stops us halfway leaves a directory that leads to the rest. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "helper/cgroup.h"
#include "helper/disk.h"
#include "helper/proc.h"
#include "helper/remove.h"
#include "helper/resolver.h"

#define DELETE_MS 10000
#define LOCK_MS 5000
#define LOOP_MS 5000
#define CGROUP_MS 2000

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* By the number that was written down when it was ready. */
static void kill_noted(const struct box_dir *d)
{
    unsigned long long seen[2];

    box_dir_numbers(d, "init", seen);
    if (seen[0] > 1 && seen[1] != 0)
        (void) proc_kill((pid_t) seen[0], seen[1], LOCK_MS); /* it may have ended */
}

/* By the runtime's number, where there is no other. The lock is held for the box, so the number of its
 * init is still its own. */
static void kill_init(const struct box_dir *d)
{
    unsigned long long seen[2];
    unsigned long long pid[2];
    struct box_dir again = {.fd = d->fd, .lock = -1};
    AUTO_CLOSE int pid_fd = -1;
    struct err err;

    box_dir_numbers(d, "init", seen);
    box_dir_numbers(d, "pid", pid);
    if (seen[0] != 0 || pid[0] <= 1)
        return;
    pid_fd = pidfd_open((pid_t) pid[0], 0);
    if (pid_fd < 0 || !proc_is_inner_init((pid_t) pid[0]))
        return;
    if (box_dir_lock(&again, 0, &err) == SP_OK)
        box_dir_unlock(&again); /* it died by itself */
    else
        (void) proc_kill((pid_t) pid[0], proc_start_time((pid_t) pid[0]), LOCK_MS);
}

/* A box runs a moment before its runtime has written its number. When its maker was stopped then, and there is no control
 * group, only the runtime knows its init. */
static int kill_by_runtime(const struct plan *p, const struct box_dir *d, struct err *err)
{
    struct proc_tail tail = {0};
    unsigned long long seen[2];
    unsigned long long pid[2];
    int status = 0; /* whether it is dead, the lock shows */

    box_dir_numbers(d, "init", seen);
    box_dir_numbers(d, "pid", pid);
    if (p->cgroup != NULL || seen[0] != 0 || pid[0] != 0 || p->remove == NULL ||
        (p->runtime_state != NULL && !exists(p->runtime_state)))
        return SP_OK;
    return proc_run(p->remove, DELETE_MS, &tail, &status, err);
}

/* Before its processes are killed: the mounts go with the last of them. */
static unsigned count_mounts(const struct box_dir *d)
{
    unsigned long long seen[2];
    char path[64];
    unsigned count = 0;
    FILE *f;
    int c;

    box_dir_numbers(d, "init", seen);
    if (seen[0] <= 1 || seen[1] == 0 || proc_start_time((pid_t) seen[0]) != seen[1])
        return 0;
    (void) snprintf(path, sizeof(path), "/proc/%llu/mountinfo", seen[0]);
    f = fopen(path, "re");
    while (f != NULL && (c = fgetc(f)) != EOF)
        count += c == '\n' ? 1 : 0;
    if (f != NULL)
        (void) fclose(f); /* only read */
    return count;
}

/* What was started beside the box, by the file with its number. */
static void kill_beside(const struct box_dir *d, const char *file)
{
    unsigned long long pid[2];

    box_dir_numbers(d, file, pid);
    if (pid[0] > 1 && pid[1] != 0)
        (void) proc_kill((pid_t) pid[0], pid[1], 1000); /* it may have ended */
}

static void kill_network(const struct box_dir *d)
{
    kill_beside(d, "guard.pid");
    kill_beside(d, "net.pid");
    kill_beside(d, RESOLVER_PID_FILE);
}

/* Takes the lock, killing whoever has it. */
static int end_processes(const struct plan *p, struct box_dir *d, struct remove_report *r,
                         struct err *err)
{
    int rc = box_dir_lock(d, 0, err);
    int kill_rc = SP_OK;
    uint64_t deadline;
    struct err why;

    r->was_running = rc == SP_LOCKED;
    r->mounts = count_mounts(d);
    if (p->cgroup != NULL) {
        r->processes = cgroup_count(p->cgroup);
        r->is_counted = r->processes > 0 || rc == SP_OK;
        cgroup_kill(p->cgroup); /* the lock shows whether they are dead */
    }
    kill_noted(d); /* also with the lock free: its holder, the relay, may have been killed alone */
    if (rc == SP_LOCKED) {
        kill_init(d);
        kill_rc = kill_by_runtime(p, d, &why);
    }
    kill_network(d);
    deadline = proc_now_ms() + LOCK_MS;
    while (rc == SP_LOCKED && proc_now_ms() < deadline) {
        rc = box_dir_lock(d, 50, err);
        if (rc == SP_LOCKED && p->cgroup != NULL)
            cgroup_kill(p->cgroup);
    }
    if (rc == SP_LOCKED && kill_rc != SP_OK)
        return err_set(err, SP_TIMEOUT, "the box cannot be killed: %.150s", why.msg);
    return rc == SP_LOCKED ? err_set(err, SP_TIMEOUT, "the box cannot be killed") : rc;
}

static int forget_in_runtime(const struct plan *p, struct tree_count *count, struct err *err)
{
    struct proc_tail tail = {0};
    int status = 0;
    int rc = SP_OK;

    /* A runtime with no state of it has nothing to forget: saves starting it. */
    if (p->runtime_state != NULL && !exists(p->runtime_state))
        return SP_OK;
    if (p->remove != NULL)
        rc = proc_run(p->remove, DELETE_MS, &tail, &status, err);
    if (p->runtime_state != NULL)
        return tree_remove(p->runtime_state, count, err); /* whatever the runtime said */
    if (rc == SP_OK && status != 0 && strstr(tail.text, "does not exist") == NULL)
        return err_set(err, SP_BACKEND_FAILED, "%.60s: %.150s", p->remove[0], tail.text);
    return rc;
}

static int remove_cgroups(const char *path, struct remove_report *r, struct err *err)
{
    uint64_t deadline = proc_now_ms() + CGROUP_MS;
    unsigned left = 0;

    for (;;) {
        r->cgroups += cgroup_remove(path, &left);
        if (left == 0)
            return SP_OK;
        if (proc_now_ms() >= deadline)
            return err_set(err, SP_IO, "%u cgroups '%.150s' cannot be removed", left, path);
        cgroup_kill(path); /* the dying keep it busy for a moment */
        proc_sleep_ms(2);
    }
}

/* The loop device goes by itself when the last mount of the box is gone, a moment after its last
 * process. "Removed" shall mean that it is. */
static int wait_for_loop(const struct plan *p, const struct box_dir *d, struct err *err)
{
    unsigned long long loop[2];
    uint64_t deadline = proc_now_ms() + LOOP_MS;
    char path[64];
    char want[PLAN_PATH_MAX + 16];
    char text[PLAN_PATH_MAX + 64];

    box_dir_numbers(d, "loop", loop);
    if (loop[1] == 0) /* "<number> 1" */
        return SP_OK;
    (void) snprintf(path, sizeof(path), "/sys/block/loop%llu/loop/backing_file", loop[0]);
    (void) snprintf(want, sizeof(want), "%s/disk\n", p->dir);
    for (;;) {
        (void) file_read_start(AT_FDCWD, path, text, sizeof(text)); /* "": it is gone */
        if (strcmp(text, want) != 0)
            return SP_OK;
        if (proc_now_ms() >= deadline)
            return err_set(err, SP_TIMEOUT, "loop device %llu is still in use", loop[0]);
        proc_sleep_ms(1);
    }
}

int remove_running(const struct plan *p, struct box_dir *d, struct err *err)
{
    struct remove_report r = {0};
    int rc = end_processes(p, d, &r, err);

    return rc == SP_OK ? wait_for_loop(p, d, err) : rc;
}

/* The first error of several steps is reported; all steps are taken. */
static void keep_first(int *rc, struct err *err, int step_rc, const struct err *step_err)
{
    if (*rc == SP_OK && step_rc != SP_OK) {
        *rc = step_rc;
        *err = *step_err;
    }
}

static int remove_outside(const struct plan *p, struct remove_report *r, struct err *err)
{
    struct err step = {0};
    int rc = SP_OK;

    if (p->cgroup != NULL)
        keep_first(&rc, err, remove_cgroups(p->cgroup, r, &step), &step);
    keep_first(&rc, err, forget_in_runtime(p, &r->tree, &step), &step);
    return rc;
}

int remove_leftover(const struct plan *p, const struct box_dir *d, struct remove_report *r,
                    struct err *err)
{
    static const char *const keep[] = {"lock", NULL};
    static const char *const keep_record[] = {"lock", "box.json", NULL};
    int rc;

    kill_network(d);
    if (faccessat(d->fd, "disk", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
        faccessat(d->fd, "upper", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        r->layers = 1;
    if ((rc = remove_outside(p, r, err)) != SP_OK || (rc = wait_for_loop(p, d, err)) != SP_OK ||
        (rc = disk_shrink(d, &r->tree.bytes, err)) != SP_OK ||
        (rc = tree_empty(d->fd, keep_record, &r->tree, err)) != SP_OK)
        return rc;
    return tree_empty(d->fd, keep, &r->tree, err);
}

int remove_box(const struct plan *p, struct remove_report *r, struct err *err)
{
    struct box_dir d;
    int rc = box_dir_open(p->dir, &d, err);

    *r = (struct remove_report){0};
    if (rc == SP_NOT_FOUND) {
        if (p->cgroup != NULL) {
            r->processes = cgroup_count(p->cgroup);
            r->is_counted = true;
            cgroup_kill(p->cgroup); /* a group that stays busy cannot be removed */
        }
        return remove_outside(p, r, err);
    }
    if (rc == SP_OK)
        rc = end_processes(p, &d, r, err);
    if (rc == SP_NOT_FOUND) { /* by another one that removes it */
        box_dir_close(&d);
        return remove_outside(p, r, err);
    }
    if (rc == SP_OK)
        rc = remove_leftover(p, &d, r, err);
    if (rc == SP_OK && unlinkat(d.fd, "lock", 0) != 0 && errno != ENOENT)
        rc = err_sys(err, SP_IO, errno, "remove the lock");
    if (rc == SP_OK && rmdir(p->dir) != 0 && errno != ENOENT)
        rc = err_sys(err, SP_IO, errno, "remove '%.150s'", p->dir);
    if (rc == SP_OK)
        r->tree.files += 2;
    box_dir_close(&d);
    return rc;
}
