/* setup.c - what the backend needs before the first call: which agent goes into containers, and a
 * directory to meet it in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

static void find_program(const char *configured, const char *name, char *dst)
{
    AUTO_FREE char *whole = NULL;
    char path[DOCKER_PATH_MAX];

    if (!backend_program(configured, name, path, sizeof(path)))
        return;
    whole = realpath(path, NULL); /* the engine has another working directory */
    if (whole != NULL && access(whole, X_OK) == 0)
        str_copy_cut(dst, DOCKER_PATH_MAX, whole);
}

static void find_dir(struct docker *d, const char *state_dir)
{
    AUTO_FREE char *whole = realpath(state_dir, NULL);

    if (whole == NULL)
        return;
    (void) snprintf(d->dir, sizeof(d->dir), "%.400s/docker", whole);
    if (file_make_dir(d->dir, NULL) != SP_OK)
        d->dir[0] = '\0'; /* a create that needs it says so */
}

int docker_setup(struct docker *d, const struct backend_env *env,
                 const struct config_profile *profile, struct err *err)
{
    int rc = docker_take_address(d, profile, err);

    if (rc == SP_OK)
        rc = docker_claim(d, env->state_dir, err);
    if (rc != SP_OK)
        return rc;
    d->call_ns = profile->docker.call_timeout_s * NS_PER_S;
    gate_init(&d->creates, profile->docker.creates);
    gate_init(&d->removes, DOCKER_REMOVES_MAX);
    gate_init(&d->stops, DOCKER_STOPS_MAX);
    gate_init(&d->mounts, DOCKER_MOUNTS_MAX);
    gate_init(&d->copies, DOCKER_COPIES_MAX);
    d->has_old_copies = true;
    str_copy_cut(d->allow, sizeof(d->allow), env->config->mounts.allow);
    find_program(env->config->agent.path, "sandpool-agent", d->agent);
    find_program(env->config->helper.path, "sandpool-helper", d->helper);
    d->id_base = env->config->oci.id_base;
    d->reserve = env->config->store.min_free;
    find_dir(d, env->state_dir);
    docker_disk_open(d, env->state_dir);
    docker_relay_sweep(d);
    return SP_OK;
}
