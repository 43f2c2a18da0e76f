/* validate_docker.c - keys of backend docker; docker_options.c has the formats. */
#include <string.h>

#include "base/str.h"
#include "config/validate.h"

void check_docker(const struct check *k, const struct config_profile *p)
{
    char text[CONFIG_WHY_MAX];
    const char *key;

    if (strcmp(p->backend, CONFIG_BACKEND_DOCKER) != 0)
        return;
    if (str_is_empty(p->image))
        check_complain(k, p, "image", "is needed with backend docker, like debian:12");
    if (p->agent == CONFIG_AGENT_IMAGE && p->network.mode != CONFIG_NETWORK_NAT)
        check_complain(k, p, "agent",
                       "image needs `network: nat`: without a network its port cannot be reached");
    if (!str_is_name(p->docker.container_prefix, CONFIG_NAME_MAX, "_.-") ||
        strchr("_.-", p->docker.container_prefix[0]) != NULL)
        check_complain(k, p, "docker.container_prefix", "may have letters, digits and . _ -");
    if (!str_is_empty(p->docker.adopt_prefix) &&
        !str_is_name(p->docker.adopt_prefix, CONFIG_NAME_MAX, "_.-"))
        check_complain(k, p, "docker.adopt_prefix", "may have letters, digits and . _ -");
    if (!str_is_empty(p->docker.adopt_prefix) && !p->discover)
        check_complain(k, p, "docker.adopt_prefix",
                       "needs `discover: true`: acquires must look for them");
    if (p->docker.stop_grace_s > 0 && p->docker.stop_grace_s >= p->destroy_timeout_s)
        check_complain_more(k, p, "docker.stop_grace_s", p->docker.stop_grace_s,
                            "what destroy_timeout_s leaves", p->destroy_timeout_s - 1);
    key = config_docker_problem(p, text);
    if (key != NULL)
        check_complain(k, p, key, text);
}
