/* snapshot_side.c - the files of snapshot_side.h, on a thread. */
#include "engine/snapshot_side.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/agent_env.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"
#include "engine/snapshots.h"

enum { TEXT_MAX = 256 * 1024 };

void side_dir(const struct engine *e, char dst[CONFIG_PATH_MAX + 32])
{
    (void) snprintf(dst, CONFIG_PATH_MAX + 32, "%s/snapshots", e->config->config->state_dir);
}

static void put_path(char dst[CONFIG_PATH_MAX + 64], const char *dir, uint64_t id)
{
    char hex[17];

    str_hex64(hex, id);
    (void) snprintf(dst, CONFIG_PATH_MAX + 64, "%.*s/%s", CONFIG_PATH_MAX + 32, dir, hex);
}

static void read_envs(int fd, const char *path, struct snapshot_side *ret)
{
    struct json_doc *doc = NULL;
    struct err err = {.msg = "it cannot be read"};
    struct buf text;
    bool is_good;

    buf_init(&text, TEXT_MAX);
    is_good = file_read_rest(fd, &text) == 0;
    if (is_good && text.len > 0) {
        doc = json_parse(buf_str(&text), text.len, TEXT_MAX, &err);
        is_good = doc != NULL &&
                  agent_env_read(json_get(json_root(doc), "envs"), &ret->envs, &err) == SP_OK;
    }
    if (is_good && doc != NULL)
        ret->was_unequipped = json_bool(json_get(json_root(doc), "was_unequipped"));
    if (!is_good)
        log_warn("snapshot.envs_lost", LF_STR("path", path), LF_STR("reason", err.msg));
    (void) json_doc_free(doc);
    buf_fini(&text);
}

void side_read(const char *dir, uint64_t id, struct snapshot_side *ret)
{
    char path[CONFIG_PATH_MAX + 64];
    AUTO_CLOSE int fd = -1;
    struct stat st;

    *ret = (struct snapshot_side){0};
    put_path(path, dir, id);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return;
    ret->used_ms = (uint64_t) st.st_mtim.tv_sec * 1000 + (uint64_t) st.st_mtim.tv_nsec / 1000000;
    read_envs(fd, path, ret);
}

static int set_time(int fd, uint64_t ms)
{
    const struct timespec at = {.tv_sec = (time_t) (ms / 1000),
                                .tv_nsec = (long) (ms % 1000) * 1000000};
    const struct timespec times[2] = {at, at};

    return futimens(fd, times) == 0 && fsync(fd) == 0 ? 0 : errno;
}

int side_write(const char *dir, uint64_t id, const struct snapshot_side *side, struct err *err)
{
    char path[CONFIG_PATH_MAX + 64];
    AUTO_CLOSE int fd = -1;
    struct json_out o;
    struct buf text;
    int sys = 0;
    int rc = file_make_dir(dir, err);

    if (rc != SP_OK)
        return rc;
    put_path(path, dir, id);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, SP_IO, errno, "make '%.150s'", path);
    if (side->envs == NULL)
        return SP_OK;
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    agent_env_put(side->envs, &o, "envs");
    if (side->was_unequipped)
        json_put_bool(&o, "was_unequipped", true);
    json_end(&o);
    buf_init(&text, TEXT_MAX);
    json_out_finish(&o, &text);
    sys = buf_failed(&text) ? EFBIG : file_write_all(fd, buf_str(&text), text.len);
    if (sys == 0)
        sys = set_time(fd, side->used_ms);
    buf_fini(&text);
    return sys == 0 ? SP_OK : err_sys(err, SP_IO, sys, "write '%.150s'", path);
}

/* --- without anybody who waits --- */

struct chore {
    struct work work;
    struct engine *engine;
    uint64_t id;
    char dir[CONFIG_PATH_MAX + 32];
    uint64_t *known; /* of a sweep; sorted */
    size_t known_count;
    uint64_t before_ms;
};

static void on_chore(struct op *op)
{
    struct chore *c = container_of(op, struct chore, work.op);
    struct engine *e = c->engine;

    if (op->result != SP_OK)
        log_warn("snapshot.side_failed", LF_HEX("snapshot", c->id), LF_STR("reason", op->err.msg));
    free(c->known);
    free(c);
    engine_op_ended(e);
}

static struct chore *chore_new(struct engine *e, uint64_t id)
{
    struct chore *c = xcalloc(1, sizeof(*c));

    c->engine = e;
    c->id = id;
    side_dir(e, c->dir);
    return c;
}

static void start(struct chore *c, int (*run)(struct work *w, struct err *err))
{
    engine_op_begun(c->engine);
    c->work.run = run;
    work_start(c->engine->loop, &c->work, NULL, RT_NEVER, on_chore);
}

static int run_touch(struct work *w, struct err *err)
{
    const struct chore *c = container_of(w, struct chore, work);
    const struct snapshot_side nothing = {0};
    char path[CONFIG_PATH_MAX + 64];

    put_path(path, c->dir, c->id);
    if (utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0)
        return SP_OK;
    return side_write(c->dir, c->id, &nothing, err);
}

void side_touch(struct engine *e, uint64_t id)
{
    start(chore_new(e, id), run_touch);
}

static int run_remove(struct work *w, struct err *err)
{
    const struct chore *c = container_of(w, struct chore, work);
    char path[CONFIG_PATH_MAX + 64];

    put_path(path, c->dir, c->id);
    if (unlink(path) != 0 && errno != ENOENT)
        return err_sys(err, SP_IO, errno, "remove '%.150s'", path);
    return SP_OK;
}

void side_remove(struct engine *e, uint64_t id)
{
    start(chore_new(e, id), run_remove);
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

static int run_sweep(struct work *w, struct err *err UNUSED)
{
    const struct chore *c = container_of(w, struct chore, work);
    const struct dirent *entry;
    DIR *d = opendir(c->dir);
    struct stat st;
    uint64_t id;

    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (!str_parse_hex64(entry->d_name, &id) ||
            bsearch(&id, c->known, c->known_count, sizeof(id), compare) != NULL ||
            fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            (uint64_t) st.st_mtim.tv_sec * 1000 >= c->before_ms)
            continue;
        (void) unlinkat(dirfd(d), entry->d_name, 0); /* or at the next start */
    }
    if (d != NULL)
        (void) closedir(d); /* only read */
    return SP_OK;
}

/* Files of this life may be those of snapshots that are being made. */
void side_sweep(struct engine *e)
{
    static const struct engine_snapshots_of all = {.want_hibernated = true};
    struct chore *c = chore_new(e, 0);

    c->known = xcalloc(e->snapshot_list.len + 1, sizeof(*c->known));
    for (const struct engine_snapshot *s = engine_snapshot_first(e, &all); s != NULL;
         s = engine_snapshot_next(e, &all, s))
        c->known[c->known_count++] = s->info.id;
    qsort(c->known, c->known_count, sizeof(*c->known), compare);
    c->before_ms = e->snapshots_since_ms;
    start(c, run_sweep);
}
