/* hoard.c - looks through the open files of a box's processes: /proc/<thread>/fd says what they are, fdinfo which locks
 * lie on them. By thread, because a thread can have a table of files of its own. Tables and open files that several
 * share count once: the kernel compares them for us (kcmp). */
#include "backend/hoard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "base/str.h"

#define LOCK_BYTES 192 /* struct file_lock, measured */
/* ext4 keeps the names of one block, in order: 340 short ones of 64 bytes. */
#define DIR_BYTES (24 * 1024)
/* Overlay keeps all names of a directory that both layers have, 88 bytes and more for an entry that takes 12 on the
 * disk. */
#define MERGED_FACTOR 8
#define FILES_MAX (4U * 1024 * 1024) /* that are looked at of one box */
#define LINES_MAX (4U * 1024 * 1024)
#define TASKS_MAX (64U * 1024)
#define GROUPS_MAX 1024 /* in that of one box */
#define GROUPS_DEEP 8
#define CHUNK (64 * 1024)

/* A table of files (fd -1), or an open file. */
struct place {
    int task;
    int fd;
};

/* In the order of the kernel's addresses, which it does not show but compares. */
struct places {
    struct place *all;
    size_t count;
    size_t room;
};

/* Locks on one file, as one of a process's descriptors shows them. */
struct seen {
    uint64_t dev;
    uint64_t ino;
    uint64_t locks;
};

struct count {
    struct hoard held;
    uint64_t max_bytes;
    struct places tables;
    struct places dirs;
    struct seen *seen; /* in the table that is being looked at */
    size_t seen_count;
    size_t seen_room;
    unsigned groups;
    char *chunk;
};

uint64_t hoard_bytes(const struct hoard *h)
{
    return h->locks * LOCK_BYTES + h->dir_bytes + h->passed * DIR_BYTES;
}

void hoard_describe(const struct hoard *h, char *dst, unsigned long cap)
{
    char passed[64] = "";

    if (h->passed > 0)
        (void) snprintf(passed, sizeof(passed), ", %llu files on their way through sockets",
                        (unsigned long long) h->passed);
    (void) snprintf(dst, cap, "%llu file locks, %llu open directories%s: up to %llu MB",
                    (unsigned long long) h->locks, (unsigned long long) h->dirs, passed,
                    (unsigned long long) (hoard_bytes(h) / (1024 * 1024)));
}

bool hoard_is_over(const struct hoard *h, uint64_t max_bytes)
{
    return hoard_bytes(h) > max_bytes || h->lock_lines > LINES_MAX;
}

static bool is_enough(const struct count *c)
{
    return hoard_is_over(&c->held, c->max_bytes) || c->held.files > FILES_MAX;
}

/* --- what was seen already --- */

static long compare(const struct place *a, const struct place *b)
{
    return a->fd < 0 ? syscall(SYS_kcmp, a->task, b->task, KCMP_FILES, 0, 0)
                     : syscall(SYS_kcmp, a->task, b->task, KCMP_FILE, a->fd, b->fd);
}

static bool can_compare(const struct place *a)
{
    return compare(a, a) == 0;
}

/* False: it was there already, or is gone. An open file that was closed meanwhile may be counted twice; a table that is
 * gone makes way, so that threads which come and go hide no others. */
static bool add(struct places *p, struct place new)
{
    size_t from = 0;
    size_t to = p->count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        long order = compare(&new, &p->all[middle]);

        if (order == 0)
            return false;
        if (order < 0 && new.fd < 0) {
            if (!can_compare(&new))
                return false;
            p->count--;
            memmove(&p->all[middle], &p->all[middle + 1], (p->count - middle) * sizeof(p->all[0]));
            from = 0;
            to = p->count;
        } else if (order == 1) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    if (p->count == p->room) {
        p->room = MAX_OF(p->room * 2, 64);
        p->all = xrealloc(p->all, p->room * sizeof(p->all[0]));
    }
    memmove(&p->all[from + 1], &p->all[from], (p->count - from) * sizeof(p->all[0]));
    p->all[from] = new;
    p->count++;
    return true;
}

/* --- one open file --- */

/* Locks of a process lie on the file, whichever of its descriptors is looked at; others on the descriptor. */
static void take_line(struct count *c, const char *line, uint64_t *posix)
{
    static const char passed[] = "scm_fds: ";

    if (strncmp(line, passed, sizeof(passed) - 1) == 0)
        c->held.passed += strtoull(line + sizeof(passed) - 1, NULL, 10);
    if (strncmp(line, "lock:", 5) != 0)
        return;
    c->held.lock_lines++;
    if (strstr(line, ": POSIX ") != NULL)
        (*posix)++;
    else
        c->held.locks++;
}

/* Lines are shorter than a chunk by far. */
static void take_text(struct count *c, int fd, uint64_t *posix)
{
    size_t kept = 0;
    ssize_t n;

    while ((n = read(fd, c->chunk + kept, CHUNK - 1 - kept)) > 0) {
        char *line = c->chunk;
        char *end;

        c->chunk[kept + (size_t) n] = '\0';
        while ((end = strchr(line, '\n')) != NULL) {
            *end = '\0';
            take_line(c, line, posix);
            line = end + 1;
        }
        kept = strlen(line);
        if (kept >= CHUNK / 2)
            kept = 0; /* not a line of the kernel's */
        memmove(c->chunk, line, kept);
    }
}

static void note_locks(struct count *c, const struct stat *st, uint64_t locks)
{
    if (c->seen_count == c->seen_room) {
        c->seen_room = MAX_OF(c->seen_room * 2, 64);
        c->seen = xrealloc(c->seen, c->seen_room * sizeof(c->seen[0]));
    }
    c->seen[c->seen_count++] = (struct seen){st->st_dev, st->st_ino, locks};
}

static void look_at_info(struct count *c, int info_dir, const char *name, const struct stat *st)
{
    AUTO_CLOSE int fd = openat(info_dir, name, O_RDONLY | O_CLOEXEC);
    uint64_t posix = 0;

    if (fd < 0)
        return; /* closed meanwhile */
    take_text(c, fd, &posix);
    if (posix > 0)
        note_locks(c, st, posix);
}

/* A directory of an overlay that both layers have is shown with one link. */
static uint64_t dir_bytes(const struct stat *st)
{
    uint64_t size = st->st_size > 0 ? (uint64_t) st->st_size : 0;

    return st->st_nlink == 1 ? MAX_OF(size * MERGED_FACTOR, (uint64_t) DIR_BYTES) : DIR_BYTES;
}

/* --- one table of files --- */

static int by_file(const void *a, const void *b)
{
    const struct seen *x = a;
    const struct seen *y = b;

    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    return x->ino == y->ino ? 0 : x->ino < y->ino ? -1 : 1;
}

/* Each file once, with the most that was seen. */
static void sum_locks(struct count *c)
{
    uint64_t most = 0;

    if (c->seen_count > 0)
        qsort(c->seen, c->seen_count, sizeof(c->seen[0]), by_file);
    for (size_t i = 0; i < c->seen_count; i++) {
        most = MAX_OF(most, c->seen[i].locks);
        if (i + 1 < c->seen_count && by_file(&c->seen[i], &c->seen[i + 1]) == 0)
            continue;
        c->held.locks += most;
        most = 0;
    }
    c->seen_count = 0;
}

static void look_at_files(struct count *c, int task, DIR *files, int info_dir)
{
    const struct dirent *e;

    while (!is_enough(c) && (e = readdir(files)) != NULL) {
        struct stat st;
        uint64_t fd;

        if (!str_parse_u64(e->d_name, 0, INT_MAX, &fd) ||
            fstatat(dirfd(files), e->d_name, &st, 0) != 0)
            continue;
        c->held.files++;
        if (S_ISDIR(st.st_mode) && add(&c->dirs, (struct place){task, (int) fd})) {
            c->held.dirs++;
            c->held.dir_bytes += dir_bytes(&st);
        }
        look_at_info(c, info_dir, e->d_name, &st);
    }
    sum_locks(c);
}

static void look_at_task(struct count *c, int task)
{
    char path[64];
    AUTO_CLOSE int info_dir = -1;
    DIR *files;

    if (!add(&c->tables, (struct place){task, -1}))
        return;
    (void) snprintf(path, sizeof(path), "/proc/%d/fdinfo", task);
    info_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void) snprintf(path, sizeof(path), "/proc/%d/fd", task);
    files = info_dir >= 0 ? opendir(path) : NULL;
    if (files == NULL) {
        if (errno == EACCES || errno == EPERM)
            c->held.is_unreadable = true;
        return;
    }
    look_at_files(c, task, files, info_dir);
    (void) closedir(files); /* only read */
}

/* --- control groups --- */

/* A group of version 2 lists its threads in the first, one of version 1 in the second. */
static FILE *open_list(int group)
{
    int fd = openat(group, "cgroup.threads", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        fd = openat(group, "tasks", O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fdopen(fd, "r") : NULL;
}

static void look_at_tasks(struct count *c, int group)
{
    FILE *list = open_list(group);
    int task;

    while (list != NULL && c->held.tasks < TASKS_MAX && !is_enough(c)) {
        if (fscanf(list, "%d", &task) != 1)
            break;
        if (task <= 0) {
            c->held.is_unreadable = true; /* of a pid namespace that is not ours */
            break;
        }
        c->held.tasks++;
        look_at_task(c, task);
    }
    if (list != NULL)
        (void) fclose(list); /* only read */
}

static void look_at_group(struct count *c, int parent, const char *name, unsigned depth)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *group = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;
    struct stat st;

    if (group == NULL)
        return; /* gone meanwhile */
    look_at_tasks(c, fd);
    if (fstat(fd, &st) == 0 && st.st_nlink > 2) /* else there is none in it */
        while (!is_enough(c) && (e = readdir(group)) != NULL) {
            if (e->d_type != DT_DIR || e->d_name[0] == '.')
                continue;
            if (depth == GROUPS_DEEP || ++c->groups > GROUPS_MAX)
                c->held.is_unreadable = true;
            else
                look_at_group(c, fd, e->d_name, depth + 1);
        }
    (void) closedir(group); /* only read */
}

void hoard_count(const char *group, uint64_t max_bytes, struct hoard *ret)
{
    struct count c = {.max_bytes = max_bytes, .chunk = xcalloc(1, CHUNK)};

    look_at_group(&c, AT_FDCWD, group, 0);
    free(c.tables.all);
    free(c.dirs.all);
    free(c.seen);
    free(c.chunk);
    *ret = c.held;
}
