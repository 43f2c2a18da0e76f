/* hoard.c - memory of the kernel that a box holds outside its limit: which processes are a box's, and the end of one
 * that holds too much. Its control group leads to them, on a thread and without the table: a group is in the file
 * system as long as its box lives. */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/log.h"
#include "base/str.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

/* In version 1 every hierarchy has them. */
static void put_parent(const struct oci *o, char *dst, size_t cap)
{
    static const char *const tops[] = {"/pids", "/memory"};
    size_t i = 0;

    if (o->is_cgroup_v2) {
        (void) snprintf(dst, cap, CGROUP_ROOT "%s/sandpool-%s", o->group_top, o->instance);
        return;
    }
    do
        (void) snprintf(dst, cap, CGROUP_ROOT "%s/sandpool-%s", tops[i], o->instance);
    while (access(dst, F_OK) != 0 && ++i < ARRAY_LEN(tops));
}

static void each_box(void *ctx, struct kernel_watch_look *look)
{
    const struct oci *o = ctx;
    char parent[OCI_PATH_MAX];
    char group[OCI_PATH_MAX + 64];
    const struct dirent *e;
    uint64_t id;
    DIR *dir;

    put_parent(o, parent, sizeof(parent));
    dir = opendir(parent);
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        if (!str_parse_hex64(e->d_name, &id))
            continue;
        (void) snprintf(group, sizeof(group), "%s/%.16s", parent, e->d_name);
        kernel_watch_count(look, id, group);
    }
    if (dir != NULL)
        (void) closedir(dir); /* only read */
}

static bool has_boxes(void *ctx)
{
    const struct oci *o = ctx;

    return !list_is_empty(&o->boxes.all);
}

static void on_over(void *ctx, uint64_t id, const char *what)
{
    struct oci *o = ctx;
    struct oci_box *b = oci_box_find(o, id);
    struct backend_notice n = {.kind = BACKEND_BOX_KERNEL_MEMORY, .box_id = id, .text = what};

    if (b == NULL || b->entry.state != BOX_RUNNING || b->watch == NULL)
        return; /* it is being made or removed; the next count sees it again if it stays */
    if (o->events != NULL && o->events->on_notice != NULL)
        o->events->on_notice(o->events->ctx, &n);
    oci_box_end(b, BACKEND_DEATH_KERNEL_MEMORY);
}

void oci_hoard_open(struct oci *o, uint64_t max_bytes)
{
    o->kernel_watch = (struct kernel_watch){.loop = o->loop,
                                            .closing = &o->closing,
                                            .ctx = o,
                                            .max_bytes = max_bytes,
                                            .each_box = each_box,
                                            .has_boxes = has_boxes,
                                            .on_over = on_over,
                                            .meminfo = -1};
    if (o->has_cgroups)
        kernel_watch_open(&o->kernel_watch);
}
