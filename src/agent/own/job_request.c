/* job_request.c - the fields that jobs and exec share. */
#include "agent/own/job_request.h"

#include "agent/own/body.h"

int job_read_size(const struct json *obj, uint16_t *cols, uint16_t *rows, struct err *err)
{
    static const char *const known[] = {"cols", "rows", NULL};
    uint64_t c = *cols;
    uint64_t l = *rows;
    int r = json_only_fields(obj, known, err);

    if (r == SP_OK)
        r = json_field_u64(obj, "cols", 1, 4096, &c, err);
    if (r == SP_OK)
        r = json_field_u64(obj, "rows", 1, 4096, &l, err);
    *cols = (uint16_t) c;
    *rows = (uint16_t) l;
    return r;
}

static int read_program(const struct json *root, struct launch *l, struct err *err)
{
    const struct json *argv = json_get(root, "argv");
    const char *command = NULL;
    int r = json_field_str(root, "command", LAUNCH_COMMAND_MAX, &command, err);

    if (r != SP_OK)
        return r;
    if (argv != NULL && json_is_null(argv))
        argv = NULL;
    if ((argv == NULL) == (command == NULL))
        return err_set(err, SP_INVALID_FIELD, "either 'argv' or 'command' is required");
    if (argv != NULL)
        return launch_set_argv(l, argv, err);
    launch_set_shell(l, command);
    return SP_OK;
}

int job_read_common(const struct json *root, struct launch *l, struct err *err)
{
    const struct json *env = NULL;
    const char *cwd = NULL;
    const char *user = NULL;
    int r = read_program(root, l, err);

    if (r == SP_OK)
        r = json_field_str(root, "cwd", 1000, &cwd, err);
    if (r == SP_OK)
        r = json_field_str(root, "user", IDENTITY_NAME_MAX, &user, err);
    if (r == SP_OK && user != NULL)
        r = launch_set_user(l, user, err);
    if (r == SP_OK)
        r = launch_set_cwd(l, cwd, err);
    if (r == SP_OK)
        r = json_field_str(root, "tag", JOB_TAG_MAX, &l->request.tag, err);
    if (r == SP_OK)
        r = agent_field_seconds(root, "timeout_s", JOB_TIMEOUT_S_MAX, &l->request.timeout_ns, err);
    if (r == SP_OK)
        r = json_field_obj(root, "env", &env, err);
    l->request.is_job = true;
    return r == SP_OK ? launch_set_env(l, env, err) : r;
}
