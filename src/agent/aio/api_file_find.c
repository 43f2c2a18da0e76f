/* api_file_find.c - /v1/file/find, glob and list: names below a directory. Runs in the helper. */
#include <stdio.h>
#include <string.h>

#include "agent/aio/envelope.h"
#include "agent/aio/file_call.h"
#include "agent/file/find.h"
#include "base/str.h"

enum { FIND_MAX = 10000, GLOB_RESULTS = 5000, FOUND_MAX = 50000 };

static void put_found(struct json_out *o, const struct file_found *n, bool want_more)
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
        json_put_str(o, "extension", n->is_dir ? NULL : file_extension(name));
    json_end(o);
}

/* --- find and glob --- */

/* A glob that names the root itself means everything below it. */
static int read_glob(struct file_find *f, const struct json *req, const char *key, unsigned flags,
                     struct glob *ret)
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
    return glob_init(ret, text, flags, &f->job->err);
}

static int find(struct file_find *f, const struct json *req, const char *key, unsigned flags)
{
    struct glob glob = {.count = 0};
    int rc;

    f->glob = &glob;
    rc = read_glob(f, req, key, flags, &glob);
    if (rc == SP_OK)
        rc = file_find_run(f, glob_depth(&glob), true);
    glob_fini(&glob);
    f->glob = NULL;
    if (rc == SP_OK)
        file_find_sort(f, FILE_ORDER_NAME, false);
    return rc;
}

int aio_run_find(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct file_find f = {.job = job, .max = FIND_MAX};
    int rc = aio_file_path(job, req, "path");

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
    file_find_fini(&f);
    return rc;
}

int aio_run_glob(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct file_find f = {.job = job, .max = GLOB_RESULTS, .want_dirs = true, .want_stat = true};
    bool want_files_only = false;
    bool want_hidden = false;
    int rc = aio_file_path(job, req, "path");

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
    file_find_fini(&f);
    return rc;
}

/* --- list --- */

struct list_request {
    bool is_recursive;
    bool show_hidden;
    bool is_descending;
    uint64_t max_depth;
    enum file_order order;
};

static int read_order(enum file_order *ret, const struct json *req, struct err *err)
{
    static const struct {
        const char *name;
        enum file_order order;
    } orders[] = {{"name", FILE_ORDER_NAME},     {"size", FILE_ORDER_SIZE},
                  {"modified", FILE_ORDER_TIME}, {"modified_time", FILE_ORDER_TIME},
                  {"type", FILE_ORDER_NAME},     {"path", FILE_ORDER_NAME}};
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

static int read_types(struct file_find *f, const struct json *req)
{
    const struct json *v = json_get(req, "file_types");

    if (v == NULL || json_is_null(v))
        return SP_OK;
    if (!json_is_arr(v) || json_len(v) > FILE_TYPES_MAX)
        return err_set(&f->job->err, SP_INVALID_FIELD,
                       "'file_types' must be a list of at most %d extensions", FILE_TYPES_MAX);
    for (size_t i = 0; i < json_len(v); i++) {
        const char *type = json_str(json_at(v, i));

        if (type == NULL)
            return err_set(&f->job->err, SP_INVALID_FIELD, "'file_types' must hold strings");
        f->types[f->type_count++] = type;
    }
    return SP_OK;
}

static int read_list(struct file_find *f, struct list_request *l, const struct json *req)
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

int aio_run_list(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct file_find f = {.job = job, .max = FIND_MAX, .want_dirs = true, .want_stat = true};
    struct list_request l = {.show_hidden = true, .max_depth = UINT64_MAX};
    uint64_t dirs = 0;
    int rc = aio_file_path(job, req, "path");

    if (rc == SP_OK)
        rc = read_list(&f, &l, req);
    if (rc == SP_OK)
        rc = file_find_run(&f, l.is_recursive ? l.max_depth : 1, l.show_hidden);
    if (rc == SP_OK) {
        file_find_sort(&f, l.order, l.is_descending);
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
    file_find_fini(&f);
    return rc;
}
