/* api_file_grep.c - /v1/file/grep: the matching lines below a directory. Runs in the helper. */
#include "agent/aio/envelope.h"
#include "agent/aio/file_call.h"
#include "agent/file/grep.h"
#include "agent/file/text.h"
#include "base/str.h"

static int add_glob(struct grep_globs *g, const char *key, const struct json *v, struct err *err)
{
    const char *text = json_str(v);

    if (text == NULL || text[0] == '\0')
        return err_set(err, SP_INVALID_FIELD, "'%s' must be a glob or a list of globs", key);
    if (g->count == GREP_GLOBS_MAX)
        return err_set(err, SP_INVALID_FIELD, "'%s' has more than %d globs", key, GREP_GLOBS_MAX);
    return grep_globs_add(g, text, err);
}

/* One glob or a list of them. */
static int read_globs(struct grep_globs *g, const struct json *req, const char *key,
                      struct err *err)
{
    const struct json *v = json_get(req, key);
    int rc = SP_OK;

    if (v == NULL || json_is_null(v) || (json_is_str(v) && json_str(v)[0] == '\0'))
        return SP_OK;
    if (!json_is_arr(v))
        return add_glob(g, key, v, err);
    for (size_t i = 0; rc == SP_OK && i < json_len(v); i++)
        rc = add_glob(g, key, json_at(v, i), err);
    return rc;
}

/* The name of a file type, such as "py". */
static int read_type(struct grep_globs *g, const struct json *req, struct err *err)
{
    const char *name = NULL;
    int rc = json_field_str(req, "type", 16, &name, err);

    if (rc != SP_OK || name == NULL || name[0] == '\0')
        return rc;
    if (!grep_is_type(name))
        return err_set(err, SP_INVALID_FIELD, "'type': '%s' is not known, use 'include'", name);
    return grep_globs_add_type(g, name, err);
}

/* A size in bytes, as a number or like "1M". */
static int read_size(uint64_t *ret, const struct json *req, const char *key, struct err *err)
{
    const struct json *v = json_get(req, key);

    if (v == NULL || json_is_null(v) || json_u64(v, ret) ||
        (json_is_str(v) && str_parse_size(json_str(v), ret)))
        return SP_OK;
    return err_set(err, SP_INVALID_FIELD, "'%s' must be a size like 1048576 or \"1M\"", key);
}

static int read_flag(unsigned *flags, unsigned flag, const struct json *req, const char *key,
                     struct err *err)
{
    bool is_set = false;
    int rc = json_field_bool(req, key, &is_set, err);

    if (is_set)
        *flags |= flag;
    return rc;
}

static int read_numbers(struct grep_request *r, const struct json *req, struct err *err)
{
    uint64_t context = 0;
    int rc = json_field_u64(req, "context", 0, GREP_CONTEXT_MAX, &context, err);

    r->before = context;
    r->after = context;
    if (rc == SP_OK)
        rc = json_field_u64(req, "context_before", 0, GREP_CONTEXT_MAX, &r->before, err);
    if (rc == SP_OK)
        rc = json_field_u64(req, "context_after", 0, GREP_CONTEXT_MAX, &r->after, err);
    if (rc == SP_OK)
        rc = json_field_u64(req, "max_results", 1, INT64_MAX, &r->max_results, err);
    if (rc == SP_OK)
        rc = json_field_u64(req, "offset", 0, INT64_MAX, &r->offset, err);
    if (rc == SP_OK)
        rc = read_size(&r->max_file_size, req, "max_file_size", err);
    r->max_results = MIN_OF(r->max_results, (uint64_t) GREP_RESULTS_MAX);
    return rc;
}

static int read_fields(struct grep_request *r, const struct json *req, struct err *err)
{
    int rc;

    grep_request_init(r);
    rc = envelope_need_str(req, "pattern", REGEX_LEN_MAX, &r->pattern, err);
    if (rc == SP_OK)
        rc = read_flag(&r->regex_flags, REGEX_ICASE, req, "case_insensitive", err);
    if (rc == SP_OK)
        rc = read_flag(&r->regex_flags, REGEX_FIXED, req, "fixed_strings", err);
    if (rc == SP_OK)
        rc = json_field_bool(req, "recursive", &r->is_recursive, err);
    if (rc == SP_OK)
        rc = json_field_bool(req, "invert_match", &r->want_inverse, err);
    if (rc == SP_OK)
        rc = json_field_bool(req, "multiline", &r->is_multiline, err);
    if (rc == SP_OK && r->is_multiline && r->want_inverse)
        rc = err_set(err, SP_INVALID_FIELD, "'multiline' and 'invert_match' exclude each other");
    if (r->is_multiline)
        r->regex_flags |= REGEX_LINES;
    if (rc == SP_OK)
        rc = read_numbers(r, req, err);
    if (rc == SP_OK)
        rc = read_globs(&r->include, req, "include", err);
    if (rc == SP_OK)
        rc = read_globs(&r->exclude, req, "exclude", err);
    if (rc == SP_OK)
        rc = read_type(&r->type, req, err);
    return rc;
}

static void put_answer(const struct file_grep *g, struct json_out *o)
{
    json_put_str(o, "path", g->job->path);
    json_put_str(o, "pattern", g->req.pattern);
    json_begin_arr(o, "matches");
    for (size_t i = 0; i < g->count; i++) {
        const struct file_hit *h = &g->hits[i];

        json_begin_obj(o, NULL);
        json_put_str(o, "file", h->file);
        json_put_u64(o, "line_number", h->line);
        json_put_raw(o, "line_content", buf_failed(&h->text) ? "null" : buf_str(&h->text));
        if (g->req.before > 0)
            file_put_list(o, "context_before", &h->before);
        if (g->req.after > 0)
            file_put_list(o, "context_after", &h->after);
        json_end(o);
    }
    json_end(o);
    json_put_u64(o, "match_count", g->count);
    json_put_u64(o, "files_searched", g->files_searched);
    json_put_u64(o, "files_matched", g->files_matched);
    json_put_u64(o, "files_skipped", g->files_skipped);
    json_put_bool(o, "truncated", g->is_truncated);
}

int aio_run_grep(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct file_grep g = {.job = job};
    int rc = aio_file_path(job, req, "path");

    if (rc != SP_OK)
        return rc;
    rc = read_fields(&g.req, req, &job->err);
    if (rc == SP_OK)
        rc = file_grep_run(&g);
    if (rc == SP_OK)
        put_answer(&g, o);
    file_grep_fini(&g);
    return rc;
}
