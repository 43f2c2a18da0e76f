/* glob.h - patterns for paths: `*`, `?`, `[a-z]`, `[!a]` within a part, `**` for any number of
 * parts, `{a,b}` for alternatives. Time grows with pattern times path, whatever the pattern. */
#ifndef AGENT_FILE_GLOB_H
#define AGENT_FILE_GLOB_H

#include "base/err.h"

#include <stdbool.h>

enum {
    GLOB_HIDDEN = 1 << 0, /* wildcards match parts that start with a dot, too */
    GLOB_ICASE = 1 << 1,  /* ASCII letters only */
    GLOB_ALTERNATIVES_MAX = 64,
    GLOB_LEN_MAX = 1024
};

struct glob {
    char *patterns[GLOB_ALTERNATIVES_MAX];
    unsigned count;
    unsigned flags;
};

/* SP_INVALID_FIELD for a pattern that is empty, too long or has too many alternatives. */
MUST_CHECK int glob_init(struct glob *g, const char *pattern, unsigned flags, struct err *err);
void glob_fini(struct glob *g);
/* `path` is relative and has no empty parts. */
bool glob_match(const struct glob *g, const char *path);
/* The most parts a matching path can have; UINT_MAX with `**`. */
unsigned glob_depth(const struct glob *g);

#endif
