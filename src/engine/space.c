/* space.c - how much space is left where the database and the disks of boxes lie. Looked at on a
 * thread, because a disk can hang: seldom while there is plenty, often when there is little. Below
 * the floor (store.min_free) the pool makes no new box. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"
#include "loop/work.h"

#define LOOK_SELDOM_NS (30 * NS_PER_S)
#define LOOK_OFTEN_NS (2 * NS_PER_S)
#define INODES_MIN 1024 /* a box needs a few dozen for its directory */
#define MB (1024 * 1024)

struct look {
    struct work work;
    struct engine *engine;
    unsigned dir_count; /* the state directory, and where backends keep disks */
    char dirs[1 + ENGINE_BACKENDS_MAX][CONFIG_PATH_MAX + 64];
    struct engine_disk disk;
};

static void on_timer(struct rt_timer *timer);

/* --- on the thread --- */

static bool has_few_inodes(const struct statvfs *fs)
{
    return fs->f_files > 0 && fs->f_favail < INODES_MIN; /* some file systems do not count them */
}

/* The fullest of the directories is the one that matters. The reason is shown to every caller, so it does not name it: `dir` does. */
static void measure(struct engine_disk *d, const char *dir)
{
    struct statvfs fs;
    uint64_t free_bytes;

    if (statvfs(dir, &fs) != 0)
        return; /* not there, or not readable: whoever needs it will say so */
    free_bytes = (uint64_t) fs.f_bavail * fs.f_frsize;
    if (d->is_low || (d->is_known && free_bytes >= d->free_bytes && !has_few_inodes(&fs)))
        return;
    d->is_known = true;
    str_copy_cut(d->dir, sizeof(d->dir), dir);
    d->free_bytes = free_bytes;
    d->total_bytes = (uint64_t) fs.f_blocks * fs.f_frsize;
    d->free_inodes = fs.f_favail;
    if (d->floor_bytes == 0)
        return;
    if (free_bytes < d->floor_bytes) {
        d->is_low = true;
        (void) snprintf(d->reason, sizeof(d->reason),
                        "free space of the daemon's disk is %llu MB, below the floor of %llu MB",
                        (unsigned long long) (free_bytes / MB),
                        (unsigned long long) (d->floor_bytes / MB));
    } else if (has_few_inodes(&fs)) {
        d->is_low = true;
        (void) snprintf(d->reason, sizeof(d->reason),
                        "the daemon's disk has %llu inodes left, below the floor of %d",
                        (unsigned long long) fs.f_favail, INODES_MIN);
    }
}

static void note_box(struct engine_disk *d, uint64_t box, uint64_t bytes)
{
    unsigned at = d->largest_count;

    while (at > 0 && d->largest[at - 1].bytes < bytes)
        at--;
    if (at == ENGINE_LARGEST_MAX)
        return;
    if (d->largest_count < ENGINE_LARGEST_MAX)
        d->largest_count++;
    memmove(&d->largest[at + 1], &d->largest[at],
            (d->largest_count - at - 1) * sizeof(d->largest[0]));
    d->largest[at].box.v = box;
    d->largest[at].bytes = bytes;
}

/* Disks are sparse: what counts is what they take, not their size. */
static void find_largest(struct engine_disk *d, const char *dir)
{
    DIR *stream = opendir(dir);

    if (stream == NULL)
        return;
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        char name[64];
        struct stat st;
        uint64_t box;

        if (strlen(entry->d_name) != BACKEND_ID_LEN || !str_parse_hex64(entry->d_name, &box))
            continue;
        (void) snprintf(name, sizeof(name), "%.16s/disk", entry->d_name);
        if (fstatat(dirfd(stream), name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            note_box(d, box, (uint64_t) st.st_blocks * 512);
    }
    (void) closedir(stream); /* was only read */
}

/* Not below the floor: one thread that fills it would keep everybody from new boxes. */
static void look_at_threads(struct look *l)
{
    struct statvfs fs;
    struct stat st;
    struct stat other;

    if (str_is_empty(l->disk.threads.dir) || statvfs(l->disk.threads.dir, &fs) != 0 ||
        stat(l->disk.threads.dir, &st) != 0)
        return;
    l->disk.threads.is_known = true;
    l->disk.threads.free_bytes = (uint64_t) fs.f_bavail * fs.f_frsize;
    for (unsigned i = 0; i < l->dir_count; i++)
        if (stat(l->dirs[i], &other) == 0 && other.st_dev == st.st_dev)
            l->disk.threads.is_shared = true;
}

static bool is_near(const struct engine_disk *d)
{
    return d->is_low || d->free_bytes / 2 < d->floor_bytes;
}

static int run(struct work *work, struct err *err)
{
    struct look *l = container_of(work, struct look, work);

    (void) err;
    for (unsigned i = 0; i < l->dir_count; i++)
        measure(&l->disk, l->dirs[i]);
    look_at_threads(l);
    for (unsigned i = 1; i < l->dir_count && is_near(&l->disk); i++)
        find_largest(&l->disk, l->dirs[i]);
    return SP_OK;
}

/* --- on the loop --- */

static void report_space(struct engine *e, bool was_low)
{
    struct pool_event ev = {.kind = POOL_EV_SPACE, .u.space.is_low = e->disk.is_low};

    if (!was_low && !e->disk.is_low)
        return;
    str_copy_cut(ev.u.space.reason, sizeof(ev.u.space.reason), e->disk.reason);
    if (e->disk.is_low && !was_low)
        log_error("disk.low", LF_STR("reason", e->disk.reason), LF_STR("dir", e->disk.dir));
    else if (!e->disk.is_low)
        log_info("disk.ok", LF_U64("free_mb", e->disk.free_bytes / MB));
    engine_post(e, &ev);
}

static void arm(struct engine *e)
{
    uint64_t wait_ns = is_near(&e->disk) ? LOOK_OFTEN_NS : LOOK_SELDOM_NS;

    if (!e->is_closing && e->disk.floor_bytes > 0)
        rt_timer_set(e->rt, &e->space_timer, rt_after(rt_now(e->rt), wait_ns), on_timer);
}

static void on_looked(struct op *op)
{
    struct look *l = container_of(op, struct look, work.op);
    struct engine *e = l->engine;
    bool was_low = e->disk.is_low;

    e->is_looking = false;
    e->looked_ns = rt_now(e->rt);
    if (op->result == SP_OK)
        e->disk = l->disk;
    free(l);
    if (!e->is_closing)
        report_space(e, was_low);
    arm(e);
    engine_op_ended(e);
}

void space_look(struct engine *e)
{
    const struct config *c = e->config->config;
    struct look *l;

    if (e->is_looking || e->is_closing)
        return;
    e->is_looking = true;
    rt_timer_cancel(e->rt, &e->space_timer);
    l = xcalloc(1, sizeof(*l));
    l->engine = e;
    l->work.run = run;
    l->disk.floor_bytes = c->store.min_free;
    if (!c->provisioner.enabled || !config_thread_base(c, l->disk.threads.dir))
        l->disk.threads.dir[0] = '\0';
    str_copy_cut(l->dirs[0], sizeof(l->dirs[0]), c->state_dir);
    l->dir_count = 1;
    for (unsigned i = 0; i < e->backend_count; i++) {
        struct backend *b = e->backends[i].backend;

        if (b->ops->disk_dir != NULL)
            str_copy_cut(l->dirs[l->dir_count++], sizeof(l->dirs[0]), b->ops->disk_dir(b));
    }
    engine_op_begun(e);
    work_start(e->loop, &l->work, NULL, RT_NEVER, on_looked);
}

static void on_timer(struct rt_timer *timer)
{
    space_look(container_of(timer, struct engine, space_timer));
}

void space_refresh(struct engine *e)
{
    if (rt_after(e->looked_ns, LOOK_OFTEN_NS) <= rt_now(e->rt))
        space_look(e);
}

const struct engine_disk *engine_disk(struct engine *e)
{
    space_refresh(e);
    return &e->disk;
}
