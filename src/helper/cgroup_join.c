/* cgroup_join.c - makes a box's cgroup, sets its limits and goes into it: for runtimes that do not. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/cgroup.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define TRACKER \
    "pids" /* the hierarchy (version 1) that holds the processes, with or without limits */

static int write_to(int dir, const char *name, const char *text)
{
    AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text) ? 0 : -1;
}

static int open_dir(int dir, const char *name)
{
    if (mkdirat(dir, name, 0755) != 0 && errno != EEXIST)
        return -1;
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Version 2: what a group may limit is decided by those above it. What is not to be had is found out
 * when a limit is set. */
static void delegate(int dir)
{
    static const char *const kinds[] = {"+memory", "+cpu", "+pids"};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (write_to(dir, "cgroup.subtree_control", kinds[i]) != 0)
            errno = 0;
}

/* The group in one hierarchy, made if need be. */
static int open_group(int top, const char *path, bool is_v2)
{
    const char *rest = path + 1;
    AUTO_CLOSE int dir = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[256];

    while (dir >= 0) {
        size_t len = strcspn(rest, "/");
        int next;

        if (is_v2)
            delegate(dir);
        if ((size_t) snprintf(name, sizeof(name), "%.*s", (int) len, rest) >= sizeof(name))
            return -1;
        next = open_dir(dir, name);
        if (rest[len] == '\0')
            return next;
        (void) close(dir); /* only a way */
        dir = next;
        rest += len + 1;
    }
    return -1;
}

/* Version 1: "memory.limit_in_bytes" is in the hierarchy "memory". */
static bool is_of(const struct plan_limit *l, const char *hierarchy)
{
    size_t len = strcspn(l->file, ".");

    return strlen(hierarchy) == len && strncmp(l->file, hierarchy, len) == 0;
}

/* `hierarchy` NULL: all limits are here. */
static int join(int top, const struct plan *p, const char *hierarchy, struct err *err)
{
    AUTO_CLOSE int group = open_group(top, p->cgroup, hierarchy == NULL);

    if (group < 0)
        return err_sys(err, SP_IO, errno, "make the cgroup '%.100s'", p->cgroup);
    for (size_t i = 0; i < p->limit_count; i++) {
        const struct plan_limit *l = &p->limits[i];

        if ((hierarchy == NULL || is_of(l, hierarchy)) && write_to(group, l->file, l->value) != 0)
            return err_sys(err, SP_IO, errno, "set %.60s to %.60s", l->file, l->value);
    }
    if (write_to(group, "cgroup.procs", "0") != 0)
        return err_sys(err, SP_IO, errno, "enter the cgroup '%.100s'", p->cgroup);
    return SP_OK;
}

static bool has_limit(const struct plan *p, const char *hierarchy)
{
    for (size_t i = 0; i < p->limit_count; i++)
        if (is_of(&p->limits[i], hierarchy))
            return true;
    return strcmp(hierarchy, TRACKER) == 0;
}

/* In version 1 systemd has a hierarchy without controllers, one of version 2 where that is there, too. */
void cgroup_place(const char *path, int pid)
{
    static const char *const trackers[] = {TRACKER, "systemd", "unified"};
    AUTO_CLOSE int root = open(CGROUP_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_v2 = faccessat(root, "cgroup.controllers", F_OK, 0) == 0;
    char number[16];

    (void) snprintf(number, sizeof(number), "%d", pid);
    for (size_t i = 0; i < (is_v2 ? 1 : ARRAY_LEN(trackers)); i++) {
        AUTO_CLOSE int top =
            openat(root, is_v2 ? "." : trackers[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        AUTO_CLOSE int group = top < 0 ? -1 : open_group(top, path, false);

        if (group >= 0 && write_to(group, "cgroup.procs", number) != 0)
            errno = 0; /* not ours to change: it stays where it is */
    }
}

int cgroup_join(const struct plan *p, struct err *err)
{
    static const char *const hierarchies[] = {"memory", "cpu", TRACKER};
    AUTO_CLOSE int root = open(CGROUP_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = SP_OK;

    if (root < 0)
        return err_sys(err, SP_IO, errno, CGROUP_ROOT);
    if (faccessat(root, "cgroup.controllers", F_OK, 0) == 0)
        return join(root, p, NULL, err);
    cgroup_place(p->cgroup, 0);
    for (size_t i = 0; rc == SP_OK && i < ARRAY_LEN(hierarchies); i++) {
        AUTO_CLOSE int top = -1;

        if (!has_limit(p, hierarchies[i]))
            continue;
        top = openat(root, hierarchies[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* may be a link */
        if (top < 0)
            return err_sys(err, SP_IO, errno, CGROUP_ROOT "/%s", hierarchies[i]);
        rc = join(top, p, hierarchies[i], err);
    }
    return rc;
}
