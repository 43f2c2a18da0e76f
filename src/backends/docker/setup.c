/* setup.c - what the backend needs before the first call: which agent goes into containers, and a
 * directory to meet it in. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/cleanup.h"
#include "base/str.h"

static void find_program(const char *configured, const char *name, char *dst)
{
    AUTO_FREE char *whole = NULL;
    char path[DOCKER_PATH_MAX];
    ssize_t len;

    if (!str_is_empty(configured)) {
        str_copy_cut(path, sizeof(path), configured);
    } else {
        len = readlink("/proc/self/exe", path, sizeof(path) - 32);
        if (len <= 0)
            return;
        path[len] = '\0';
        str_copy_cut(strrchr(path, '/') + 1, 32, name);
    }
    whole = realpath(path, NULL); /* the engine has another working directory */
    if (whole != NULL && access(whole, X_OK) == 0)
        str_copy_cut(dst, DOCKER_PATH_MAX, whole);
}

static void make_dir(struct docker *d, const char *state_dir)
{
    AUTO_FREE char *whole = realpath(state_dir, NULL);

    if (whole == NULL)
        return;
    (void) snprintf(d->dir, sizeof(d->dir), "%.400s/docker", whole);
    if (mkdir(d->dir, 0700) != 0 && errno != EEXIST)
        d->dir[0] = '\0'; /* a create that needs it says so */
}

int docker_setup(struct docker *d, const struct backend_env *env,
                 const struct config_profile *profile, struct err *err)
{
    int rc = docker_take_address(d, profile, err);

    if (rc != SP_OK)
        return rc;
    d->call_ns = profile->docker.call_timeout_s * NS_PER_S;
    gate_init(&d->creates, profile->docker.creates);
    gate_init(&d->removes, DOCKER_REMOVES_MAX);
    gate_init(&d->stops, DOCKER_STOPS_MAX);
    gate_init(&d->mounts, DOCKER_MOUNTS_MAX);
    str_copy_cut(d->allow, sizeof(d->allow), env->config->mounts.allow);
    find_program(env->config->agent.path, "sandpool-agent", d->agent);
    find_program(env->config->helper.path, "sandpool-helper", d->helper);
    d->id_base = env->config->oci.id_base;
    make_dir(d, env->state_dir);
    docker_relay_sweep(d);
    return SP_OK;
}
