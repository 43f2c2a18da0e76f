/* counters_io.c - disk bytes of the processes of a box, added up. Older processes are read first: one that ends while the
 * others are read has its bytes in a parent that was read before, so that they are missing once, and never there twice. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/counters.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"

enum { PROCESSES_MAX = 1024, START_COLUMN = 20 /* behind the name */, FILE_MAX = 1024 };

struct process {
    int pid;
    unsigned long long began; /* by which it is still the same when it is read */
};

static int compare(const void *a, const void *b)
{
    const struct process *one = a;
    const struct process *other = b;

    return one->began < other->began ? -1 : one->began > other->began ? 1 : 0;
}

static int open_process(int pid)
{
    char path[32];

    (void) snprintf(path, sizeof(path), "/proc/%d", pid);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The name may have any character in it, a bracket too. */
static bool read_start(int dir, unsigned long long *ret)
{
    char text[FILE_MAX];
    const char *at = NULL;

    if (file_read_start(dir, "stat", text, sizeof(text)) > 0)
        at = strrchr(text, ')');
    for (int i = 0; at != NULL && i < START_COLUMN; i++)
        at = strchr(at + 1, ' ');
    if (at != NULL)
        *ret = strtoull(at + 1, NULL, 10);
    return at != NULL;
}

/* How many there are; one that has ended meanwhile is left out. More than there may be: PROCESSES_MAX + 1. */
static size_t list_all(FILE *list, struct process *all)
{
    size_t count = 0;
    int pid;

    while (count <= PROCESSES_MAX && fscanf(list, "%9d", &pid) == 1) {
        AUTO_CLOSE int dir = open_process(pid);

        all[count].pid = pid;
        count += dir >= 0 && read_start(dir, &all[count].began) ? 1 : 0;
    }
    return count;
}

static uint64_t number_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at != NULL ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* False: it may not be read. */
static bool add(const struct process *p, struct backend_counters *ret)
{
    AUTO_CLOSE int dir = open_process(p->pid);
    unsigned long long began;
    char text[FILE_MAX];

    if (dir < 0 || !read_start(dir, &began) || began != p->began)
        return true; /* it has ended */
    if (file_read_start(dir, "io", text, sizeof(text)) < 0)
        return !read_start(dir, &began);
    ret->disk_read.n += number_of(text, "\nread_bytes: ");
    ret->disk_write.n += number_of(text, "\nwrite_bytes: ");
    return true;
}

static void add_all(FILE *list, struct backend_counters *ret)
{
    struct process *all = xcalloc(PROCESSES_MAX + 1, sizeof(*all));
    size_t count = list_all(list, all);
    bool is_known = count <= PROCESSES_MAX;

    qsort(all, count, sizeof(*all), compare);
    ret->disk_read = ret->disk_write = backend_counted(0);
    for (size_t i = 0; is_known && i < count; i++)
        is_known = add(&all[i], ret);
    if (!is_known)
        ret->disk_read = ret->disk_write = (struct backend_count){0};
    free(all);
}

void counters_read_processes(const char *group, struct backend_counters *ret)
{
    char path[COUNTERS_GROUP_MAX + 16];
    FILE *list;

    (void) snprintf(path, sizeof(path), "%s/cgroup.procs", group);
    list = fopen(path, "re");
    if (list == NULL)
        return;
    add_all(list, ret);
    (void) fclose(list); /* only read */
}
