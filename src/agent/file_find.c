/* file_find.c - /v1/file/find, glob and list: names below a directory. All three walk, keep what is
 * wanted up to a limit, and sort it at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/api_file_calls.h"
#include "agent/envelope.h"
#include "agent/file_walk.h"
#include "agent/glob.h"
#include "base/mem.h"
#include "base/str.h"

enum { FIND_MAX = 10000, GLOB_RESULTS = 5000, FOUND_MAX = 50000, TYPES_MAX = 32, FOUND_STEP = 256 };

enum order { ORDER_NAME, ORDER_SIZE, ORDER_TIME, ORDER_COUNT };

struct found {
    char *path;
    size_t name; /* where in path the name starts */
    bool is_dir;
    bool has_stat;
    uint64_t size;
    uint64_t time_ms;
    unsigned mode;
};

struct finder {
    struct file_job *job;
    struct glob *glob; /* NULL: everything */
    const char *types[TYPES_MAX];
    size_t type_count;
    bool want_dirs;
    bool want_stat;
    uint64_t max;
    struct found *found;
    size_t count;
    size_t cap;
    size_t bytes;
    bool is_truncated;
};

static const char *extension_of(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot != NULL && dot != name ? dot : "";
}

static bool is_type_wanted(const struct finder *f, const char *name)
{
    const char *extension = extension_of(name);

    for (size_t i = 0; i < f->type_count; i++) {
        const char *type = f->types[i];

        if (strcasecmp(type[0] == '.' ? extension : extension + (extension[0] == '.'), type) == 0)
            return true;
    }
    return f->type_count == 0;
}

static void add(struct finder *f, const struct file_entry *e)
{
    struct found *n;
    struct stat st;

    if (f->count == f->cap) {
        f->cap += MAX_OF(f->cap, (size_t) FOUND_STEP);
        f->found = xrealloc(f->found, f->cap * sizeof(*f->found));
    }
    n = &f->found[f->count++];
    memset(n, 0, sizeof(*n));
    n->path = xstrdup(e->full);
    n->name = strlen(e->full) - strlen(e->name);
    n->is_dir = e->is_dir;
    f->bytes += strlen(e->full);
    if (f->want_stat && file_entry_stat(e, &st)) {
        n->has_stat = true;
        n->size = (uint64_t) st.st_size;
        n->time_ms = st.st_mtim.tv_sec < 0 ? 0
                                           : (uint64_t) st.st_mtim.tv_sec * 1000 +
                                                 (uint64_t) st.st_mtim.tv_nsec / NS_PER_MS;
        n->mode = st.st_mode & 07777;
    }
}

static enum file_walk_next visit(void *ctx, const struct file_entry *e)
{
    struct finder *f = ctx;

    if ((e->is_dir && !f->want_dirs) || (!e->is_dir && !is_type_wanted(f, e->name)) ||
        (f->glob != NULL && !glob_match(f->glob, e->rel)))
        return FILE_WALK_ON;
    if (f->count >= f->max || f->bytes > FILE_RESULT_MAX) {
        f->is_truncated = true;
        return FILE_WALK_STOP;
    }
    add(f, e);
    return FILE_WALK_ON;
}

static int walk(struct finder *f, uint64_t max_depth, bool show_hidden)
{
    struct file_walk w = {.job = f->job,
                          .max_depth = (unsigned) MIN_OF(max_depth, (uint64_t) FILE_WALK_DEPTH + 1),
                          .show_hidden = show_hidden,
                          .visit = visit,
                          .ctx = f};
    int rc = file_walk_run(&w);

    f->is_truncated = f->is_truncated || w.is_truncated;
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct found *) a)->path, ((const struct found *) b)->path);
}

static int compare_sizes(const void *a, const void *b)
{
    uint64_t x = ((const struct found *) a)->size;
    uint64_t y = ((const struct found *) b)->size;

    return x != y ? (x > y) - (x < y) : compare_names(a, b);
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = ((const struct found *) a)->time_ms;
    uint64_t y = ((const struct found *) b)->time_ms;

    return x != y ? (x > y) - (x < y) : compare_names(a, b);
}

static void sort(struct finder *f, enum order order, bool is_descending)
{
    static int (*const compare[ORDER_COUNT])(const void *, const void *) = {
        [ORDER_NAME] = compare_names, [ORDER_SIZE] = compare_sizes, [ORDER_TIME] = compare_times};

    if (f->count == 0)
        return;
    qsort(f->found, f->count, sizeof(*f->found), compare[order]);
    for (size_t i = 0; is_descending && i < f->count / 2; i++) {
        struct found t = f->found[i];

        f->found[i] = f->found[f->count - 1 - i];
        f->found[f->count - 1 - i] = t;
    }
}

static void fini(struct finder *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->found[i].path);
    free(f->found);
}

static void put_found(struct json_out *o, const struct found *n, bool want_more)
{
    const char *name = n->path + n->name;
    char text[32];

    json_begin_obj(o, NULL);
    json_put_str(o, "name", name);
    json_put_str(o, "path", n->path);
    json_put_bool(o, "is_directory", n->is_dir);
    if (n->has_stat) {
        json_put_u64(o, "size", n->size);
        str_iso8601(text, n->time_ms);
        json_put_str(o, "modified_time", text);
    }
    if (n->has_stat && want_more) {
        (void) snprintf(text, sizeof(text), "%03o", n->mode);
        json_put_str(o, "permissions", text);
    }
    if (want_more)
        json_put_str(o, "extension", n->is_dir ? NULL : extension_of(name));
    json_end(o);
}

/* --- find and glob --- */

/* A glob that names the root itself is for what is below it. */
static int read_glob(struct finder *f, const struct json *req, const char *key, unsigned flags)
{
    const char *text = NULL;
    size_t root_len = strlen(f->job->path);
    int rc = envelope_need_str(req, key, GLOB_LEN_MAX + FILE_PATH_MAX, &text, &f->job->err);

    if (rc != SP_OK)
        return rc;
    if (text[0] == '/') {
        if (strncmp(text, f->job->path, root_len) != 0 || (root_len > 1 && text[root_len] != '/'))
            return err_set(&f->job->err, SP_INVALID_FIELD, "'%s' must be relative to the path",
                           key);
        text += root_len > 1 ? root_len + 1 : 1;
    }
    return glob_init(f->glob, text, flags, &f->job->err);
}

static int find(struct finder *f, const struct json *req, const char *key, unsigned flags)
{
    struct glob glob = {.count = 0};
    int rc;

    f->glob = &glob;
    rc = read_glob(f, req, key, flags);
    if (rc == SP_OK)
        rc = walk(f, glob_depth(&glob), true);
    glob_fini(&glob);
    if (rc == SP_OK)
        sort(f, ORDER_NAME, false);
    return rc;
}

int file_call_find(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct finder f = {.job = job, .max = FIND_MAX};
    int rc = file_job_path(job, req, "path");

    if (rc == SP_OK)
        rc = json_field_u64(req, "max_results", 1, FOUND_MAX, &f.max, &job->err);
    if (rc == SP_OK)
        rc = find(&f, req, "glob", 0);
    if (rc == SP_OK) {
        json_put_str(o, "path", job->path);
        json_begin_arr(o, "files");
        for (size_t i = 0; i < f.count; i++)
            json_put_str(o, NULL, f.found[i].path);
        json_end(o);
        json_put_bool(o, "truncated", f.is_truncated);
    }
    fini(&f);
    return rc;
}

int file_call_glob(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct finder f = {.job = job, .max = GLOB_RESULTS, .want_dirs = true, .want_stat = true};
    bool want_files_only = false;
    bool want_hidden = false;
    int rc = file_job_path(job, req, "path");

    if (rc == SP_OK)
        rc = json_field_u64(req, "max_results", 1, FOUND_MAX, &f.max, &job->err);
    if (rc == SP_OK)
        rc = json_field_bool(req, "include_hidden", &want_hidden, &job->err);
    if (rc == SP_OK)
        rc = json_field_bool(req, "files_only", &want_files_only, &job->err);
    f.want_dirs = !want_files_only;
    if (rc == SP_OK)
        rc = find(&f, req, "pattern", want_hidden ? GLOB_HIDDEN : 0);
    if (rc == SP_OK) {
        json_put_str(o, "path", job->path);
        json_put_str(o, "pattern", json_str(json_get(req, "pattern")));
        json_begin_arr(o, "files");
        for (size_t i = 0; i < f.count; i++)
            put_found(o, &f.found[i], false);
        json_end(o);
        json_put_u64(o, "total_count", f.count);
        json_put_bool(o, "truncated", f.is_truncated);
    }
    fini(&f);
    return rc;
}

/* --- list --- */

struct list_request {
    bool is_recursive;
    bool show_hidden;
    bool is_descending;
    uint64_t max_depth;
    enum order order;
};

static int read_order(enum order *ret, const struct json *req, struct err *err)
{
    static const struct {
        const char *name;
        enum order order;
    } orders[] = {{"name", ORDER_NAME},          {"size", ORDER_SIZE}, {"modified", ORDER_TIME},
                  {"modified_time", ORDER_TIME}, {"type", ORDER_NAME}, {"path", ORDER_NAME}};
    const char *name = "name";
    int rc = json_field_str(req, "sort_by", 32, &name, err);

    for (size_t i = 0; rc == SP_OK && i < ARRAY_LEN(orders); i++) {
        if (strcmp(orders[i].name, name) == 0) {
            *ret = orders[i].order;
            return SP_OK;
        }
    }
    return rc != SP_OK ? rc
                       : err_set(err, SP_INVALID_FIELD, "'sort_by' must be name, size or modified");
}

static int read_types(struct finder *f, const struct json *req)
{
    const struct json *v = json_get(req, "file_types");

    if (v == NULL || json_is_null(v))
        return SP_OK;
    if (!json_is_arr(v) || json_len(v) > TYPES_MAX)
        return err_set(&f->job->err, SP_INVALID_FIELD,
                       "'file_types' must be a list of at most %d extensions", TYPES_MAX);
    for (size_t i = 0; i < json_len(v); i++) {
        const char *type = json_str(json_at(v, i));

        if (type == NULL)
            return err_set(&f->job->err, SP_INVALID_FIELD, "'file_types' must hold strings");
        f->types[f->type_count++] = type;
    }
    return SP_OK;
}

static int read_list(struct finder *f, struct list_request *l, const struct json *req)
{
    struct err *err = &f->job->err;
    int rc = json_field_bool(req, "recursive", &l->is_recursive, err);

    if (rc == SP_OK)
        rc = json_field_bool(req, "show_hidden", &l->show_hidden, err);
    if (rc == SP_OK)
        rc = json_field_u64(req, "max_depth", 1, INT64_MAX, &l->max_depth, err);
    if (rc == SP_OK)
        rc = json_field_u64(req, "max_results", 1, FOUND_MAX, &f->max, err);
    if (rc == SP_OK)
        rc = json_field_bool(req, "sort_desc", &l->is_descending, err);
    if (rc == SP_OK)
        rc = read_order(&l->order, req, err);
    if (rc == SP_OK)
        rc = read_types(f, req);
    return rc;
}

int file_call_list(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct finder f = {.job = job, .max = FIND_MAX, .want_dirs = true, .want_stat = true};
    struct list_request l = {.show_hidden = true, .max_depth = UINT64_MAX};
    uint64_t dirs = 0;
    int rc = file_job_path(job, req, "path");

    if (rc == SP_OK)
        rc = read_list(&f, &l, req);
    if (rc == SP_OK)
        rc = walk(&f, l.is_recursive ? l.max_depth : 1, l.show_hidden);
    if (rc == SP_OK) {
        sort(&f, l.order, l.is_descending);
        json_put_str(o, "path", job->path);
        json_begin_arr(o, "files");
        for (size_t i = 0; i < f.count; i++) {
            dirs += f.found[i].is_dir;
            put_found(o, &f.found[i], true);
        }
        json_end(o);
        json_put_u64(o, "total_count", f.count);
        json_put_u64(o, "directory_count", dirs);
        json_put_u64(o, "file_count", f.count - dirs);
        json_put_bool(o, "truncated", f.is_truncated);
    }
    fini(&f);
    return rc;
}
