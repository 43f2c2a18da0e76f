/* cgroup.c - finds a box's cgroup in every mounted hierarchy, kills what is in it, removes it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "helper/cgroup.h"
#include "helper/proc.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define DEPTH_MAX 8

/* Opens `path` in one hierarchy; -1: not there. */
static int open_in(int root, const char *hierarchy, const char *path)
{
    AUTO_CLOSE int top = openat(root, hierarchy, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return top < 0 ? -1 : openat(top, path + 1, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void write_to(int dir, const char *name, const char *text)
{
    AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        return; /* not every hierarchy has every file; the processes are counted anyway */
}

/* Is the process still in this cgroup? Asked after its pidfd was opened, so that the number cannot
 * have passed to another. */
static bool is_member(pid_t pid, const char *path)
{
    char text[4096];

    if (!proc_read(pid, "cgroup", text, sizeof(text)))
        return false;
    for (const char *at = strstr(text, path); at != NULL; at = strstr(at + 1, path)) {
        char next = at[strlen(path)];

        if (at > text && at[-1] == ':' && (next == '\n' || next == '/' || next == '\0'))
            return true;
    }
    return false;
}

static FILE *open_list(int dir)
{
    int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);

    return fd < 0 ? NULL : fdopen(fd, "re");
}

static void kill_listed(int dir, const char *path)
{
    FILE *f = open_list(dir);
    int pid;

    while (f != NULL && fscanf(f, "%9d", &pid) == 1) {
        AUTO_CLOSE int pid_fd = pid <= 1 ? -1 : pidfd_open(pid, 0);

        if (pid_fd >= 0 && is_member(pid, path))
            (void) pidfd_send_signal(pid_fd, SIGKILL, NULL, 0); /* it may be dead by now */
    }
    if (f != NULL)
        (void) fclose(f); /* only read */
}

/* Those of the box are in a pid namespace of their own; what serves it is not. */
static unsigned count_listed(int dir)
{
    FILE *f = open_list(dir);
    unsigned count = 0;
    int pid;

    while (f != NULL && fscanf(f, "%9d", &pid) == 1)
        count += proc_is_inner(pid) ? 1 : 0;
    if (f != NULL)
        (void) fclose(f); /* only read */
    return count;
}

struct visit {
    const char *path;
    unsigned here; /* counted in this hierarchy */
    unsigned counted;
    unsigned removed;
    unsigned left;
    bool is_removing;
    bool is_counting;
    int adding; /* 0: no process is added */
    int error;  /* errno of an addition that failed */
};

static void visit_below(struct visit *v, int dir, unsigned depth);

/* Children first: a cgroup with children cannot be removed. */
static void visit_child(struct visit *v, int dir, const char *name, unsigned depth)
{
    AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || depth > DEPTH_MAX)
        return;
    if (v->is_counting) {
        v->here += count_listed(fd);
    } else if (!v->is_removing) {
        kill_listed(fd, v->path);
        write_to(fd, "freezer.state", "THAWED"); /* the frozen do not die */
    }
    visit_below(v, fd, depth + 1);
    if (v->is_removing && unlinkat(dir, name, AT_REMOVEDIR) == 0)
        v->removed++;
    else if (v->is_removing && errno != ENOENT)
        v->left++;
}

static void visit_below(struct visit *v, int dir, unsigned depth)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);

    if (d == NULL)
        return;
    for (;;) {
        const struct dirent *e = readdir(d);

        if (e == NULL)
            break;
        if (e->d_type == DT_DIR && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            visit_child(v, dir, e->d_name, depth);
    }
    (void) closedir(d); /* only read */
}

static void add_to(struct visit *v, int parent, const char *name)
{
    AUTO_CLOSE int own = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int fd = own < 0 ? -1 : openat(own, "cgroup.procs", O_WRONLY | O_CLOEXEC);

    if (own >= 0 && (fd < 0 || dprintf(fd, "%d", v->adding) < 0))
        v->error = errno;
}

static void visit_hierarchy(struct visit *v, int root, const char *hierarchy)
{
    char parent[512];
    const char *name = strrchr(v->path, '/');
    AUTO_CLOSE int fd = -1;

    if (name == v->path) /* never a whole hierarchy, whoever asks */
        return;
    if ((size_t) snprintf(parent, sizeof(parent), "%.*s", (int) (name - v->path), v->path) >=
        sizeof(parent))
        return;
    fd = open_in(root, hierarchy, parent);
    if (fd < 0)
        return;
    if (v->adding != 0) {
        add_to(v, fd, name + 1);
        return;
    }
    v->here = 0;
    visit_child(v, fd, name + 1, 0);
    v->counted = MAX_OF(v->counted, v->here); /* the same processes are in each */
    if (!v->is_removing && !v->is_counting) {
        AUTO_CLOSE int own = openat(fd, name + 1, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (own >= 0)
            write_to(own, "cgroup.kill", "1"); /* v2: those made meanwhile too */
    }
}

static void visit_all(struct visit *v)
{
    AUTO_CLOSE int root = open(CGROUP_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d;

    if (root < 0)
        return;
    if (faccessat(root, "cgroup.controllers", F_OK, 0) == 0) {
        visit_hierarchy(v, root, ".");
        return;
    }
    d = opendir(CGROUP_ROOT);
    while (d != NULL) {
        const struct dirent *e = readdir(d);

        if (e == NULL)
            break;
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            visit_hierarchy(v, root, e->d_name);
    }
    if (d != NULL)
        (void) closedir(d); /* only read */
}

int cgroup_add(const char *path, int pid, struct err *err)
{
    struct visit v = {.path = path, .adding = pid};

    visit_all(&v);
    return v.error == 0 ? SP_OK : err_sys(err, SP_IO, v.error, "move into '%.150s'", path);
}

static int take_file(int dir, const char *name)
{
    struct stat info;

    if (fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    return info.st_uid == geteuid() && info.st_gid == getegid()
               ? 0
               : fchownat(dir, name, geteuid(), getegid(), AT_SYMLINK_NOFOLLOW);
}

int cgroup_take_back(const char *path, struct err *err)
{
    AUTO_CLOSE int root = open(CGROUP_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A user's boxes are that user's; groups of version 1 are not given away. */
    bool is_given = geteuid() == 0 && faccessat(root, "cgroup.controllers", F_OK, 0) == 0;
    int fd = is_given ? open_in(root, ".", path) : -1;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    int rc = SP_OK;

    if (d == NULL)
        return SP_OK;
    while (rc == SP_OK && (e = readdir(d)) != NULL)
        if (strcmp(e->d_name, "..") != 0 && take_file(dirfd(d), e->d_name) != 0)
            rc = err_sys(err, SP_IO, errno, "take back '%.100s' of '%.100s'", e->d_name, path);
    (void) closedir(d); /* only read */
    return rc;
}

unsigned cgroup_count(const char *path)
{
    struct visit v = {.path = path, .is_counting = true};

    visit_all(&v);
    return v.counted;
}

void cgroup_kill(const char *path)
{
    struct visit v = {.path = path};

    visit_all(&v);
}

unsigned cgroup_remove(const char *path, unsigned *ret_left)
{
    struct visit v = {.path = path, .is_removing = true};

    visit_all(&v);
    *ret_left = v.left;
    return v.removed;
}
