/* grep_request.h - what /v1/file/grep is asked for. */
#ifndef AGENT_GREP_REQUEST_H
#define AGENT_GREP_REQUEST_H

#include "agent/glob.h"
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
    const char *pattern; /* of the document */
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

/* Needs grep_request_fini() whatever it returns. */
MUST_CHECK int grep_request_read(struct grep_request *r, const struct json *req, struct err *err);
void grep_request_fini(struct grep_request *r);
bool grep_request_includes(const struct grep_request *r, const char *rel, const char *name);
bool grep_request_excludes(const struct grep_request *r, const char *rel, const char *name);

#endif
