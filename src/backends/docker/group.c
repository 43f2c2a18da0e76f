/* group.c - the control group of relays: they are no part of the service that the daemon is. sandpool-helper makes
 * it with the first of them, in the hierarchies that are looked at for what belongs to a service. */
#include <stdio.h>
#include <unistd.h>

#include "backends/docker/internal.h"

void docker_put_group(struct json_out *j, const struct docker *d)
{
    char group[BACKEND_LABEL_MAX + 32];

    (void) snprintf(group, sizeof(group), "/sandpool-%s/" DOCKER_RELAYS_GROUP, d->instance);
    json_put_str(j, "cgroup", group);
}

void docker_remove_group(const struct docker *d)
{
    static const char *const tops[] = {"", "/pids", "/systemd", "/unified"};

    for (size_t i = 0; i < ARRAY_LEN(tops); i++) {
        char path[BACKEND_LABEL_MAX + 64];
        size_t len = (size_t) snprintf(path, sizeof(path), "/sys/fs/cgroup%s/sandpool-%s", tops[i],
                                       d->instance);

        (void) snprintf(path + len, sizeof(path) - len, "/" DOCKER_RELAYS_GROUP);
        (void) rmdir(path); /* not there, or relays are in it */
        path[len] = '\0';
        (void) rmdir(path); /* likewise, or boxes of another backend */
    }
}
