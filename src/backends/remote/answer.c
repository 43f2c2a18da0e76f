/* answer.c - a box as the provisioner describes it: every field checked before anything believes it. */
#include <string.h>

#include "backends/remote/internal.h"
#include "base/str.h"

static const char *const status_names[REMOTE_STATUS_COUNT] = {
    [REMOTE_STATUS_PENDING] = "Pending",         [REMOTE_STATUS_RUNNING] = "Running",
    [REMOTE_STATUS_SUCCEEDED] = "Succeeded",     [REMOTE_STATUS_FAILED] = "Failed",
    [REMOTE_STATUS_UNKNOWN] = "Unknown",         [REMOTE_STATUS_NOT_FOUND] = "NotFound",
    [REMOTE_STATUS_TERMINATING] = "Terminating",
};

enum { SESSIONS_MAX = 1000000 };

const char *remote_status_name(enum remote_status s)
{
    return status_names[s];
}

bool remote_status_may_run(enum remote_status s)
{
    return s == REMOTE_STATUS_PENDING || s == REMOTE_STATUS_RUNNING || s == REMOTE_STATUS_UNKNOWN;
}

/* A word that is new to us says nothing: unknown. */
static enum remote_status status_of(const char *name)
{
    for (int i = 0; i < REMOTE_STATUS_COUNT; i++)
        if (strcmp(status_names[i], name) == 0)
            return (enum remote_status) i;
    return REMOTE_STATUS_UNKNOWN;
}

static int bad(struct err *err, const char *field)
{
    return err_set(err, SP_PROTOCOL, "the provisioner's answer: `%s` is missing or wrong", field);
}

int remote_read_seen(const struct json *v, struct remote_seen *ret, struct err *err)
{
    const char *name = json_str(json_get(v, "sandbox_id"));
    const char *url = json_str(json_get(v, "sandbox_url"));
    const char *status = json_str(json_get(v, "status"));
    const char *uid = NULL;
    size_t len;

    *ret = (struct remote_seen){.name = "", .status = REMOTE_STATUS_UNKNOWN};
    if (name == NULL || !str_is_name(name, REMOTE_NAME_MAX, "._-"))
        return bad(err, "sandbox_id");
    str_copy_cut(ret->name, sizeof(ret->name), name);
    if (status == NULL)
        return bad(err, "status");
    ret->status = status_of(status);
    if (url == NULL || strlen(url) > BACKEND_URL_MAX || !config_is_url(url))
        return bad(err, "sandbox_url");
    if (json_field_str(v, "container_id", REMOTE_UID_MAX, &uid, NULL) != SP_OK ||
        (uid != NULL && !str_is_empty(uid) && !str_is_name(uid, REMOTE_UID_MAX, "._:-")))
        return bad(err, "container_id");
    if (json_field_u64(v, "max_shell_sessions", 0, SESSIONS_MAX, &ret->sessions, NULL) != SP_OK)
        return bad(err, "max_shell_sessions");
    str_copy_cut(ret->uid, sizeof(ret->uid), uid != NULL ? uid : "");
    str_copy_cut(ret->url, sizeof(ret->url), url);
    for (len = strlen(ret->url); len > 0 && ret->url[len - 1] == '/'; len--)
        ret->url[len - 1] = '\0';
    return SP_OK;
}

int remote_call_seen(const struct call *c, const char *name, struct remote_seen *ret,
                     struct err *err)
{
    struct json_doc *doc = remote_call_json(c, err);
    int rc;

    if (doc == NULL)
        return SP_PROTOCOL;
    rc = remote_read_seen(json_root(doc), ret, err);
    (void) json_doc_free(doc);
    if (rc == SP_OK && strcmp(ret->name, name) != 0)
        rc = err_set(err, SP_PROTOCOL, "the provisioner's answer is about '%s', not '%s'",
                     ret->name, name);
    return rc;
}
