/* extras.c - envs, mounts and limits of an acquire: applied to a running box, or used to make one.
 * All of it is checked here, as far as its text allows, and copied into one piece of memory. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "dialects/native/internal.h"
#include "front/body.h"

enum { ENVS_MAX = 64, ENVS_BYTES_MAX = 32 * 1024, MOUNTS_MAX = 16, PIDS_MAX = 4194304 };

#define MEMORY_MIN (16ULL << 20)
#define MEMORY_MAX (1ULL << 40)
#define CPUS_MIN 0.01
#define CPUS_MAX 1024.0

/* Empty is the same as absent. */
static void drop_empty(struct api_members *m)
{
    if (json_len(m->envs) == 0)
        m->envs = NULL;
    if (json_len(m->mounts) == 0)
        m->mounts = NULL;
    if (json_len(m->limits) == 0)
        m->limits = NULL;
}

/* --- checking --- */

static int check_envs(const struct json *envs, struct err *err)
{
    const struct json *value;
    const char *name;
    size_t total = 0;

    if (json_len(envs) > ENVS_MAX)
        return err_set(err, SP_INVALID_FIELD, "'envs' has more than %d variables", ENVS_MAX);
    for (size_t i = 0; envs != NULL && json_member(envs, i, &name, &value); i++) {
        if (!config_is_env_name(name))
            return err_set(err, SP_INVALID_FIELD,
                           "'envs': '%.60s' cannot be the name of a variable", name);
        if (json_str(value) == NULL)
            return err_set(err, SP_INVALID_FIELD, "'envs': the value of '%.60s' must be a text",
                           name);
        total += strlen(name) + strlen(json_str(value)) + 2;
    }
    if (total > ENVS_BYTES_MAX)
        return err_set(err, SP_INVALID_FIELD, "'envs' is longer than %d bytes", ENVS_BYTES_MAX);
    return SP_OK;
}

static int check_path(const char *key, const char *path, struct err *err)
{
    if (path != NULL && config_path_is_plain(path))
        return SP_OK;
    return err_set(err, SP_INVALID_FIELD,
                   "'mounts': '%s' must be an absolute path without '..', '.' and double or "
                   "trailing slashes",
                   key);
}

static int get_mount(const struct json *mount, struct backend_mount *ret, struct err *err)
{
    static const struct front_field fields[] = {
        {"host_path", FRONT_TEXT, .at = offsetof(struct backend_mount, host_path),
         .max = CONFIG_PATH_MAX},
        {"container_path", FRONT_TEXT, .at = offsetof(struct backend_mount, box_path),
         .max = CONFIG_PATH_MAX},
        {"read_only", FRONT_FLAG, .at = offsetof(struct backend_mount, is_read_only)},
        {.name = NULL}};
    int r;

    *ret = (struct backend_mount){0};
    if (!json_is_obj(mount))
        return err_set(err, SP_INVALID_FIELD, "'mounts' must be a list of objects");
    r = front_decode_strict(mount, fields, ret, err);
    if (r == SP_OK)
        r = check_path("host_path", ret->host_path, err);
    if (r == SP_OK)
        r = check_path("container_path", ret->box_path, err);
    return r;
}

static int check_host_path(const struct config *c, const char *path, struct err *err)
{
    if (!config_mount_is_allowed(c, path))
        return err_set(err, SP_FORBIDDEN,
                       "'%.80s' is not below any of mounts.allow in the daemon's configuration",
                       path);
    if (config_mount_is_closed(c, path))
        return err_set(
            err, SP_FORBIDDEN,
            "'%.80s' is, or contains, data of threads (provisioner.thread_data, or mounts of a "
            "profile): those have it in their own boxes",
            path);
    return SP_OK;
}

static int check_mount(const struct config *c, const struct json *mounts, size_t index,
                       struct err *err)
{
    struct backend_mount m;
    int r = get_mount(json_at(mounts, index), &m, err);

    if (r != SP_OK)
        return r;
    if (!config_box_path_is_free(m.box_path))
        return err_set(err, SP_INVALID_FIELD,
                       "'mounts': /, /proc, /sys, /dev and /.sandpool of a box cannot be covered");
    for (size_t i = 0; i < index; i++) {
        const char *other = json_str(json_get(json_at(mounts, i), "container_path"));

        if (strcmp(other, m.box_path) == 0)
            return err_set(err, SP_INVALID_FIELD, "'mounts': '%.80s' is given twice", m.box_path);
    }
    return check_host_path(c, m.host_path, err);
}

static int check_mounts(const struct config *c, const struct json *mounts, struct err *err)
{
    int r = SP_OK;

    if (json_len(mounts) > MOUNTS_MAX)
        return err_set(err, SP_INVALID_FIELD, "'mounts' has more than %d entries", MOUNTS_MAX);
    for (size_t i = 0; i < json_len(mounts) && r == SP_OK; i++)
        r = check_mount(c, mounts, i, err);
    return r;
}

struct limits {
    uint64_t pids;
    const struct json *memory;
    const struct json *cpus;
};

int api_get_limits(const struct json *body, struct backend_extras *ret, struct err *err)
{
    static const struct front_field fields[] = {
        {"pids", FRONT_NUMBER, .at = offsetof(struct limits, pids), .min = 1, .max = PIDS_MAX},
        {"memory", FRONT_ANY, .at = offsetof(struct limits, memory)},
        {"cpus", FRONT_ANY, .at = offsetof(struct limits, cpus)},
        {.name = NULL}};
    struct limits l = {0};
    const struct json *memory;
    const struct json *cpus;
    int r = front_decode_strict(body, fields, &l, err);

    if (r != SP_OK)
        return r;
    ret->pids = l.pids;
    memory = l.memory;
    cpus = l.cpus;
    if (memory != NULL) {
        bool is_size = json_is_str(memory) ? str_parse_size(json_str(memory), &ret->memory)
                                           : json_u64(memory, &ret->memory);

        if (!is_size || ret->memory < MEMORY_MIN || ret->memory > MEMORY_MAX)
            return err_set(err, SP_INVALID_FIELD,
                           "'limits': 'memory' must be bytes or a size like \"512M\", from 16M to "
                           "1T");
    }
    if (cpus != NULL) {
        if (!json_is_num(cpus) || !(json_num(cpus) >= CPUS_MIN && json_num(cpus) <= CPUS_MAX))
            return err_set(err, SP_INVALID_FIELD,
                           "'limits': 'cpus' must be a number from 0.01 to 1024");
        ret->cpus = (uint64_t) (json_num(cpus) * 1000 + 0.5);
    }
    return SP_OK;
}

/* --- copying --- */

static struct backend_extras *copy(const struct config *c, const struct api_members *m,
                                   const struct backend_extras *limits)
{
    char closed[CONFIG_CLOSED_TEXT];
    bool is_closed = m->mounts != NULL && config_closed_text(c, closed) > 0;
    struct backend_env_var envs[ENVS_MAX];
    struct backend_mount mounts[MOUNTS_MAX];
    struct backend_extras x = *limits;
    const struct json *value;
    struct err unused;

    x.envs = envs;
    x.mounts = mounts;
    x.env_count = json_len(m->envs); /* no more than fit: checked before */
    x.mount_count = json_len(m->mounts);
    for (size_t i = 0; i < x.env_count && json_member(m->envs, i, &envs[i].name, &value); i++)
        envs[i].value = json_str(value);
    for (size_t i = 0; i < x.mount_count; i++) {
        int r = get_mount(json_at(m->mounts, i), &mounts[i], &unused);

        assert(r == SP_OK); /* it was before */
        mounts[i].closed = is_closed ? closed : NULL;
    }
    return backend_extras_copy(&x);
}

/* The name of the first extra that the profile's boxes do not support; NULL: they support all. */
static const char *find_unsupported(const struct api_members *m, unsigned can)
{
    if (m->envs != NULL && (can & BACKEND_LATE_ENVS) == 0)
        return "envs";
    if (m->mounts != NULL && (can & BACKEND_LATE_MOUNTS) == 0)
        return "mounts";
    if (m->limits != NULL && (can & BACKEND_LATE_LIMITS) == 0)
        return "limits";
    return NULL;
}

int api_decode_extras(struct api *api, const struct api_caller *caller,
                      const struct api_members *members, unsigned profile,
                      struct backend_extras **ret, struct err *err)
{
    struct api_members m = *members;
    struct backend_extras limits = {0};
    const char *unsupported;
    int r;

    *ret = NULL;
    drop_empty(&m);
    if (m.envs == NULL && m.mounts == NULL && m.limits == NULL)
        return SP_OK;
    unsupported = find_unsupported(&m, engine_can_apply(api->engine, profile));
    if (unsupported != NULL)
        return err_set(err, SP_UNSUPPORTED, "the profile's backend cannot apply '%s'", unsupported);
    r = check_envs(m.envs, err);
    if (r == SP_OK)
        r = check_mounts(engine_config(api->engine), m.mounts, err);
    if (r == SP_OK && m.limits != NULL)
        r = api_get_limits(m.limits, &limits, err);
    if (r == SP_OK && !caller->is_operator)
        r = engine_check_limits(api->engine, profile, &limits, err);
    if (r == SP_OK)
        *ret = copy(engine_config(api->engine), &m, &limits);
    return r;
}

int api_check_extras(struct api *api, const struct api_caller *caller,
                     const struct backend_extras *extras, unsigned profile, struct err *err)
{
    int r = SP_OK;

    for (size_t i = 0; i < extras->mount_count && r == SP_OK; i++)
        r = check_host_path(engine_config(api->engine), extras->mounts[i].host_path, err);
    if (r == SP_OK && !caller->is_operator)
        r = engine_check_limits(api->engine, profile, extras, err);
    return r;
}
