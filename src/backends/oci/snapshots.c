/* snapshots.c - the snapshots in memory and on the disk: read at the start, listed, deleted, kept while they are needed. */
#include "backends/oci/snapshots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

enum { RECORD_MAX = 32 * 1024, EXPECTED = 1024 };

#define RECORD "snapshot.json"

static bool is_id(const struct map_node *node, const void *key)
{
    return container_of(node, struct oci_snapshot, node)->info.id == *(const uint64_t *) key;
}

struct oci_snapshot *oci_snapshot_find_any(struct oci *o, uint64_t id)
{
    struct map_node *n = map_find(&o->snapshots.by_id, hash_u64(id), is_id, &id);

    return n != NULL ? container_of(n, struct oci_snapshot, node) : NULL;
}

struct oci_snapshot *oci_snapshot_find(struct oci *o, uint64_t id)
{
    struct oci_snapshot *s = oci_snapshot_find_any(o, id);

    return s != NULL && !s->info.is_deleted ? s : NULL;
}

void oci_snapshot_path(const struct oci *o, uint64_t id, bool is_new, const char *file, char *dst,
                       size_t cap)
{
    char hex[17];

    str_hex64(hex, id);
    (void) snprintf(dst, cap, "%s/%s%s%s%s", o->snapshots.dir, is_new ? "new-" : "", hex,
                    file != NULL ? "/" : "", file != NULL ? file : "");
}

/* --- the record --- */

int oci_sync_dir(const char *path, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd >= 0 && fsync(fd) == 0 ? SP_OK : err_sys(err, SP_IO, errno, "sync '%.150s'", path);
}

static int write_record(int fd, const struct snapshot *s, uint64_t id_base, bool is_flat)
{
    struct json_out o;
    struct buf text;
    int sys;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    snapshot_put(&o, s);
    json_put_u64(&o, "id_base", id_base);
    if (is_flat)
        json_put_bool(&o, "flat", true);
    json_end(&o);
    buf_init(&text, RECORD_MAX);
    json_out_finish(&o, &text);
    sys = buf_failed(&text) ? EFBIG : file_write_all(fd, buf_str(&text), text.len);
    buf_fini(&text);
    return sys == 0 && fsync(fd) != 0 ? errno : sys;
}

int oci_snapshot_write(const char *dir, const struct snapshot *s, uint64_t id_base, bool is_flat,
                       struct err *err)
{
    char path[OCI_PATH_MAX + 64];
    char temporary[OCI_PATH_MAX + 64];
    AUTO_CLOSE int fd = -1;
    int sys;

    (void) snprintf(path, sizeof(path), "%s/" RECORD, dir);
    (void) snprintf(temporary, sizeof(temporary), "%s/" RECORD ".new", dir);
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, SP_IO, errno, "make '%.150s'", temporary);
    if ((sys = write_record(fd, s, id_base, is_flat)) != 0)
        return err_sys(err, SP_IO, sys, "write '%.150s'", temporary);
    if (rename(temporary, path) != 0)
        return err_sys(err, SP_IO, errno, "rename '%.150s'", temporary);
    return oci_sync_dir(dir, err);
}

static bool read_record(int dir, const char *name, struct snapshot *ret, uint64_t *ret_id_base,
                        bool *ret_is_flat)
{
    AUTO_CLOSE int own = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int disk = own < 0 ? -1 : openat(own, "disk", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int fd = disk < 0 ? -1 : openat(own, RECORD, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const struct json *base;
    const struct json *flat;
    struct json_doc *doc;
    struct buf text;
    struct err err;
    bool is_good;

    if (fd < 0)
        return false;
    buf_init(&text, RECORD_MAX);
    doc = file_read_rest(fd, &text) == 0 ? json_parse(buf_str(&text), text.len, RECORD_MAX, &err)
                                         : NULL;
    base = doc != NULL ? json_get(json_root(doc), "id_base") : NULL;
    flat = doc != NULL ? json_get(json_root(doc), "flat") : NULL;
    *ret_is_flat = flat != NULL && json_bool(flat);
    (void) unlinkat(own, "flat", 0); /* one that was not finished */
    is_good = base != NULL && json_u64(base, ret_id_base) && snapshot_take(json_root(doc), ret);
    (void) json_doc_free(doc);
    buf_fini(&text);
    return is_good;
}

/* --- in memory --- */

static struct oci_snapshot *insert(struct oci *o, const struct snapshot *s, uint64_t id_base)
{
    struct oci_snapshot *e = xcalloc(1, sizeof(*e));

    e->info = *s;
    e->id_base = id_base;
    list_init(&e->above);
    map_insert(&o->snapshots.by_id, &e->node, hash_u64(s->id));
    list_push_back(&o->snapshots.all, &e->link);
    return e;
}

static void put_on_parent(struct oci *o, struct oci_snapshot *e)
{
    struct oci_snapshot *below = oci_snapshot_below(o, e);

    if (below == NULL)
        return;
    below->users++;
    list_push_back(&below->above, &e->above_link);
}

static void forget(struct oci *o, struct oci_snapshot *e)
{
    struct oci_snapshot *below = oci_snapshot_below(o, e);

    if (below != NULL)
        list_remove(&below->above, &e->above_link);
    list_remove(&o->snapshots.deep, &e->deep_link);
    list_remove(&o->snapshots.moved, &e->moved_link);
    map_remove(&o->snapshots.by_id, &e->node);
    list_remove(&o->snapshots.all, &e->link);
    free(e);
}

void oci_snapshot_add(struct oci *o, const struct snapshot *s, uint64_t id_base)
{
    struct oci_snapshot *e = insert(o, s, id_base);

    put_on_parent(o, e);
    oci_flatten_weigh(o, e);
    oci_flatten_next(o);
}

void oci_snapshot_detach(struct oci *o, struct oci_snapshot *e)
{
    struct oci_snapshot *below = oci_snapshot_below(o, e);

    e->is_flat = true;
    if (below == NULL)
        return;
    list_remove(&below->above, &e->above_link);
    oci_snapshot_unuse(o, below->info.id);
}

struct oci_snapshot *oci_snapshot_below(struct oci *o, const struct oci_snapshot *e)
{
    return e->is_flat || e->info.parent == 0 ? NULL : oci_snapshot_find_any(o, e->info.parent);
}

unsigned oci_snapshot_depth(struct oci *o, const struct oci_snapshot *e)
{
    unsigned depth = 1;

    while (depth <= OCI_LAYERS_MAX && (e = oci_snapshot_below(o, e)) != NULL)
        depth++;
    return depth;
}

/* --- the start --- */

static void remove_files(const char *dir, const char *name)
{
    static const char *const files[] = {RECORD, RECORD ".new", "flat", "disk"};
    char path[OCI_PATH_MAX + 300];

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        (void) snprintf(path, sizeof(path), "%s/%s/%s", dir, name, files[i]);
        (void) unlink(path); /* not each is there */
    }
    (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (rmdir(path) != 0 && errno != ENOENT)
        log_warn("oci.snapshot_not_removed", LF_STR("path", path),
                 LF_STR("reason", strerror(errno)));
}

static void link_all(struct oci *o)
{
    struct list *all = &o->snapshots.all;
    struct list_node *n;

    for (n = list_first(all); n != NULL; n = list_next(all, n))
        put_on_parent(o, container_of(n, struct oci_snapshot, link));
    for (n = list_first(all); n != NULL; n = list_next(all, n))
        oci_flatten_weigh(o, container_of(n, struct oci_snapshot, link));
}

static void load(struct oci *o, DIR *d)
{
    const struct dirent *e;
    struct snapshot *s = xcalloc(1, sizeof(*s));
    uint64_t id_base;
    bool is_flat;
    uint64_t id;

    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        if (str_parse_hex64(e->d_name, &id) &&
            read_record(dirfd(d), e->d_name, s, &id_base, &is_flat) && s->id == id)
            insert(o, s, id_base)->is_flat = is_flat;
        else if (strncmp(e->d_name, "new-", 4) == 0 || strncmp(e->d_name, "old-", 4) == 0)
            remove_files(o->snapshots.dir, e->d_name);
        else
            log_error("oci.snapshot_unreadable", LF_STR("name", e->d_name),
                      LF_STR("dir", o->snapshots.dir),
                      LF_STR("hint", "it is left as it is; boxes cannot be made from it"));
    }
    free(s);
    link_all(o);
}

int oci_snapshots_open(struct oci *o, struct err *err)
{
    DIR *d;
    int rc;

    map_init(&o->snapshots.by_id, EXPECTED);
    list_init(&o->snapshots.all);
    list_init(&o->snapshots.captures);
    list_init(&o->snapshots.deep);
    list_init(&o->snapshots.moved);
    (void) snprintf(o->snapshots.dir, sizeof(o->snapshots.dir), "%.450s/snapshots", o->dir);
    rc = file_make_dir(o->snapshots.dir, err);
    if (rc != SP_OK)
        return rc;
    d = opendir(o->snapshots.dir);
    if (d == NULL)
        return err_sys(err, SP_IO, errno, "read '%.150s'", o->snapshots.dir);
    load(o, d);
    (void) closedir(d); /* only read */
    return SP_OK;
}

void oci_snapshots_close(struct oci *o)
{
    rt_timer_cancel(&o->loop->rt, &o->snapshots.moved_timer);
    while (!list_is_empty(&o->snapshots.all))
        forget(o, container_of(list_first(&o->snapshots.all), struct oci_snapshot, link));
    map_fini(&o->snapshots.by_id);
}

/* --- use --- */

void oci_snapshot_use(struct oci *o, uint64_t id)
{
    struct oci_snapshot *e = id != 0 ? oci_snapshot_find_any(o, id) : NULL;

    if (e != NULL)
        e->users++;
}

static void collect(struct oci *o, struct oci_snapshot *e);

void oci_snapshot_unuse(struct oci *o, uint64_t id)
{
    struct oci_snapshot *e = id != 0 ? oci_snapshot_find_any(o, id) : NULL;

    if (e == NULL)
        return;
    assert(e->users > 0);
    e->users--;
    if (!o->closing.is_closing)
        collect(o, e);
}

void oci_snapshot_put_layers(struct oci *o, uint64_t id, struct json_out *j)
{
    char path[OCI_PATH_MAX + 64];

    json_begin_arr(j, "layers");
    for (const struct oci_snapshot *e = oci_snapshot_find_any(o, id); e != NULL;
         e = oci_snapshot_below(o, e)) {
        oci_snapshot_path(o, e->info.id, false, "disk", path, sizeof(path));
        json_begin_obj(j, NULL);
        json_put_str(j, "disk", path);
        json_put_u64(j, "id_base", e->id_base);
        json_end(j);
    }
    json_end(j);
}

unsigned oci_snapshot_hold(struct oci *o, uint64_t id, uint64_t ret[OCI_LAYERS_MAX])
{
    unsigned count = 0;

    for (struct oci_snapshot *e = id != 0 ? oci_snapshot_find_any(o, id) : NULL;
         e != NULL && count < OCI_LAYERS_MAX; e = oci_snapshot_below(o, e)) {
        e->users++;
        ret[count++] = e->info.id;
    }
    return count;
}

void oci_snapshot_release(struct oci *o, const uint64_t *ids, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        oci_snapshot_unuse(o, ids[i]);
}

void oci_list_snapshots(struct backend *backend, struct backend_snapshots *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, NULL, on_done);
    for (struct list_node *n = list_first(&o->snapshots.all); n != NULL;
         n = list_next(&o->snapshots.all, n)) {
        const struct oci_snapshot *e = container_of(n, struct oci_snapshot, link);

        if (!e->info.is_deleted) {
            struct snapshot *s = backend_snapshots_add(r);

            *s = e->info;
            s->layers = oci_snapshot_depth(o, e);
        }
    }
    closing_finish(&o->closing, &r->op, SP_OK, NULL);
}

/* --- deleting --- */

struct dropping {
    struct work work;
    struct oci *oci;
    struct backend_drop *request; /* NULL: nobody waits */
    struct snapshot info;
    uint64_t id_base;
    bool is_flat;
    bool is_kept; /* only marked as deleted */
};

/* The name goes first: from then on it does not exist, whatever happens. */
static int run_drop(struct work *w, struct err *err)
{
    const struct dropping *d = container_of(w, struct dropping, work);
    char path[OCI_PATH_MAX + 64];
    char old[OCI_PATH_MAX + 64];

    oci_snapshot_path(d->oci, d->info.id, false, NULL, path, sizeof(path));
    if (d->is_kept)
        return oci_snapshot_write(path, &d->info, d->id_base, d->is_flat, err);
    (void) snprintf(old, sizeof(old), "%s/old-%s", d->oci->snapshots.dir, strrchr(path, '/') + 1);
    if (rename(path, old) != 0 && errno != ENOENT)
        return err_sys(err, SP_IO, errno, "rename '%.150s'", path);
    FAULT_POINT("snapshot.dropping");
    remove_files(d->oci->snapshots.dir, strrchr(old, '/') + 1);
    return oci_sync_dir(d->oci->snapshots.dir, err);
}

static void on_dropped(struct op *op)
{
    struct dropping *d = container_of(op, struct dropping, work.op);
    struct oci *o = d->oci;
    struct oci_snapshot *e = oci_snapshot_find_any(o, d->info.id);

    if (e != NULL) {
        e->is_leaving = false;
        oci_flatten_weigh(o, e);
    }
    if (op->result != SP_OK) {
        log_warn("oci.snapshot_not_removed", LF_HEX("snapshot", d->info.id),
                 LF_STR("reason", op->err.msg));
    } else if (e != NULL && d->is_kept) {
        if (!o->closing.is_closing)
            collect(o, e); /* nobody may need it any more */
    } else if (e != NULL) {
        const struct oci_snapshot *below = oci_snapshot_below(o, e);
        uint64_t id = below != NULL ? below->info.id : 0;

        forget(o, e);
        oci_snapshot_unuse(o, id);
    }
    if (d->request != NULL)
        closing_finish(&o->closing, &d->request->op, op->result, &op->err);
    else
        closing_settle(&o->closing);
    free(d);
    if (e != NULL)
        oci_flatten_resume(o);
}

static void start_drop(struct oci *o, struct oci_snapshot *e, struct backend_drop *r)
{
    struct dropping *d;

    e->info.is_deleted = true;
    e->is_leaving = true;
    oci_flatten_weigh(o, e);
    if (e->is_written) {
        e->has_late_drop = true;
        e->late_drop = r;
        return;
    }
    d = xcalloc(1, sizeof(*d));
    d->oci = o;
    d->request = r;
    d->info = e->info;
    d->id_base = e->id_base;
    d->is_flat = e->is_flat;
    d->is_kept = e->users > 0;
    d->work.run = run_drop;
    work_start(o->loop, &d->work, &o->closing.inner, RT_NEVER, on_dropped);
}

void oci_snapshot_drop_late(struct oci *o, struct oci_snapshot *e)
{
    if (!e->has_late_drop)
        return;
    e->has_late_drop = false;
    start_drop(o, e, TAKE_PTR(e->late_drop));
}

static void collect(struct oci *o, struct oci_snapshot *e)
{
    if (e->info.is_deleted && e->users == 0 && !e->is_leaving)
        start_drop(o, e, NULL);
}

void oci_snapshots_collect(struct oci *o)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&o->snapshots.all); n != NULL; n = next) {
        next = list_next(&o->snapshots.all, n);
        collect(o, container_of(n, struct oci_snapshot, link));
    }
    oci_flatten_next(o);
}

void oci_drop(struct backend *backend, struct backend_drop *r, uint64_t deadline_ns,
              void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct oci_snapshot *e = oci_snapshot_find(o, r->id);

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, NULL, on_done);
    if (e == NULL)
        closing_finish(&o->closing, &r->op, SP_OK, NULL);
    else
        start_drop(o, e, r);
}
