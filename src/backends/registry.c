/* registry.c - the backends by name. */
#include "backends/registry.h"

#include <string.h>
#include <unistd.h>

#include "backends/docker/docker.h"
#include "backends/oci/oci.h"
#include "backends/remote/remote.h"
#include "backends/sim/sim.h"
#include "base/str.h"

static const struct backend_ops *const all[] = {&oci_ops, &docker_ops, &remote_ops, &sim_ops};

const struct backend_ops *backend_by_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

void backend_key(const struct config_profile *p, char *dst, size_t cap)
{
    const struct backend_ops *ops = backend_by_name(p->backend);

    if (ops != NULL && ops->put_key != NULL)
        ops->put_key(p, dst, cap);
    else
        config_backend_key(p, dst, cap);
}

int backend_check(const struct config_profile *p, struct err *err)
{
    char path[CONFIG_PATH_MAX + 1];
    bool is_there;

    if (strcmp(p->backend, oci_ops.name) != 0 || str_is_empty(p->runtime))
        return SP_OK;
    is_there = p->runtime[0] == '/' ? access(p->runtime, X_OK) == 0
                                    : oci_find_program(p->runtime, path, sizeof(path));
    if (is_there)
        return SP_OK;
    return err_set(err, SP_CONFIG,
                   "profiles.%s.runtime: there is no program '%.100s' on this machine", p->name,
                   p->runtime);
}
