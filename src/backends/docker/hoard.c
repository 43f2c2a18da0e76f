/* hoard.c - memory of the kernel that containers hold outside their limit: where their control groups are, and the end
 * of one that holds too much. No engine is asked: it names the group of a container after its id. Groups are looked for
 * on a thread, which sees of the boxes only which containers they are. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/mem.h"
#include "base/str.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

enum {
    WALK_DEEP = 16,          /* engines make four levels or so */
    WALK_MAX = 1024 * 1024,  /* groups of the machine that are looked at */
    WALK_PATH_MAX = 4096 - 1 /* as the kernel takes them */
};

struct walk {
    struct docker *docker;
    struct kernel_watch_look *look;
    char path[WALK_PATH_MAX + 1];
    size_t len;
    unsigned groups;
};

/* --- which containers --- */

static bool eq_container(const struct map_node *node, const void *key)
{
    const struct docker_box *b = container_of(node, struct docker_box, by_container);

    return strcmp(b->container, key) == 0;
}

void docker_hoard_add(struct docker_box *b)
{
    struct docker *d = b->docker;

    if (!d->has_hoard || b->is_foreign || b->by_container.is_linked || str_is_empty(b->container))
        return;
    pthread_mutex_lock(&d->hoard_lock);
    map_insert(&d->by_container, &b->by_container, hash_str(b->container));
    pthread_mutex_unlock(&d->hoard_lock);
}

void docker_hoard_remove(struct docker_box *b)
{
    if (!b->by_container.is_linked)
        return;
    pthread_mutex_lock(&b->docker->hoard_lock);
    map_remove(&b->docker->by_container, &b->by_container);
    pthread_mutex_unlock(&b->docker->hoard_lock);
}

static bool find_box(struct docker *d, const char *container, uint64_t *ret)
{
    const struct map_node *n;

    pthread_mutex_lock(&d->hoard_lock);
    n = map_find(&d->by_container, hash_str(container), eq_container, container);
    if (n != NULL)
        *ret = container_of(n, const struct docker_box, by_container)->entry.id;
    pthread_mutex_unlock(&d->hoard_lock);
    return n != NULL;
}

/* --- on the thread --- */

/* "<id>", "docker-<id>.scope", "libpod-<id>"; not "libpod-conmon-<id>.scope", which serves one. */
static bool read_container(const char *name, char dst[static DOCKER_CONTAINER_MAX + 1])
{
    const char *dash = strrchr(name, '-');
    const char *id = dash != NULL ? dash + 1 : name;

    return strspn(id, "0123456789abcdef") == DOCKER_CONTAINER_MAX &&
           strstr(name, "conmon") == NULL &&
           str_copy_n(dst, DOCKER_CONTAINER_MAX + 1, id, DOCKER_CONTAINER_MAX);
}

static void look_into(struct walk *w, unsigned depth);

/* `name` is in the directory that w->path leads to. */
static void look_at(struct walk *w, const char *name, unsigned depth)
{
    char container[DOCKER_CONTAINER_MAX + 1];
    size_t len = w->len;
    uint64_t id;

    if (len + 1 + strlen(name) > WALK_PATH_MAX)
        return;
    w->len += (size_t) snprintf(w->path + len, sizeof(w->path) - len, "/%s", name);
    if (!read_container(name, container))
        look_into(w, depth + 1);
    else if (find_box(w->docker, container, &id))
        kernel_watch_count(w->look, id, w->path);
    w->len = len;
    w->path[len] = '\0';
}

/* Users can have control groups of their own, in which any name is possible, and so can containers: only what root or
 * this user has made counts. */
static void look_into(struct walk *w, unsigned depth)
{
    struct stat st;
    const struct dirent *e;
    DIR *dir;

    if (depth > WALK_DEEP || stat(w->path, &st) != 0 || st.st_nlink <= 2 ||
        (st.st_uid != 0 && st.st_uid != geteuid()))
        return;
    dir = opendir(w->path);
    while (dir != NULL && (e = readdir(dir)) != NULL && w->groups < WALK_MAX) {
        if (e->d_type != DT_DIR || e->d_name[0] == '.')
            continue;
        w->groups++;
        look_at(w, e->d_name, depth);
    }
    if (dir != NULL)
        (void) closedir(dir); /* only read */
}

/* In version 1 every hierarchy has the containers' groups. */
static void each_box(void *ctx, struct kernel_watch_look *look)
{
    struct walk *w = xcalloc(1, sizeof(*w));
    bool is_v1 = access(CGROUP_ROOT "/cgroup.controllers", F_OK) != 0;

    w->docker = ctx;
    w->look = look;
    str_copy_cut(w->path, sizeof(w->path),
                 !is_v1                                   ? CGROUP_ROOT
                 : access(CGROUP_ROOT "/pids", F_OK) == 0 ? CGROUP_ROOT "/pids"
                                                          : CGROUP_ROOT "/memory");
    w->len = strlen(w->path);
    look_into(w, 0);
    free(w);
}

/* --- on the loop --- */

static bool has_boxes(void *ctx)
{
    const struct docker *d = ctx;

    return d->by_container.len > 0;
}

struct ending {
    struct call call;
    uint64_t id;
};

/* Its death is reported by the engine, as any other. */
static void on_killed(struct op *op)
{
    struct ending *e = container_of(op, struct ending, call.op);
    struct docker_box *b = docker_box_find(docker_of_call(&e->call), e->id);
    struct err err;
    int rc = docker_call_result(&e->call, &err);

    if (rc != SP_OK && rc != SP_NOT_FOUND && rc != ERR_TAKEN) { /* these two: it has ended */
        log_error("docker.kill_failed", LF_HEX("box", e->id), LF_STR("reason", err.msg));
        if (b != NULL)
            b->is_over = false; /* the next count tries again */
    }
    call_fini(&e->call);
    free(e);
}

static void on_over(void *ctx, uint64_t id, const char *what)
{
    struct docker *d = ctx;
    struct docker_box *b = docker_box_find(d, id);
    struct backend_notice n = {.kind = BACKEND_BOX_KERNEL_MEMORY, .box_id = id, .text = what};
    struct ending *e;

    if (b == NULL || b->entry.state != BOX_RUNNING || b->is_over)
        return;
    docker_notify(d, &n);
    b->is_over = true;
    e = xcalloc(1, sizeof(*e));
    e->id = id;
    docker_call_init(d, &e->call, "POST");
    buf_printf(&e->call.path, "/containers/%s/kill", b->container);
    docker_call_start(&e->call, RT_NEVER, on_killed);
}

void docker_hoard_open(struct docker *d, const struct config *config, uint64_t max_bytes)
{
    d->kernel_watch = (struct kernel_watch){.loop = d->loop,
                                            .closing = &d->closing,
                                            .ctx = d,
                                            .max_bytes = max_bytes,
                                            .each_box = each_box,
                                            .has_boxes = has_boxes,
                                            .on_over = on_over,
                                            .meminfo = -1};
    if (max_bytes == 0 || d->base.is_elsewhere)
        return;
    d->has_hoard = true;
    pthread_mutex_init(&d->hoard_lock, NULL);
    map_init(&d->by_container, config->pool.max_boxes);
    kernel_watch_open(&d->kernel_watch);
}

void docker_hoard_fini(struct docker *d)
{
    if (!d->has_hoard)
        return;
    map_fini(&d->by_container);
    pthread_mutex_destroy(&d->hoard_lock);
}

void docker_hoard_report(struct backend_exam *r, const struct docker *d)
{
    const struct kernel_watch *w = &d->kernel_watch;

    kernel_watch_report(w, r, "docker.kernel_memory",
                        d->base.is_elsewhere ? "nobody counts them on the machine of the engine"
                        : w->is_unseen       ? "its control group cannot be seen by the daemon"
                                             : NULL);
}
