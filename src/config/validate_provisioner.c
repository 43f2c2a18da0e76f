/* validate_provisioner.c - the daemon as the provisioner of DeerFlow. */
#include <string.h>

#include "base/str.h"
#include "config/validate.h"

void check_provisioner(const struct check *k)
{
    const struct config *c = k->c;
    const char *key = c->provisioner.api_key;

    if (!form_is_address(c->provisioner.listen))
        check_complain(k, NULL, "provisioner.listen",
                       "must be an address and a port like 127.0.0.1:8002 or [::1]:8002");
    if (!str_is_empty(key) && (strlen(key) < 16 || !form_is_printable(key)))
        check_complain(k, NULL, "provisioner.api_key",
                       "must be 16 or more characters without spaces");
    if (!str_is_empty(key) && !str_is_empty(c->provisioner.api_key_file))
        check_complain(k, NULL, "provisioner.api_key_file",
                       "and api_key exclude each other: give one of them");
    if (!str_is_empty(c->provisioner.advertise_host) &&
        !str_is_name(c->provisioner.advertise_host, CONFIG_NAME_MAX, "._-:[]"))
        check_complain(k, NULL, "provisioner.advertise_host",
                       "must be a host or host:port, without http:// and path");
    if (c->provisioner.enabled && config_find_profile(c, c->provisioner.profile) == NULL)
        check_complain(k, NULL, "provisioner.profile", "is not the name of a profile");
    if (!str_is_empty(c->provisioner.thread_data) &&
        config_thread_data_problem(c->provisioner.thread_data) != NULL)
        check_complain(k, NULL, "provisioner.thread_data",
                       config_thread_data_problem(c->provisioner.thread_data));
}
