/* oom.c - finding and reading the kernel's count of processes that it killed for memory, in both
 * versions of control groups. */
#include "agent/core/oom.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"

enum { SCORE_MORE = 500, SCORE_MAX = 1000 };

static int open_count(const char *root, const char *hierarchy, const char *group, const char *name)
{
    char path[1024];

    if ((size_t) snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s%s/%s", root, hierarchy, group,
                          name) >= sizeof(path))
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The group itself, or what is mounted at the top. */
static int open_v2(const char *root, const char *group)
{
    int fd = open_count(root, "", group, "memory.events");

    return fd >= 0 ? fd : open_count(root, "", "", "memory.events");
}

/* `names`: the controllers of the hierarchy, after which its directory may be named, too. */
static int open_v1(const char *root, const char *names, const char *group)
{
    char together[128];
    const char *const hierarchies[] = {"/memory", together};
    int fd = -1;

    (void) snprintf(together, sizeof(together), "/%s", names);
    for (size_t i = 0; i < ARRAY_LEN(hierarchies) && fd < 0; i++) {
        fd = open_count(root, hierarchies[i], group, "memory.oom_control");
        if (fd < 0)
            fd = open_count(root, hierarchies[i], "", "memory.oom_control");
    }
    return fd;
}

static bool has_memory(const char *names)
{
    static const char name[] = "memory";

    while (*names != '\0') {
        size_t len = strcspn(names, ",");

        if (len == strlen(name) && strncmp(names, name, len) == 0)
            return true;
        names += len;
        names += *names == ',';
    }
    return false;
}

/* "0::/path" (v2) or "7:memory:/path" (v1). */
static int open_for_line(const char *root, char *line)
{
    char *names = strchr(line, ':');
    char *path = names != NULL ? strchr(names + 1, ':') : NULL;

    if (path == NULL)
        return -1;
    names++;
    *path = '\0';
    path++;
    path[strcspn(path, "\n")] = '\0';
    if (names[0] == '\0')
        return open_v2(root, path);
    return has_memory(names) ? open_v1(root, names, path) : -1;
}

int oom_open(const char *root)
{
    char path[512];
    char line[512];
    FILE *file;
    int fd = -1;

    (void) snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    file = fopen(path, "re");
    while (file != NULL && fd < 0 && fgets(line, sizeof(line), file) != NULL)
        fd = open_for_line(root, line);
    if (file != NULL)
        (void) fclose(file); /* only read */
    if (fd < 0)
        fd = open_v2(root, "");
    return fd >= 0 ? fd : open_v1(root, "memory", "");
}

/* The value in the line that begins with `key`. */
static uint64_t value_of(const char *text, const char *key)
{
    size_t len = strlen(key);

    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return strtoull(line + len + 1, NULL, 10);
    }
    return 0;
}

uint64_t oom_count(int fd)
{
    char text[1024];
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;

    if (n <= 0)
        return 0;
    text[n] = '\0';
    return value_of(text, "oom_kill") + value_of(text, "oom_group_kill");
}

void oom_score_open(struct oom_score *s)
{
    char text[16] = "";

    s->fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    s->own = 0;
    if (s->fd >= 0 && pread(s->fd, text, sizeof(text) - 1, 0) > 0)
        s->own = (int) strtol(text, NULL, 10);
    s->child = MIN_OF(s->own + SCORE_MORE, (int) SCORE_MAX);
}

void oom_score_close(struct oom_score *s)
{
    if (s->fd >= 0)
        (void) close(TAKE_FD(s->fd));
}

/* Where it cannot be set, all processes have the same score. */
static void set_score(int fd, int score)
{
    char text[16];
    int len = snprintf(text, sizeof(text), "%d", score);

    if (fd < 0 || pwrite(fd, text, (size_t) len, 0) < 0)
        return;
}

void oom_score_raise(const struct oom_score *s)
{
    set_score(s->fd, s->child);
}

void oom_score_lower(const struct oom_score *s)
{
    set_score(s->fd, s->own);
}
