/* extras.c - envs, mounts and limits in the words of the simulated machine. */
#include <string.h>

#include "backends/sim/sim.h"
#include "base/str.h"
#include "sim/wire.h"

static void set_time(struct sim_update_manners *m, const char *text)
{
    if (!str_parse_u64(text, 0, WIRE_UPDATE_MS_MAX, &m->update_ms))
        m->error = "invalid_field";
}

void sim_update_manners(const struct backend_extras *extras, struct sim_update_manners *ret)
{
    static const char in_path[] = "/SIM_UPDATE_MS=";

    *ret = (struct sim_update_manners){0};
    for (size_t i = 0; i < extras->env_count; i++) {
        const struct backend_env_var *v = &extras->envs[i];

        if (strcmp(v->name, "SIM_UPDATE_ERROR") == 0)
            ret->error = v->value;
        else if (strcmp(v->name, "SIM_UPDATE_MS") == 0)
            set_time(ret, v->value);
    }
    for (size_t i = 0; i < extras->mount_count; i++) {
        const char *at = strstr(extras->mounts[i].box_path, in_path);

        if (at != NULL)
            set_time(ret, at + strlen(in_path));
    }
}

int sim_check_extras(const struct backend_extras *extras, struct err *err)
{
    struct sim_update_manners manners = {0};

    if (extras != NULL)
        sim_update_manners(extras, &manners);
    if (manners.error == NULL)
        return SP_OK;
    return err_set(err, sp_error_from_name(manners.error),
                   "the simulated machine was asked to fail");
}

unsigned sim_late_of(const struct config_profile *profile)
{
    return profile->sim.late ? BACKEND_LATE_ALL : 0;
}

void sim_put_extras(struct json_out *o, const char *key, const struct backend_extras *extras)
{
    json_begin_obj(o, key);
    json_begin_obj(o, "envs");
    for (size_t i = 0; i < extras->env_count; i++)
        json_put_str(o, extras->envs[i].name, extras->envs[i].value);
    json_end(o);
    json_begin_arr(o, "mounts");
    for (size_t i = 0; i < extras->mount_count; i++) {
        json_begin_obj(o, NULL);
        json_put_str(o, "host_path", extras->mounts[i].host_path);
        json_put_str(o, "box_path", extras->mounts[i].box_path);
        json_put_bool(o, "is_read_only", extras->mounts[i].is_read_only);
        json_end(o);
    }
    json_end(o);
    json_put_u64(o, "memory", extras->memory);
    json_put_u64(o, "cpus", extras->cpus);
    json_put_u64(o, "pids", extras->pids);
    json_end(o);
}
