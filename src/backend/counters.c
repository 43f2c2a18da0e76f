/* counters.c - reads what the kernel counts. A process is looked at by one descriptor of its directory in /proc: that stays
 * its own when the number passes to another. */
#include "backend/counters.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

enum { LOOP_MAJOR = 7, TEXT_MAX = 16 * 1024, PATH_EXTRA = 64 };

/* --- the control group --- */

static bool has_name(const char *names, size_t len, const char *name)
{
    for (const char *end = names + len; names < end;) {
        size_t part = strcspn(names, ",:");

        if (part == strlen(name) && memcmp(names, name, part) == 0)
            return true;
        names += part + 1;
    }
    return false;
}

static bool is_v2(const char *root)
{
    char path[COUNTERS_GROUP_MAX];

    return (size_t) snprintf(path, sizeof(path), "%s/cgroup.controllers", root) < sizeof(path) &&
           access(path, F_OK) == 0;
}

/* One line, "4:pids:/docker/<id>" or "0::/system.slice/docker-<id>.scope". */
struct line {
    const char *names;
    size_t names_len;
    const char *path;
    size_t path_len;
};

static bool split(const char *at, size_t len, struct line *ret)
{
    const char *names = memchr(at, ':', len);
    const char *path =
        names == NULL ? NULL : memchr(names + 1, ':', len - (size_t) (names + 1 - at));

    if (path == NULL)
        return false;
    ret->names = names + 1;
    ret->names_len = (size_t) (path - names - 1);
    ret->path = path + 1;
    ret->path_len = len - (size_t) (path + 1 - at);
    return memchr(ret->names, '=', ret->names_len) == NULL; /* a hierarchy without a controller */
}

static bool put_group(const struct line *l, const char *root, const char *name, size_t name_len,
                      const char *id, char ret[static COUNTERS_GROUP_MAX], size_t *ret_top)
{
    const char *in_path = memmem(l->path, l->path_len, id, strlen(id));
    const char *end = l->path + l->path_len;
    const char *cut;
    size_t len;

    if (in_path == NULL)
        return false;
    len = (size_t) snprintf(ret, COUNTERS_GROUP_MAX, "%s%s%.*s%.*s", root, name_len > 0 ? "/" : "",
                            (int) name_len, name, (int) l->path_len, l->path);
    if (len >= COUNTERS_GROUP_MAX)
        return false;
    in_path += strlen(id);
    cut = memchr(in_path, '/', (size_t) (end - in_path));
    *ret_top = len - (cut != NULL ? (size_t) (end - cut) : 0);
    return true;
}

bool counters_find_group(const char *text, const char *root, const char *controller, const char *id,
                         char ret[static COUNTERS_GROUP_MAX], size_t *ret_top)
{
    bool is_unified = is_v2(root);
    bool is_found = false;

    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        struct line l;
        bool is_wanted = split(at, len, &l) && (l.names_len == 0) == is_unified;

        if (is_wanted && !is_unified && controller != NULL)
            is_wanted = has_name(l.names, l.names_len, controller);
        if (is_wanted && (is_unified || controller == NULL))
            is_found = put_group(&l, root, l.names, l.names_len, id, ret, ret_top) || is_found;
        else if (is_wanted) /* mounted, or linked to, by each name alone */
            is_found = put_group(&l, root, controller, strlen(controller), id, ret, ret_top);
        at += len + (at[len] == '\n' ? 1 : 0);
    }
    return is_found;
}

/* --- numbers in texts --- */

static struct backend_count read_number(const char *text)
{
    char *end;
    unsigned long long n;

    if (!isdigit((unsigned char) text[0]))
        return (struct backend_count){0};
    n = strtoull(text, &end, 10);
    return *end == '\0' || isspace((unsigned char) *end) ? backend_counted(n)
                                                         : (struct backend_count){0};
}

/* "key 123", on a line of its own. */
static struct backend_count find_number(const char *text, const char *key)
{
    size_t len = strlen(key);

    for (const char *at = text; *at != '\0';) {
        size_t line = strcspn(at, "\n");

        if (line > len && memcmp(at, key, len) == 0 && at[len] == ' ')
            return read_number(at + len + 1);
        at += line + (at[line] == '\n' ? 1 : 0);
    }
    return (struct backend_count){0};
}

static void add(struct backend_count *to, struct backend_count n)
{
    to->is_known = true;
    if (n.is_known && __builtin_add_overflow(to->n, n.n, &to->n))
        to->n = UINT64_MAX;
}

/* --- disks --- */

struct disk_sums {
    struct backend_count read;
    struct backend_count write;
};

/* "8:0 rbytes=1 wbytes=2 rios=3 ..." */
static void take_device(const char *line, size_t len, struct disk_sums sums[static 2])
{
    static const char *const keys[] = {" rbytes=", " wbytes="};
    char *end;
    unsigned long major = strtoul(line, &end, 10);
    struct disk_sums *s = &sums[major == LOOP_MAJOR ? 1 : 0];

    if (end == line || *end != ':')
        return;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *at = memmem(line, len, keys[i], strlen(keys[i]));

        if (at != NULL)
            add(i == 0 ? &s->read : &s->write, read_number(at + strlen(keys[i])));
    }
}

void counters_take_disk(const char *text, struct backend_counters *ret)
{
    struct disk_sums sums[2] = {0};

    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, "\n");

        take_device(at, len, sums);
        at += len + (at[len] == '\n' ? 1 : 0);
    }
    ret->disk_read = backend_counted(MAX_OF(sums[0].read.n, sums[1].read.n));
    ret->disk_write = backend_counted(MAX_OF(sums[0].write.n, sums[1].write.n));
}

/* --- networks --- */

void counters_take_net(const char *text, struct backend_counters *ret)
{
    enum { SENT = 8 }; /* columns before it */

    for (const char *at = text; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        const char *name = at + strspn(at, " ");
        const char *colon = memchr(at, ':', len);
        struct backend_count in = {0};
        struct backend_count out = {0};
        const char *column = colon;

        for (int i = 0; column != NULL && i <= SENT; i++) {
            column += i == 0 ? 1 : strcspn(column, " \n");
            column += strspn(column, " ");
            if (i == 0)
                in = read_number(column);
            if (i == SENT)
                out = read_number(column);
        }
        if (in.is_known && out.is_known && strncmp(name, "lo:", 3) != 0) {
            add(&ret->net_in, in);
            add(&ret->net_out, out);
        }
        at += len + (at[len] == '\n' ? 1 : 0);
    }
}

/* Its own, and not that of the daemon. */
static bool has_own_net(int proc)
{
    struct stat own;
    struct stat ours;

    return fstatat(proc, "ns/net", &own, 0) == 0 && stat("/proc/self/ns/net", &ours) == 0 &&
           (own.st_dev != ours.st_dev || own.st_ino != ours.st_ino);
}

/* --- files --- */

struct group {
    char path[COUNTERS_GROUP_MAX];
    size_t top;
    char text[TEXT_MAX];
};

static bool read_file(struct group *g, const char *name)
{
    char path[COUNTERS_GROUP_MAX + PATH_EXTRA];

    (void) snprintf(path, sizeof(path), "%.*s/%s", (int) g->top, g->path, name);
    return file_read_start(AT_FDCWD, path, g->text, sizeof(g->text)) >= 0;
}

static struct backend_count read_memory(struct group *g, const char *name, const char *cached)
{
    struct backend_count held = {0};
    struct backend_count unused = {0};

    if (read_file(g, name))
        held = read_number(g->text);
    if (held.is_known && read_file(g, "memory.stat"))
        unused = find_number(g->text, cached);
    if (unused.is_known)
        held.n -= MIN_OF(held.n, unused.n);
    return held;
}

static void read_v2(struct group *g, struct backend_counters *ret)
{
    if (read_file(g, "cpu.stat"))
        ret->cpu_us = find_number(g->text, "usage_usec");
    ret->memory = read_memory(g, "memory.current", "inactive_file");
    if (read_file(g, "io.stat"))
        counters_take_disk(g->text, ret);
}

static void read_v1(struct group *g, const char *text, const char *root, const char *id,
                    struct backend_counters *ret)
{
    if (counters_find_group(text, root, "cpuacct", id, g->path, &g->top) &&
        read_file(g, "cpuacct.usage")) {
        ret->cpu_us = read_number(g->text);
        ret->cpu_us.n /= 1000;
    }
    if (counters_find_group(text, root, "memory", id, g->path, &g->top)) {
        ret->memory = read_memory(g, "memory.usage_in_bytes", "total_inactive_file");
        g->path[g->top] = '\0';
        counters_read_processes(g->path, ret);
    }
}

void counters_read_group(const char *text, const char *root, const char *id,
                         struct backend_counters *ret)
{
    struct group g;

    if (!is_v2(root))
        read_v1(&g, text, root, id, ret);
    else if (counters_find_group(text, root, NULL, id, g.path, &g.top))
        read_v2(&g, ret);
}

bool counters_read(int pid, const char *id, struct backend_counters *ret)
{
    char path[32];
    char text[TEXT_MAX];
    AUTO_CLOSE int proc = -1;

    *ret = (struct backend_counters){0};
    (void) snprintf(path, sizeof(path), "/proc/%d", pid);
    proc = pid > 1 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (proc < 0 || file_read_start(proc, "cgroup", text, sizeof(text)) < 0)
        return false;
    if (strstr(text, id) == NULL) /* it has no control group of its own, or is another by now */
        return true;
    counters_read_group(text, COUNTERS_CGROUP_ROOT, id, ret);
    if (has_own_net(proc) && file_read_start(proc, "net/dev", text, sizeof(text)) > 0)
        counters_take_net(text, ret);
    return true;
}

bool counters_read_ended(const char *group, struct backend_counters *ret)
{
    char text[COUNTERS_GROUP_MAX];

    *ret = (struct backend_counters){0};
    (void) snprintf(text, sizeof(text), "%s:%s\n", is_v2(COUNTERS_CGROUP_ROOT) ? "0:" : "1:cpuacct",
                    group);
    counters_read_group(text, COUNTERS_CGROUP_ROOT, group, ret);
    ret->memory = (struct backend_count){0}; /* what is cached is held by nobody */
    return ret->cpu_us.is_known;
}
