/* launch.h - from a request's fields to what process_start() takes. Strings of the request are
 * borrowed until launch_fini(). */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include "agent/process.h"
#include "base/json.h"

enum { LAUNCH_ARGS_MAX = 256, LAUNCH_ENV_MAX = 256, LAUNCH_COMMAND_MAX = 1024 * 1024 };

struct launch {
    struct process_request request;
    const char **argv;
    const char **env;
    char **owned; /* "NAME=value" made here */
    size_t owned_count;
};

void launch_init(struct launch *l);
void launch_fini(struct launch *l);
/* Runs `command` by bash, or by sh where there is none. */
void launch_set_shell(struct launch *l, const char *command);
/* A list of strings. */
MUST_CHECK int launch_set_argv(struct launch *l, const struct json *args, struct err *err);
/* The agent's own environment, with `env` (an object or NULL) over it. A home is added where there
 * is none. */
MUST_CHECK int launch_set_env(struct launch *l, const struct json *env, const char *home,
                              struct err *err);
const char *launch_shell_path(void);

#endif
