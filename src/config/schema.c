/* schema.c - the table of configuration keys, from its parts: schema_*.c have one each. A key in it
 * is parsed, validated, printed, documented and compared at reload; no other place in the tree
 * lists keys. */
#include "config/schema.h"

#include <string.h>

/* In the order in which they are printed; those of profiles come last. */
static const struct config_table *const tables[] = {
    &config_table_daemon,      &config_table_http,    &config_table_pool,  &config_table_oci,
    &config_table_provisioner, &config_table_profile, &config_table_price, &config_table_docker,
    &config_table_remote,      &config_table_sim,
};

const struct config_key *config_key_next(const struct config_key *k)
{
    if (k == NULL)
        return tables[0]->keys;
    for (size_t i = 0; i < ARRAY_LEN(tables); i++)
        if (k == &tables[i]->keys[tables[i]->count - 1])
            return i + 1 < ARRAY_LEN(tables) ? tables[i + 1]->keys : NULL;
    return k + 1;
}

const struct config_section config_sections[] = {
    {"log", "Logs go to standard error."},
    {"socket", "The API on a Unix socket."},
    {"tcp", "The API on TCP, for callers on other machines."},
    {"ui", "The web page."},
    {"http", "Limits of the API's server, for both kinds of socket."},
    {"calls", "Limits of calls to boxes: /v1/sandboxes/{id}/exec, jobs, files, ports."},
    {"snapshots", "Snapshots of boxes."},
    {"pool", "Limits of the whole pool."},
    {"store", "The database of boxes, leases and events."},
    {"usage", "Metered time of boxes, and what it costs."},
    {"budgets", "What users may spend. An acquire over budget is refused."},
    {"mounts", "Which directories of this machine may be mounted into boxes."},
    {"auto", "Acquires with `profile: auto`."},
    {"agent", "The program in each box, sandpool-agent."},
    {"helper", "sandpool-helper, the program that does what needs root for the daemon."},
    {"oci", "For backend oci."},
    {"provisioner", "The daemon as the provisioner of DeerFlow, on a TCP listener of its own."},
    {"profiles",
     "Recipes of boxes by name (lower-case letters, digits, '.', '_', '-'). `default` always "
     "exists; what a profile leaves out has the value shown here."},
    {"profiles.*.warm", "How many boxes are kept ready."},
    {"profiles.*.create", "Making boxes, and what happens when that fails."},
    {"profiles.*.setup",
     "Only for boxes with our agent: backend oci, docker with `agent: inject`."},
    {"profiles.*.warm_up", "Likewise."},
    {"profiles.*.network",
     "What a box reaches. Instead of the mapping the word alone may be given: `network: nat`."},
    {"profiles.*.limits", "What a box may use."},
    {"profiles.*.price", "What boxes cost. Shown by /v1/quote; the daemon charges nobody."},
    {"profiles.*.docker", "Only for backend docker."},
    {"profiles.*.remote",
     "Only for backend remote. The provisioner decides how a box is made: image, user, network, "
     "limits and env of the profile have no effect; mounts are passed on."},
    {"profiles.*.sim", "Only for backend sim."},
    {NULL, NULL},
};

bool config_key_is_profile(const struct config_key *k)
{
    return strncmp(k->path, CONFIG_PROFILE_PREFIX, strlen(CONFIG_PROFILE_PREFIX)) == 0;
}

const char *config_key_name(const struct config_key *k)
{
    return config_key_is_profile(k) ? k->path + strlen(CONFIG_PROFILE_PREFIX) : k->path;
}

const struct config_key *config_key_find(bool is_profile, const char *name)
{
    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        if (config_key_is_profile(k) == is_profile && strcmp(config_key_name(k), name) == 0)
            return k;
    }
    return NULL;
}

bool config_section_exists(bool is_profile, const char *name)
{
    size_t len = strlen(name);

    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        const char *path = config_key_name(k);

        if (config_key_is_profile(k) == is_profile && strncmp(path, name, len) == 0 &&
            path[len] == '.')
            return true;
    }
    return false;
}
