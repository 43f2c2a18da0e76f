/* grep_request.c - reading the fields of /v1/file/grep, and which files they speak of. */
#include "agent/grep_request.h"

#include <stdio.h>
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

static const struct kind {
    const char *names; /* with spaces around */
    const char *globs;
} kinds[] = {
    {" c ", "*.c *.h"},
    {" cpp cxx ", "*.cpp *.cc *.cxx *.hpp *.hh *.hxx *.h *.inl"},
    {" cs csharp ", "*.cs"},
    {" css ", "*.css *.scss *.sass *.less"},
    {" docker ", "Dockerfile* *.dockerfile"},
    {" go ", "*.go"},
    {" html ", "*.html *.htm"},
    {" java ", "*.java"},
    {" js javascript ", "*.js *.jsx *.mjs *.cjs *.vue"},
    {" json ", "*.json *.jsonl"},
    {" kotlin kt ", "*.kt *.kts"},
    {" lua ", "*.lua"},
    {" make ", "Makefile GNUmakefile makefile *.mk *.mak"},
    {" md markdown ", "*.md *.markdown *.mdx"},
    {" php ", "*.php *.phtml"},
    {" py python ", "*.py *.pyi"},
    {" rb ruby ", "*.rb *.gemspec Gemfile Rakefile"},
    {" rs rust ", "*.rs"},
    {" sh shell bash ", "*.sh *.bash *.zsh *.bashrc *.profile"},
    {" sql ", "*.sql *.psql"},
    {" swift ", "*.swift"},
    {" toml ", "*.toml"},
    {" ts typescript ", "*.ts *.tsx *.mts *.cts"},
    {" txt ", "*.txt"},
    {" xml ", "*.xml *.xsd *.xsl *.xslt *.svg"},
    {" yaml yml ", "*.yaml *.yml"},
};

static const struct kind *find_kind(const char *name)
{
    char key[32];

    (void) snprintf(key, sizeof(key), " %s ", name);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strchr(name, ' ') == NULL && strstr(kinds[i].names, key) != NULL)
            return &kinds[i];
    return NULL;
}

/* A word for a kind of files. */
static int read_type(struct grep_globs *g, const struct json *req, struct err *err)
{
    const char *name = NULL;
    const struct kind *kind;
    int rc = json_field_str(req, "type", 16, &name, err);

    if (rc != SP_OK || name == NULL || name[0] == '\0')
        return rc;
    kind = find_kind(name);
    if (kind == NULL)
        return err_set(err, SP_INVALID_FIELD, "'type': '%s' is not known, use 'include'", name);
    for (const char *p = kind->globs; *p != '\0' && rc == SP_OK; p += *p == ' ') {
        size_t len = strcspn(p, " ");
        char glob[32];

        if (!str_copy_n(glob, sizeof(glob), p, len))
            break;
        rc = glob_init(&g->globs[g->count], glob, GLOB_HIDDEN, err);
        g->count += rc == SP_OK;
        p += len;
    }
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
    free_globs(&r->type);
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
    return (r->include.count == 0 || match_any(&r->include, rel, name)) &&
           (r->type.count == 0 || match_any(&r->type, rel, name));
}

bool grep_request_excludes(const struct grep_request *r, const char *rel, const char *name)
{
    return match_any(&r->exclude, rel, name);
}
