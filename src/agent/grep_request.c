/* grep_request.c - reading the fields of /v1/file/grep, and which files they speak of. */
#include "agent/grep_request.h"

#include <string.h>

#include "agent/envelope.h"
#include "agent/file_regex.h"
#include "base/str.h"

static int add_glob(struct grep_globs *g, const char *key, const struct json *v, struct err *err)
{
    const char *text = json_str(v);
    int rc;

    if (text == NULL || text[0] == '\0')
        return err_set(err, SP_INVALID_FIELD, "'%s' must be a glob or a list of globs", key);
    if (g->count == GREP_GLOBS_MAX)
        return err_set(err, SP_INVALID_FIELD, "'%s' has more than %d globs", key, GREP_GLOBS_MAX);
    rc = glob_init(&g->globs[g->count], text, GLOB_HIDDEN, err);
    if (rc != SP_OK)
        return rc;
    g->is_path[g->count++] = strchr(text, '/') != NULL;
    return SP_OK;
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

/* Bytes as a number, or "1M". */
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

int grep_request_read(struct grep_request *r, const struct json *req, struct err *err)
{
    bool is_multiline = false;
    int rc;

    memset(r, 0, sizeof(*r));
    r->max_results = GREP_RESULTS_DEFAULT;
    r->max_file_size = GREP_FILE_SIZE_DEFAULT;
    r->is_recursive = true;
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
        rc = json_field_bool(req, "multiline", &is_multiline, err);
    if (rc == SP_OK && is_multiline)
        rc = err_set(err, SP_INVALID_FIELD, "'multiline' is not supported: lines are searched");
    if (rc == SP_OK)
        rc = read_numbers(r, req, err);
    if (rc == SP_OK)
        rc = read_globs(&r->include, req, "include", err);
    if (rc == SP_OK)
        rc = read_globs(&r->exclude, req, "exclude", err);
    return rc;
}

static void free_globs(struct grep_globs *g)
{
    for (unsigned i = 0; i < g->count; i++)
        glob_fini(&g->globs[i]);
    g->count = 0;
}

void grep_request_fini(struct grep_request *r)
{
    free_globs(&r->include);
    free_globs(&r->exclude);
}

static bool match_any(const struct grep_globs *g, const char *rel, const char *name)
{
    for (unsigned i = 0; i < g->count; i++) {
        if (glob_match(&g->globs[i], g->is_path[i] ? rel : name))
            return true;
    }
    return false;
}

bool grep_request_includes(const struct grep_request *r, const char *rel, const char *name)
{
    return r->include.count == 0 || match_any(&r->include, rel, name);
}

bool grep_request_excludes(const struct grep_request *r, const char *rel, const char *name)
{
    return match_any(&r->exclude, rel, name);
}
