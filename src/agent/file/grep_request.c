/* grep_request.c - which files a search is about. */
#include "agent/file/grep_request.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

void grep_request_init(struct grep_request *r)
{
    memset(r, 0, sizeof(*r));
    r->max_results = GREP_RESULTS_DEFAULT;
    r->max_file_size = GREP_FILE_SIZE_DEFAULT;
    r->is_recursive = true;
}

int grep_globs_add(struct grep_globs *g, const char *text, struct err *err)
{
    int rc;

    if (g->count == GREP_GLOBS_MAX)
        return err_set(err, SP_INVALID_FIELD, "more than %d globs", GREP_GLOBS_MAX);
    rc = glob_init(&g->globs[g->count], text, GLOB_HIDDEN, err);
    if (rc == SP_OK)
        g->is_path[g->count++] = strchr(text, '/') != NULL;
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

bool grep_is_type(const char *name)
{
    return find_kind(name) != NULL;
}

int grep_globs_add_type(struct grep_globs *g, const char *name, struct err *err)
{
    const struct kind *kind = find_kind(name);
    int rc = SP_OK;

    assert(kind != NULL);
    for (const char *p = kind->globs; *p != '\0' && rc == SP_OK; p += *p == ' ') {
        size_t len = strcspn(p, " ");
        char glob[32];

        if (!str_copy_n(glob, sizeof(glob), p, len))
            break;
        rc = grep_globs_add(g, glob, err);
        p += len;
    }
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
