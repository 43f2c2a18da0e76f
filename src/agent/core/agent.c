/* agent.c - who may call, and the default directory. */
#include "agent/core/agent.h"

#include <string.h>
#include <sys/stat.h>

#include "base/str.h"

bool agent_has_token(const struct agent *a, struct http_exchange *ex)
{
    static const char scheme[] = "Bearer ";
    const char *given = http_header(ex, "authorization");
    const char *key = http_header(ex, "x-aio-api-key");

    if (str_is_empty(a->token))
        return false;
    if (key != NULL && str_equal_secret(key, a->token))
        return true;
    return given != NULL && strncmp(given, scheme, strlen(scheme)) == 0 &&
           str_equal_secret(given + strlen(scheme), a->token);
}

int agent_guard(struct http_exchange *ex, const struct http_route *route, struct err *err)
{
    const struct agent *a = http_server_ctx(ex);

    if (agent_has_token(a, ex)) {
        http_prove(ex); /* many connections without a token cannot push this one out */
        return SP_OK;
    }
    if (a->is_open && str_is_empty(a->token)) { /* no token is set: no caller can prove anything */
        http_prove(ex);
        return SP_OK;
    }
    if ((route->flags & HTTP_OPEN) != 0 || (a->is_open && (route->flags & HTTP_OPERATOR) == 0))
        return SP_OK;
    if (str_is_empty(a->token))
        return err_set(err, SP_UNAUTHORIZED,
                       "this box has no token: only its health is served. An image for a "
                       "provisioner that gives none starts sandpool-agent with --open");
    return err_set(err, SP_UNAUTHORIZED, "the token of this box is required");
}

static bool is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *agent_directory(const struct agent *a, const struct identity *id)
{
    if (!str_is_empty(a->work_dir) && is_dir(a->work_dir))
        return a->work_dir;
    return is_dir(id->home) ? id->home : "/";
}
