/* gather.c - the layers of a container in the storage of an engine (overlayfs), made one, and what lies on the disk of its limited
 * directories put where the container sees it. Owners stay as they are. Nothing in them is trusted: a box has written it. */
#include "helper/gather.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/attrs.h"
#include "helper/container.h"
#include "helper/container_places.h"
#include "helper/merge_copy.h"
#include "helper/tree_write.h"

#define MB (1024ULL * 1024)
#define HOLES_MAX \
    (1024 * MB) /* with several at once, what they may take of the engine's disk beyond its floor */

struct gathering {
    struct merge_layer layers[PLAN_LAYERS_MAX];
    size_t layer_count;
    struct container_places places;
    bool is_in_place; /* what is copied is itself from a place */
    struct tree_writer writer;
    int to;
    uint64_t reserve;
    uint64_t bytes; /* of files in an image, which has no holes */
    uint64_t holes;
};

/* --- what is copied --- */

/* What a place covers comes with the place. */
static bool is_covered(const struct gathering *g, const char *path)
{
    for (size_t i = 0; !g->is_in_place && i < g->places.count; i++) {
        size_t len = strlen(g->places.of[i].path);

        if (strncmp(path, g->places.of[i].path, len) == 0 && path[len] == '/')
            return true;
    }
    return false;
}

/* The engine reads all of the copy into the image, holes as zeros: a file of no block may become as large as its size says. */
static int weigh(struct gathering *g, const struct merge_item *item, struct err *err)
{
    uint64_t size = (uint64_t) item->st.st_size;
    uint64_t stored = (uint64_t) item->st.st_blocks * 512;
    struct statvfs fs;

    g->bytes += MAX_OF(size, stored);
    g->holes += size > stored ? size - stored : 0;
    if (g->holes > HOLES_MAX)
        return err_set(err, SP_BODY_TOO_LARGE,
                       "files of the box have more than %llu MB of holes, which an image has as "
                       "zeros: '%.150s' is one of them",
                       HOLES_MAX / MB, item->path);
    if (fstatvfs(g->to, &fs) != 0)
        return err_sys(err, SP_IO, errno, "measure the engine's disk");
    if ((uint64_t) fs.f_bavail * fs.f_frsize < g->bytes + stored + g->reserve)
        return err_set(
            err, SP_IO,
            "the engine's disk is too full for it: at least %llu MB are needed, and %llu MB "
            "more have to stay free",
            (unsigned long long) ((g->bytes + stored) / MB),
            (unsigned long long) (g->reserve / MB));
    return SP_OK;
}

static int put(void *ctx, const struct merge_item *item, struct err *err)
{
    struct gathering *g = ctx;
    int rc = SP_OK;

    if (is_covered(g, item->path))
        return SP_OK;
    if (item->link == NULL && S_ISREG(item->st.st_mode))
        rc = weigh(g, item, err);
    return rc == SP_OK ? merge_put(&g->writer, item, err) : rc;
}

static int leave(void *ctx, const struct merge_item *item, struct err *err)
{
    struct gathering *g = ctx;

    return is_covered(g, item->path) ? SP_OK : merge_leave(&g->writer, item, err);
}

static int copy_layers(struct gathering *g, const struct merge_layer *layers, size_t count, int to,
                       struct err *err)
{
    int rc;

    tree_writer_init(&g->writer, to, 0);
    g->writer.is_raw = true;
    rc = merge_layers(layers, count, &(struct merge_sink){.put = put, .leave = leave, .ctx = g},
                      err);
    tree_writer_fini(&g->writer);
    return rc;
}

/* --- places --- */

static int open_below(int top, const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = resolve | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};

    return (int) syscall(SYS_openat2, top, path, &how, sizeof(how));
}

/* Of the directories above a place the copy may have none yet: it gets them as the container sees them. */
static int make_above(int root, int to, const char *path, struct err *err)
{
    AUTO_CLOSE int have = open_below(to, path, RESOLVE_BENEATH);
    AUTO_CLOSE int from = have < 0 ? open_below(root, path, RESOLVE_IN_ROOT) : -1;
    struct tree_writer w;
    struct stat st;
    int rc;

    if (have >= 0)
        return SP_OK;
    if (from < 0 || fstat(from, &st) != 0)
        return err_sys(err, SP_UNSUPPORTED, errno, "the directory '%.150s' of the box", path);
    tree_writer_init(&w, to, 0);
    w.is_raw = true;
    if ((rc = tree_write_dir(&w, path, &st, false, err)) == SP_OK &&
        (rc = tree_write_attrs_of(&w, path, from, ".", err)) == SP_OK)
        rc = tree_write_times(&w, path, &st, err);
    tree_writer_fini(&w);
    return rc;
}

static int make_way(int root, int to, const char *path, struct err *err)
{
    char part[PLAN_PATH_MAX + 1];
    int rc = SP_OK;

    for (const char *end = path; rc == SP_OK && *end != '\0';) {
        end += strcspn(end, "/");
        (void) snprintf(part, sizeof(part), "%.*s", (int) (end - path), path);
        rc = make_above(root, to, part, err);
        end += *end == '/';
    }
    return rc;
}

static int copy_place(struct gathering *g, const struct container_place *place, int root, int to,
                      struct err *err)
{
    AUTO_CLOSE int top = -1;
    AUTO_CLOSE int covered = open_below(g->layers[0].fd, place->path, RESOLVE_BENEATH);
    const struct merge_layer layers[2] = {{.fd = place->upper, .is_raw = true},
                                          {.fd = covered, .is_raw = true}};
    int rc = make_way(root, to, place->path, err);

    if (rc != SP_OK)
        return rc;
    top = open_below(to, place->path, RESOLVE_BENEATH);
    if (top < 0)
        return err_sys(err, SP_IO, errno, "open '%.150s' of the copy", place->path);
    return copy_layers(g, layers, covered >= 0 ? 2 : 1, top, err);
}

static int copy_places(const struct plan *p, struct gathering *g, int to, struct err *err)
{
    AUTO_CLOSE int root = -1;
    char path[64];
    int rc = SP_OK;

    (void) snprintf(path, sizeof(path), "/proc/%d/root", p->pid);
    root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return err_sys(err, ERR_BOX_DEAD, errno, "the box does not run");
    g->is_in_place = true;
    for (size_t i = 0; rc == SP_OK && i < g->places.count; i++)
        rc = copy_place(g, &g->places.of[i], root, to, err);
    return rc;
}

/* --- all of it --- */

static void print(const struct gathering *g, struct buf *answer)
{
    struct json_out out;

    json_out_init(&out);
    json_begin_obj(&out, NULL);
    json_put_u64(&out, "size", g->bytes);
    json_end(&out);
    json_out_finish(&out, answer);
}

static int open_layers(const struct plan *p, struct gathering *g, struct err *err)
{
    for (size_t i = 0; i < p->from_count; i++) {
        int fd = open(p->from[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
            return err_sys(err, SP_UNSUPPORTED, errno, "open the layer '%.150s'", p->from[i]);
        g->layers[g->layer_count++] = (struct merge_layer){.fd = fd, .is_raw = true};
    }
    return SP_OK;
}

static int gather(struct plan *p, struct gathering *g, struct err *err)
{
    AUTO_CLOSE int to = open(p->to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int pid_fd = -1;
    int rc;

    if (to < 0)
        return err_sys(err, SP_UNSUPPORTED, errno, "open '%.150s'", p->to);
    g->to = to;
    g->reserve = p->reserve;
    if (p->container != NULL && ((rc = container_open(p, &pid_fd, err)) != SP_OK ||
                                 (rc = container_places_open(p, &g->places, err)) != SP_OK))
        return rc;
    if ((rc = open_layers(p, g, err)) != SP_OK ||
        (rc = copy_layers(g, g->layers, g->layer_count, to, err)) != SP_OK)
        return rc;
    return p->container != NULL ? copy_places(p, g, to, err) : SP_OK;
}

int gather_files(struct plan *p, struct buf *answer, struct err *err)
{
    static struct gathering g; /* large */
    struct rlimit files;
    int rc;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* directories of all layers are open at once */
        files.rlim_cur = files.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &files); /* what is missing is said when it is */
    }
    rc = gather(p, &g, err);
    if (rc == SP_OK)
        print(&g, answer);
    for (size_t i = 0; i < g.layer_count; i++)
        (void) close(g.layers[i].fd); /* directories */
    container_places_close(&g.places);
    return rc;
}
