/* scan.c - what is really there: the directories of the boxes, and whether their locks are held.
 * Runs on a thread; the truth about a box is its lock, not a pid that may be another's by now. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "helper/plan.h"

/* In /proc/PID/stat, counted from 1. */
#define STAT_FLAGS 9
#define STAT_START 22     /* in ticks since the machine started */
#define FLAG_EXITING 0x4U /* PF_EXITING of the kernel */

bool oci_is_locked(int dir_fd)
{
    AUTO_CLOSE int fd = openat(dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    /* Closing gives a lock that we got back. */
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static void close_own(int *fd)
{
    if (*fd >= 0)
        (void) close(*fd); /* nothing to do about it here */
    *fd = -1;
}

void oci_found_drop(struct oci_found *f)
{
    free(TAKE_PTR(f->egress));
    close_own(&f->pid_fd);
    for (size_t i = 0; i < OCI_BESIDE_COUNT; i++)
        close_own(&f->beside_fds[i]);
}

void oci_found_init(struct oci_found *f)
{
    memset(f, 0, sizeof(*f));
    f->pid_fd = -1;
    for (size_t i = 0; i < OCI_BESIDE_COUNT; i++)
        f->beside_fds[i] = -1;
    f->flavour = -1;
}

static int read_pid(int dir_fd)
{
    char text[16];
    uint64_t pid;

    (void) file_read_start(dir_fd, "pid", text, sizeof(text)); /* "": there is none */
    text[strcspn(text, "\n")] = '\0';
    return str_parse_u64(text, 2, INT32_MAX, &pid) ? (int) pid : 0;
}

/* The pidfd is taken while the lock is held before and after, so it is the box's. */
static void look_once(int dir_fd, struct oci_found *f)
{
    f->is_running = oci_is_locked(dir_fd);
    f->pid = read_pid(dir_fd);
    if (!f->is_running || f->pid == 0)
        return;
    f->pid_fd = (int) syscall(SYS_pidfd_open, f->pid, 0);
    if (f->pid_fd >= 0 && !oci_is_locked(dir_fd)) {
        (void) close(f->pid_fd); /* nothing to do about it here */
        f->pid_fd = -1;
        f->is_running = false;
    }
}

/* A number of /proc/PID/stat; 0: no such process. */
static unsigned long long stat_number(unsigned pid, int number)
{
    char path[32];
    char text[1024];
    unsigned long long value = 0;
    const char *at;

    (void) snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    (void) file_read_start(AT_FDCWD, path, text, sizeof(text)); /* "": it has ended */
    at = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; at != NULL && field < number; field++)
        at = strchr(at + 1, ' ');
    return at != NULL && sscanf(at, "%llu", &value) == 1 ? value : 0;
}

bool oci_is_exiting(int pid)
{
    unsigned long long flags = stat_number((unsigned) pid, STAT_FLAGS);

    return flags == 0 || (flags & FLAG_EXITING) != 0;
}

/* A box without such a file has nothing there that somebody serves. */
static void look_beside(int dir_fd, const char *name, struct oci_found *f, enum oci_beside which)
{
    int *own = &f->beside_fds[which];
    char text[64];
    unsigned pid = 0;
    unsigned long long ticks = 0;

    (void) file_read_start(dir_fd, name, text, sizeof(text)); /* "": there is none */
    if (sscanf(text, "%9u %llu", &pid, &ticks) != 2)
        return;
    *own = (int) syscall(SYS_pidfd_open, (pid_t) pid, 0);
    if (*own >= 0 && stat_number(pid, STAT_START) == ticks)
        return;
    f->is_alone[which] = *own >= 0 || errno == ESRCH; /* else it is not known */
    close_own(own);
}

/* Written when the agent has answered: from then on its maker does not undo it when the daemon dies.
 * The runtime's `pid` is there earlier. */
static bool is_made(int dir_fd)
{
    return faccessat(dir_fd, "init", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool oci_is_frozen(const struct oci *o, uint64_t id)
{
    char cgroup[OCI_GROUP_MAX];
    char path[OCI_GROUP_MAX + 64];
    char text[64];

    oci_cgroup(o, id, cgroup, sizeof(cgroup));
    (void) snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s/%s", o->is_cgroup_v2 ? "" : "/freezer",
                    cgroup, o->is_cgroup_v2 ? "cgroup.freeze" : "freezer.state");
    if (file_read_start(AT_FDCWD, path, text, sizeof(text)) < 0)
        return false; /* no such group: nothing can be frozen */
    return o->is_cgroup_v2 ? text[0] == '1' : strncmp(text, "FR", 2) == 0; /* FROZEN or FREEZING */
}

/* A second name of the disk is that of a snapshot: then it was kept before. */
static bool has_remains(int dir_fd, const struct oci_found *f)
{
    struct stat st;

    return f->has_record && f->record.is_durable && !f->is_running &&
           fstatat(dir_fd, "disk", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_nlink == 1;
}

int oci_look(const char *boxes_dir, uint64_t id, struct oci_found *ret, struct err *err)
{
    char path[OCI_PATH_MAX + 32];
    char allow[EGRESS_TEXT_MAX + 1];
    char hex[17];
    AUTO_CLOSE int fd = -1;
    int rc;

    oci_found_init(ret);
    ret->id = id;
    str_hex64(hex, id);
    (void) snprintf(path, sizeof(path), "%s/%s", boxes_dir, hex);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? SP_OK : err_sys(err, SP_IO, errno, "box %s", hex);
    rc = oci_record_read(fd, &ret->record, err);
    if (rc != SP_OK && rc != SP_NOT_FOUND)
        return err_wrap(err, "box %s", hex);
    ret->has_record = rc == SP_OK;
    look_once(fd, ret);
    if (ret->is_running) {
        look_beside(fd, "net.pid", ret, OCI_BESIDE_NETWORK);
        look_beside(fd, "resolver.pid", ret, OCI_BESIDE_RESOLVER);
        if (file_read_start(fd, "egress", allow, sizeof(allow)) >= 0)
            ret->egress = xstrdup(allow);
        look_beside(fd, "guard.pid", ret, OCI_BESIDE_GUARD);
    }
    ret->has_remains = has_remains(fd, ret);
    ret->has_local = faccessat(fd, HELPER_LOCAL_SOCKET, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    ret->is_unsettled = ret->is_running && (!ret->has_record || ret->pid_fd < 0 || !is_made(fd));
    return SP_OK;
}

static struct oci_found *add(struct oci_scan *s)
{
    if (s->count == s->room) {
        s->room = s->room * 2 + 16;
        s->found = xrealloc(s->found, s->room * sizeof(s->found[0]));
    }
    return &s->found[s->count];
}

static int scan_boxes(struct oci_scan *s, DIR *dir, struct err *err)
{
    const char *path = s->oci->boxes_dir;
    int rc = SP_OK;

    while (rc == SP_OK) {
        const struct dirent *entry;
        uint64_t id;

        errno = 0;
        entry = readdir(dir);
        if (entry == NULL)
            return errno == 0 ? SP_OK : err_sys(err, SP_IO, errno, "%.200s", path);
        if (!str_parse_hex64(entry->d_name, &id))
            continue;
        rc = oci_look(path, id, add(s), err);
        if (rc == SP_OK) {
            s->found[s->count].is_frozen = oci_is_frozen(s->oci, id);
            s->count++;
        }
    }
    return rc;
}

/* Found once however many traces of it there are; a note of a runtime says most. Whatever stops us, a
 * directory goes after the processes: those of a living group without one are not ours. */
static void on_trace(void *ctx, uint64_t id, int flavour, bool is_living)
{
    struct oci_scan *s = ctx;
    struct oci_found *f;

    for (size_t i = 0; i < s->count; i++) {
        f = &s->found[i];
        if (f->id == id) {
            f->is_elsewhere = f->is_trace && flavour < 0 && (f->is_elsewhere || is_living);
            if (f->is_trace && flavour >= 0)
                f->flavour = flavour;
            return;
        }
    }
    f = add(s);
    oci_found_init(f);
    f->id = id;
    f->is_trace = true;
    f->is_elsewhere = is_living;
    f->flavour = flavour;
    s->count++;
}

static int run_scan(struct work *w, struct err *err)
{
    struct oci_scan *s = container_of(w, struct oci_scan, work);
    DIR *dir = opendir(s->oci->boxes_dir);
    int rc;

    if (dir == NULL)
        return err_sys(err, SP_IO, errno, "%.200s", s->oci->boxes_dir);
    rc = scan_boxes(s, dir, err);
    (void) closedir(dir); /* nothing to do about it here */
    if (rc == SP_OK)
        oci_traces(s->oci, on_trace, s);
    return rc;
}

void oci_scan_start(struct oci *o, struct oci_scan *s, uint64_t deadline_ns,
                    void (*on_done)(struct op *))
{
    memset(s, 0, sizeof(*s));
    s->oci = o;
    s->work.run = run_scan;
    work_start(o->loop, &s->work, &o->closing.inner, deadline_ns, on_done);
}

void oci_scan_fini(struct oci_scan *s)
{
    for (size_t i = 0; i < s->count; i++)
        oci_found_drop(&s->found[i]);
    free(s->found);
    s->found = NULL;
    s->count = 0;
    s->room = 0;
}
