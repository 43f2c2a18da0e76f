/* launch.c - argument lists and environments from JSON. */
#include "agent/process/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

void launch_init(struct launch *l, const struct agent *a)
{
    memset(l, 0, sizeof(*l));
    l->agent = a;
    l->request.spawn.identity = &a->user;
    l->request.spawn.cols = 80;
    l->request.spawn.rows = 24;
}

void launch_fini(struct launch *l)
{
    for (size_t i = 0; i < l->owned_count; i++)
        free(l->owned[i]);
    free(l->owned);
    free(l->env);
    free(l->argv);
    memset(l, 0, sizeof(*l));
}

const char *launch_shell_path(void)
{
    static const char *const shells[] = {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"};

    for (size_t i = 0; i < ARRAY_LEN(shells); i++)
        if (access(shells[i], X_OK) == 0)
            return shells[i];
    return "/bin/sh";
}

void launch_set_shell(struct launch *l, const char *command)
{
    assert(l->argv == NULL);
    l->argv = xcalloc(4, sizeof(char *));
    l->argv[0] = launch_shell_path();
    l->argv[1] = "-c";
    l->argv[2] = command;
    l->request.spawn.argv = l->argv;
    l->request.command = command;
}

/* For people who look at what runs: the words with a space between them, as far as they fit. */
static void show_argv(struct launch *l, size_t count)
{
    size_t at = 0;

    for (size_t i = 0; i < count && at < sizeof(l->shown); i++)
        at += (size_t) snprintf(l->shown + at, sizeof(l->shown) - at, "%s%s", i > 0 ? " " : "",
                                l->argv[i]);
    l->request.command = l->shown;
}

int launch_set_argv(struct launch *l, const struct json *args, struct err *err)
{
    size_t count = json_is_arr(args) ? json_len(args) : 0;

    if (count == 0 || count > LAUNCH_ARGS_MAX)
        return err_set(err, SP_INVALID_FIELD, "'argv' must be a list of 1 to %d strings",
                       (int) LAUNCH_ARGS_MAX);
    assert(l->argv == NULL);
    l->argv = xcalloc(count + 1, sizeof(char *));
    for (size_t i = 0; i < count; i++) {
        l->argv[i] = json_str(json_at(args, i));
        if (l->argv[i] == NULL)
            return err_set(err, SP_INVALID_FIELD, "'argv' must hold strings only");
    }
    if (str_is_empty(l->argv[0]))
        return err_set(err, SP_INVALID_FIELD, "'argv' must begin with a program");
    l->request.spawn.argv = l->argv;
    show_argv(l, count);
    return SP_OK;
}

static bool is_same_name(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");

    return strncmp(a, b, len + 1) == 0;
}

static void put_env(struct launch *l, const char *pair)
{
    size_t i = 0;

    while (l->env[i] != NULL && !is_same_name(l->env[i], pair))
        i++;
    l->env[i] = pair;
}

static void put_owned(struct launch *l, const char *name, const char *value)
{
    size_t len = strlen(name) + strlen(value) + 2;
    char *pair = xcalloc(1, len);

    (void) snprintf(pair, len, "%s=%s", name, value);
    l->owned[l->owned_count] = pair;
    l->owned_count++;
    put_env(l, pair);
}

int launch_set_user(struct launch *l, const char *name, struct err *err)
{
    int rc;

    if (strcmp(name, l->agent->user.name) == 0)
        return SP_OK;
    rc = identity_find(name, &l->identity, err);
    if (rc == SP_OK)
        l->request.spawn.identity = &l->identity;
    return rc;
}

int launch_set_cwd(struct launch *l, const char *dir, struct err *err)
{
    const char *base = agent_directory(l->agent, l->request.spawn.identity);
    int n;

    if (dir == NULL || str_is_empty(dir))
        n = snprintf(l->cwd, sizeof(l->cwd), "%s", base);
    else if (dir[0] == '/')
        n = snprintf(l->cwd, sizeof(l->cwd), "%s", dir);
    else
        n = snprintf(l->cwd, sizeof(l->cwd), "%s/%s", base, dir);
    if (n < 0 || (size_t) n >= sizeof(l->cwd))
        return err_set(err, SP_INVALID_FIELD, "the directory's name is too long");
    l->request.spawn.cwd = l->cwd;
    return SP_OK;
}

static void put_default(struct launch *l, const char *name, const char *value)
{
    if (!env_table_is_set(&l->agent->env, name))
        put_owned(l, name, value);
}

int launch_set_env(struct launch *l, const struct json *env, struct err *err)
{
    const struct env_table *t = &l->agent->env;
    const struct identity *id = l->request.spawn.identity;
    size_t count = env != NULL ? json_len(env) : 0;
    const char *name;
    const struct json *value;

    if (count > LAUNCH_ENV_MAX)
        return err_set(err, SP_INVALID_FIELD, "'env' has more than %d names", (int) LAUNCH_ENV_MAX);
    l->env = xcalloc(t->count + count + 6, sizeof(char *));
    l->owned = xcalloc(count + 5, sizeof(char *));
    for (size_t i = 0; i < t->count; i++)
        l->env[i] = t->vars[i].pair;
    l->request.spawn.env = l->env;
    put_default(l, "HOME", id->home);
    put_default(l, "USER", id->name);
    put_default(l, "LOGNAME", id->name);
    if (l->want_pwd)
        put_owned(l, "PWD", l->cwd);
    if (l->request.spawn.want_pty && env_table_get(t, "TERM") == NULL)
        put_owned(l, "TERM", "xterm-256color");
    for (size_t i = 0; count > 0 && json_member(env, i, &name, &value); i++) {
        if (str_is_empty(name) || strchr(name, '=') != NULL || json_str(value) == NULL)
            return err_set(err, SP_INVALID_FIELD, "'env' must map names to strings");
        put_owned(l, name, json_str(value));
    }
    return SP_OK;
}
