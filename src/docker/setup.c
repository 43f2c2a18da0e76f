/* setup.c - what the backend needs before the first call: where the engine is, which agent goes into
 * containers, and a directory to meet it in. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "docker/internal.h"

#define USUAL_SOCKET "unix:///var/run/docker.sock"

static int take_address(struct docker *d, const char *configured, struct err *err)
{
    const char *address = configured;
    const char *env = getenv("DOCKER_HOST");

    if (str_is_empty(address))
        address = env != NULL && env[0] != '\0' ? env : USUAL_SOCKET;
    if (!str_copy(d->address, sizeof(d->address), address))
        return err_set(err, SP_CONFIG, "docker.host is too long");
    if (strncmp(address, "unix://", 7) == 0 && address[7] == '/') {
        if (strlen(address + 7) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
            return err_set(err, SP_CONFIG, "docker.host is too long for a Unix socket");
        str_copy_cut(d->socket, sizeof(d->socket), address + 7);
        str_copy_cut(d->url, sizeof(d->url), "http://docker");
        return SP_OK;
    }
    if (strncmp(address, "tcp://", 6) == 0 && strchr(address + 6, '/') == NULL) {
        (void) snprintf(d->url, sizeof(d->url), "http://%.240s", address + 6);
        return SP_OK;
    }
    return err_set(err, SP_CONFIG,
                   "docker.host must be unix:///path or tcp://address:port, not '%.100s'", address);
}

static void find_agent(struct docker *d, const char *configured)
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
        str_copy_cut(strrchr(path, '/') + 1, 32, "sandpool-agent");
    }
    whole = realpath(path, NULL); /* the engine has another working directory */
    if (whole != NULL && access(whole, X_OK) == 0)
        str_copy_cut(d->agent, sizeof(d->agent), whole);
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
    int rc = take_address(d, profile->docker.host, err);

    if (rc != SP_OK)
        return rc;
    d->call_ns = profile->docker.call_timeout_s * NS_PER_S;
    d->creates.max = profile->docker.creates;
    d->removes.max = DOCKER_REMOVES_MAX;
    find_agent(d, env->config->oci.agent);
    make_dir(d, env->state_dir);
    docker_hand_sweep(d);
    return SP_OK;
}
