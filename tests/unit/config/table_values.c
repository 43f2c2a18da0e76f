/* A value for each key, and the keys that have to stand beside it. */
#include "table_values.h"
#include "tests/lib/unit.h"

#include <string.h>

static const struct {
    const char *path;
    const char *value;
} special[] = {
    {"instance", "site-1"},
    {"auto.profiles", "[default]"},
    {"operator_uids", "[1000, 1001]"},
    {"socket.group", "staff"},
    {"socket.hosts", "[pool.example.com, other.example.com]"},
    {"tcp.listen", "\"127.0.0.1:8001\""},
    {"tcp.tokens", "{bob: 0123456789abcdef, eve: 'fedcba9876543210'}"},
    {"tcp.operators", "[bob]"},
    {"pool.max_wait_ms", "600001"},
    {"mounts.allow", "[/srv/a, /srv/b]"},
    {"oci.id_base", "100000"},
    {"provisioner.listen", "\"[::1]:8003\""},
    {"provisioner.api_key", "0123456789abcdef"},
    {"provisioner.profile", "other"},
    {"provisioner.advertise_host", "\"box.example:80\""},
    {"provisioner.thread_data", "'/srv/{user_id}/x/{thread_id}'"},
    {"tcp.public_url", "'https://pool.example:8443/x'"},
    {"profiles.*.extends", "other"},
    {"profiles.*.backend", "sim"},
    {"profiles.*.user", "agent"},
    {"profiles.*.limits.memory", "64M"},
    {"profiles.*.limits.disk", "64M"},
    {"profiles.*.docker.container_prefix", "deer"},
    {"profiles.*.docker.adopt_prefix", "deer"},
    {"profiles.*.docker.volumes", "['data:/a', 'data:/b:ro']"},
    {"profiles.*.docker.tmpfs", "{/a: 'size=1m,exec', /b: ''}"},
    {"profiles.*.docker.shm_size", "64M"},
    {"profiles.*.docker.gpus", "all"},
    {"profiles.*.docker.cap_add", "[NET_RAW, BPF]"},
    {"profiles.*.docker.stop_grace_s", "5"},
    {"profiles.*.remote.provisioner_url", "'http://b:8002/x'"},
    {"profiles.*.remote.provisioner_api_key", "hunter2hunter2"},
    {"profiles.*.price.currency", "EUR"},
    {"budgets.currency", "EUR"},
    {"profiles.*.mounts", "['/srv/a:/a', '/srv/a/b:/b:ro']"},
    {"profiles.*.warm.min", "3"},
    {"profiles.*.create.backoff_max_ms", "30001"},
    {"profiles.*.image", "'docker://a \"b\" # $$c'"},
    {"profiles.*.snapshot", "0123456789abcdef"},
    {"profiles.*.network.allow", "[example.com, '*.example.org', 192.0.2.0/24]"},
    {"profiles.*.labels", "{gpu: none, 'a/b': ''}"},
    {"profiles.*.env", "{A: 'x $$y', B: \"tab\\t\"}"},
};

const char *other_value(const struct config_key *k)
{
    for (size_t i = 0; i < ARRAY_LEN(special); i++) {
        if (strcmp(special[i].path, k->path) == 0)
            return special[i].value;
    }
    switch (k->type) {
    case CONFIG_TYPE_STRING:
    case CONFIG_TYPE_PATH:
        return "\"/tmp/a \\\"b\\\" # $$c\"";
    case CONFIG_TYPE_U64:
        return k->min > 77 ? "777" : k->max < 100 ? "7" : "77";
    case CONFIG_TYPE_SIZE:
        return k->min > 5 * 1024 ? "50M" : "5k";
    case CONFIG_TYPE_MILLI:
        return "7.25";
    case CONFIG_TYPE_MICRO:
        return "0.012345";
    case CONFIG_TYPE_MODE:
        return "0600";
    case CONFIG_TYPE_BOOL:
        return strcmp(k->def, "true") == 0 ? "false" : "true";
    case CONFIG_TYPE_ENUM:
        return strcmp(k->def, k->names[1]) == 0 ? k->names[0] : k->names[1];
    case CONFIG_TYPE_LIST:
    case CONFIG_TYPE_MAP:
    case CONFIG_TYPE_COUNT:
        break;
    }
    fail_msg("give %s a value here", k->path);
    return NULL;
}

const char *backend_of(const struct config_key *k)
{
    if (strncmp(k->path, "profiles.*.sim.", 15) == 0)
        return "backend: sim, ";
    if (strncmp(k->path, "profiles.*.docker.", 18) == 0)
        return "backend: docker, image: a, network: nat, discover: true, ";
    if (strncmp(k->path, "profiles.*.remote.", 18) == 0)
        return "backend: remote, ";
    return "";
}

const char *section_rest(const struct config_key *k)
{
    if (strcmp(k->path, "profiles.*.network.allow") == 0)
        return ", mode: nat";
    if (strncmp(k->path, "tcp.", 4) == 0 && strcmp(k->path, "tcp.tokens") != 0)
        return ", tokens: {bob: 0123456789abcdef}";
    if (strncmp(k->path, "profiles.*.remote.", 18) == 0 &&
        strcmp(k->path, "profiles.*.remote.provisioner_url") != 0)
        return ", provisioner_url: 'http://a'";
    if (strcmp(k->path, "tls.cert") == 0)
        return ", key: /k";
    if (strcmp(k->path, "tls.key") == 0)
        return ", cert: /c";
    if (strcmp(k->path, "tls.client_required") == 0)
        return ", client_ca: /a";
    if (strncmp(k->path, "profiles.*.price.per", 20) == 0)
        return ", currency: EUR";
    return "";
}

const char *companions(const struct config_key *k)
{
    return strcmp(k->path, "profiles.*.mounts") == 0 ? "mounts: {allow: [/srv/a]}, " : "";
}
