/* env_table.h - the environment of everything that the agent starts: the agent's own, and what was
 * set later. A change is made completely or not at all. */
#ifndef AGENT_CORE_ENV_TABLE_H
#define AGENT_CORE_ENV_TABLE_H

#include "base/json.h"

enum { ENV_NAMES_MAX = 256, ENV_BYTES_MAX = 128 * 1024 };

struct env_var {
    char *pair;  /* "NAME=value" */
    bool is_set; /* set by a caller: has priority over the agent's own values */
};

struct env_table {
    struct env_var *vars;
    size_t count;
};

/* Copies `environ`. */
void env_table_init(struct env_table *t, char *const *environ);
void env_table_fini(struct env_table *t);
/* `set` maps names to strings, `unset` is a list of names; both may be NULL. SP_INVALID_FIELD: a
 * name is not valid, or a limit would be exceeded. */
MUST_CHECK int env_table_change(struct env_table *t, const struct json *set,
                                const struct json *unset, struct err *err);
/* Whether a caller has set it. */
bool env_table_is_set(const struct env_table *t, const char *name);
/* NULL when there is none. */
const char *env_table_get(const struct env_table *t, const char *name);

#endif
