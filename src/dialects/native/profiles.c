/* profiles.c - what profiles there are: what their boxes are like, and how each is doing. Values of variables
 * are never shown, and where things lie on this machine only to operators. */
#include "base/str.h"
#include "dialects/native/internal.h"

static const char *or_null(const char *text)
{
    return str_is_empty(text) ? NULL : text;
}

static void put_limits(struct json_out *o, const struct config_profile *c)
{
    json_begin_obj(o, "limits");
    json_put_u64(o, "memory", c->limits.memory);
    json_put_num(o, "cpus", (double) c->limits.cpus / 1000);
    json_put_u64(o, "pids", c->limits.pids);
    json_put_u64(o, "disk", c->limits.disk);
    json_end(o);
}

static void put_mounts(struct json_out *o, const struct config_profile *c, bool is_operator)
{
    struct config_mount m;

    json_begin_arr(o, "mounts");
    for (const char *list = c->mounts; config_mount_next(&list, &m);) {
        json_begin_obj(o, NULL);
        if (is_operator)
            json_put_str(o, "host_path", m.host_path);
        json_put_str(o, "container_path", m.box_path);
        json_put_bool(o, "read_only", m.is_read_only);
        json_end(o);
    }
    json_end(o);
}

static void put_names(struct json_out *o, const char *key, const struct config_map *map)
{
    json_begin_arr(o, key);
    for (unsigned i = 0; i < map->count; i++)
        json_put_str(o, NULL, map->pairs[i].key);
    json_end(o);
}

static void put_labels(struct json_out *o, const struct config_profile *c)
{
    json_begin_obj(o, "labels");
    for (unsigned i = 0; i < c->labels.count; i++)
        json_put_str(o, c->labels.pairs[i].key, c->labels.pairs[i].value);
    json_end(o);
}

static void put_recipe(struct json_out *o, const struct config_profile *c, bool is_operator)
{
    json_put_str(o, "extends", or_null(c->extends));
    json_put_str(o, "image", or_null(c->image));
    if (is_operator) {
        json_put_str(o, "rootfs", str_is_empty(c->image) ? c->rootfs : NULL);
        json_put_str(o, "runtime", or_null(c->runtime));
        json_put_str(o, "setup", or_null(c->setup.command));
        json_put_str(o, "warm_up", or_null(c->warm_up.command));
    }
    json_put_str(o, "user", c->user);
    json_put_str(o, "network", config_network_name(c->network.mode));
    json_put_words(o, "network_allow", config_egress(c)); /* null: whatever this machine reaches */
    put_limits(o, c);
    put_mounts(o, c, is_operator);
    put_names(o, "env", &c->env);
    json_begin_obj(o, "warm");
    json_put_u64(o, "min", c->personal ? 0 : c->warm.min);
    json_put_u64(o, "max", c->personal ? 0 : c->warm.max);
    json_end(o);
    json_put_u64(o, "ttl_s", c->ttl_s);
    json_put_u64(o, "ttl_max_s", c->ttl_max_s);
    json_put_u64(o, "idle_timeout_s", c->idle_timeout_s);
    json_put_u64(o, "park_timeout_s", c->park_timeout_s);
    json_put_u64(o, "leak_after_s", c->leak_after_s);
    json_put_bool(o, "personal", c->personal);
    json_put_bool(o, "durable", c->durable);
    put_labels(o, c);
    api_put_price(o, c);
}

static void put_profile(struct json_out *o, struct api *api, const struct config_profile *c,
                        bool is_operator)
{
    int index = pool_profile_index(engine_pool(api->engine), c->name);

    assert(index >= 0); /* the pool has every configured one */
    json_begin_obj(o, NULL);
    api_put_profile_state(o, api, (unsigned) index, is_operator);
    put_recipe(o, c, is_operator);
    json_put_str(o, "disk_limit", engine_disk_limit(api->engine, (unsigned) index));
    json_end(o);
}

void api_profiles(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    const struct config *config = engine_config(api->engine);
    struct api_caller caller;
    struct json_out o;

    (void) api_identify(ex, &caller); /* always set: the guard has accepted the caller */
    rt_refresh(engine_rt(api->engine));
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "profiles");
    for (unsigned i = 0; i < config->profile_count; i++)
        put_profile(&o, api, &config->profiles[i], caller.is_operator);
    json_end(&o);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

void api_profile(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    const struct config_profile *c =
        config_find_profile(engine_config(api->engine), http_path_param(ex, "name"));
    struct api_caller caller;
    struct json_out o;

    if (c == NULL) {
        http_reply_error(ex, SP_NOT_FOUND, "there is no such profile", 0);
        return;
    }
    (void) api_identify(ex, &caller); /* always set: the guard has accepted the caller */
    rt_refresh(engine_rt(api->engine));
    json_out_init(&o);
    put_profile(&o, api, c, caller.is_operator);
    http_reply_json(ex, 200, &o);
}
