/* traces.c - traces of boxes that no directory leads to: control groups and notes of runtimes, left
 * by a crash between two steps. They carry the box's id in their name. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/file.h"
#include "base/str.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

struct visit {
    void (*on_trace)(void *ctx, uint64_t id, int flavour, bool is_living);
    void *ctx;
};

static bool is_populated(int parent, const char *name)
{
    char path[64];
    char first[2];

    (void) snprintf(path, sizeof(path), "%.32s/cgroup.procs", name);
    return file_read_start(parent, path, first, sizeof(first)) == 1;
}

static void visit_dir(const struct visit *v, const char *path, int flavour)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    uint64_t id;

    if (dir == NULL)
        return;
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (entry->d_type == DT_DIR && str_parse_hex64(entry->d_name, &id))
            v->on_trace(v->ctx, id, flavour,
                        flavour < 0 && is_populated(dirfd(dir), entry->d_name));
    (void) closedir(dir); /* nothing to do about it here */
}

/* Version 2 has one tree, version 1 one for each hierarchy. */
static void each_parent(const struct oci *o, void (*act)(const char *path, const void *ctx),
                        const void *ctx)
{
    char path[OCI_PATH_MAX];
    const struct dirent *entry;
    DIR *dir;

    (void) snprintf(path, sizeof(path), CGROUP_ROOT "%s/sandpool-%s", o->group_top, o->instance);
    act(path, ctx);
    dir = o->is_cgroup_v2 ? NULL : opendir(CGROUP_ROOT);
    if (dir == NULL)
        return;
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.')
            continue;
        (void) snprintf(path, sizeof(path), CGROUP_ROOT "/%.64s/sandpool-%s", entry->d_name,
                        o->instance);
        act(path, ctx);
    }
    (void) closedir(dir); /* nothing to do about it here */
}

static void visit_cgroup(const char *path, const void *ctx)
{
    visit_dir(ctx, path, -1);
}

void oci_traces(const struct oci *o,
                void (*on_trace)(void *ctx, uint64_t id, int flavour, bool is_living), void *ctx)
{
    const struct visit v = {.on_trace = on_trace, .ctx = ctx};
    char path[OCI_PATH_MAX + 32];

    if (o->has_cgroups)
        each_parent(o, visit_cgroup, &v);
    for (int i = 0; i < OCI_FLAVOUR_COUNT; i++) {
        oci_state_root(o, (enum oci_flavour) i, path, sizeof(path));
        visit_dir(&v, path, i);
    }
}

static void remove_parent(const char *path, const void *ctx UNUSED)
{
    (void) rmdir(path); /* not there, or boxes are in it */
}

void oci_remove_cgroup_parent(const struct oci *o)
{
    if (o->has_cgroups)
        each_parent(o, remove_parent, NULL);
}
