/* grep_request.h - the options of a search below a directory. */
#ifndef AGENT_FILE_GREP_REQUEST_H
#define AGENT_FILE_GREP_REQUEST_H

#include "agent/file/glob.h"
#include "base/json.h"

enum {
    GREP_GLOBS_MAX = 16,
    GREP_CONTEXT_MAX = 50,
    GREP_RESULTS_DEFAULT = 1000,
    GREP_RESULTS_MAX = 10000
};

#define GREP_FILE_SIZE_DEFAULT (64ULL * 1024 * 1024)

/* A glob with a slash is for the path from the root, one without for the name. */
struct grep_globs {
    struct glob globs[GREP_GLOBS_MAX];
    bool is_path[GREP_GLOBS_MAX];
    unsigned count;
};

struct grep_request {
    const char *pattern; /* the caller's */
    struct grep_globs include;
    struct grep_globs exclude;
    struct grep_globs type; /* names of a kind of files */
    uint64_t before;
    uint64_t after;
    uint64_t max_results;
    uint64_t max_file_size;
    uint64_t offset;
    unsigned regex_flags;
    bool is_recursive;
    bool want_inverse;
    bool is_multiline;
};

/* Everything below the root, with the usual limits. */
void grep_request_init(struct grep_request *r);
/* SP_INVALID_FIELD: it is not a valid glob, or there are too many. */
MUST_CHECK int grep_globs_add(struct grep_globs *g, const char *text, struct err *err);
/* The globs of a file type by its name ("py", "make"), which must exist. */
bool grep_is_type(const char *name);
MUST_CHECK int grep_globs_add_type(struct grep_globs *g, const char *name, struct err *err);
void grep_request_fini(struct grep_request *r);
bool grep_request_includes(const struct grep_request *r, const char *rel, const char *name);
bool grep_request_excludes(const struct grep_request *r, const char *rel, const char *name);

#endif
