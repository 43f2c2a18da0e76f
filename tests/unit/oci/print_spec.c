/* print_spec - prints the config.json of a box for test_box_rules.py.
 * print_spec name=value... -- agent arguments... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/oci/spec.h"
#include "base/str.h"

static char *option(char **argv, const char *name, char *fallback)
{
    size_t len = strlen(name);

    for (; *argv != NULL && strcmp(*argv, "--") != 0; argv++) {
        if (strncmp(*argv, name, len) == 0 && (*argv)[len] == '=')
            return *argv + len + 1;
    }
    return fallback;
}

static uint64_t number(char **argv, const char *name)
{
    char zero[] = "0";
    return strtoull(option(argv, name, zero), NULL, 10);
}

int main(int argc, char **argv)
{
    static char none[] = "";
    static struct config_profile profile = {.user = "user", .terminals = CONFIG_TERMINALS_MAX};
    struct config_pair pair = {.key = none};
    struct oci_spec s = {.profile = &profile, .hostname = "box", .token = "secret"};
    struct buf out;
    int args = 1;

    profile.network.mode = (enum config_network) number(argv, "network");
    profile.limits.memory = number(argv, "memory");
    profile.limits.cpus = number(argv, "cpus");
    profile.limits.pids = number(argv, "pids");
    pair.key = option(argv, "env_name", none);
    pair.value = option(argv, "env_value", none);
    profile.env.pairs = &pair;
    profile.env.count = pair.key[0] != '\0';
    s.rootfs = option(argv, "rootfs", none);
    s.cgroup = option(argv, "cgroup", none);
    s.id_base = (uint32_t) number(argv, "id_base");
    s.id_count = 65536;
    s.host_cpus = (unsigned) number(argv, "host_cpus");
    s.has_cpuset = true;
    s.first_cpu = (unsigned) number(argv, "first_cpu");
    s.max_files = number(argv, "max_files");
    s.is_cgroup_v2 = number(argv, "cgroup_v2") != 0;
    s.has_cgroups = s.cgroup[0] != '\0';
    s.has_swap_limit = number(argv, "swap_limit") != 0;
    s.has_user_ns = s.id_base != 0;
    s.user_ns = option(argv, "user_ns", NULL);
    while (args < argc && strcmp(argv[args], "--") != 0)
        args++;
    s.agent_args = (const char *const *) &argv[args < argc ? args + 1 : argc];
    buf_init(&out, 1 << 20);
    oci_spec_print(&s, &out);
    puts(buf_str(&out));
    buf_fini(&out);
    return 0;
}
