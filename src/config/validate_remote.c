/* validate_remote.c - keys of backend remote. */
#include <string.h>

#include "base/str.h"
#include "config/validate.h"

void check_remote(const struct check *k, const struct config_profile *p)
{
    size_t mounts = str_is_empty(p->mounts) ? 0 : 1;

    if (strcmp(p->backend, CONFIG_BACKEND_REMOTE) != 0)
        return;
    if (str_is_empty(p->remote.provisioner_url))
        check_complain(k, p, "remote.provisioner_url",
                       "is needed with backend remote, like http://provisioner:8002");
    else if (!config_is_url(p->remote.provisioner_url))
        check_complain(k, p, "remote.provisioner_url",
                       "must be like http://provisioner:8002, without user, query or fragment");
    if (!form_is_printable(p->remote.provisioner_api_key))
        check_complain(k, p, "remote.provisioner_api_key",
                       "may only have printable characters without spaces");
    if (!str_is_empty(p->remote.provisioner_api_key) &&
        !str_is_empty(p->remote.provisioner_api_key_file))
        check_complain(k, p, "remote.provisioner_api_key_file",
                       "and provisioner_api_key exclude each other: give one of them");
    for (const char *s = p->mounts; *s != '\0'; s++)
        mounts += *s == ',' ? 1 : 0;
    if (mounts > 10)
        check_complain(k, p, "mounts", "may have at most 10 entries with backend remote");
    if (p->env.count > 0)
        check_complain(k, p, "env",
                       "has no effect with backend remote: the provisioner makes the box");
}
