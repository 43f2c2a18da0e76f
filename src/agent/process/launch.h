/* launch.h - from the fields of a request to the arguments of process_start(). Strings of the
 * request are borrowed until launch_fini(). */
#ifndef AGENT_PROCESS_LAUNCH_H
#define AGENT_PROCESS_LAUNCH_H

#include "agent/core/agent.h"
#include "agent/process/process.h"

enum { LAUNCH_ARGS_MAX = 256, LAUNCH_ENV_MAX = 256, LAUNCH_COMMAND_MAX = 1024 * 1024 };

struct launch {
    const struct agent *agent;
    struct identity identity; /* who was asked for */
    char cwd[2 * AGENT_PATH_MAX];
    bool want_pwd; /* $PWD is the directory as it was named, links and all */
    struct process_request request;
    const char **argv;
    char shown[PROCESS_COMMAND_MAX + 1]; /* of an argv */
    const char **env;
    char **owned; /* "NAME=value" made here */
    size_t owned_count;
};

/* As the agent's user, in its directory. */
void launch_init(struct launch *l, const struct agent *a);
void launch_fini(struct launch *l);
/* Runs `command` by bash, or by sh where there is no bash. */
void launch_set_shell(struct launch *l, const char *command);
/* A list of strings. */
MUST_CHECK int launch_set_argv(struct launch *l, const struct json *args, struct err *err);
/* As another user: see identity_find(). */
MUST_CHECK int launch_set_user(struct launch *l, const char *name, struct err *err);
/* `dir` is absolute, or relative to the default directory; NULL is the default directory. Call it
 * after setting the user. */
MUST_CHECK int launch_set_cwd(struct launch *l, const char *dir, struct err *err);
/* The agent's table, overridden by `env` (an object or NULL); HOME, USER and LOGNAME are the user's
 * unless a caller has set them. Call it after setting the user. */
MUST_CHECK int launch_set_env(struct launch *l, const struct json *env, struct err *err);
const char *launch_shell_path(void);

#endif
