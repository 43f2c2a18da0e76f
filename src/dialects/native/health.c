/* health.c - whether the process is alive, whether it can serve, and what it is. */
#include <unistd.h>

#include "base/str.h"
#include "dialects/native/internal.h"
#include "sandpool/version.h"

void api_healthz(struct http_exchange *ex)
{
    static const char body[] = "{\"status\":\"ok\"}";

    http_reply(ex, 200, "application/json", body, sizeof(body) - 1);
}

static void put_profile(struct json_out *o, const char *name, bool is_ready, const char *why,
                        bool is_operator)
{
    json_begin_obj(o, NULL);
    json_put_str(o, "name", name);
    json_put_bool(o, "ready", is_ready);
    api_put_reason(o, "reason", str_is_empty(why) ? NULL : why, is_operator);
    json_end(o);
}

static void put_profiles(struct json_out *o, struct api *api, bool is_operator)
{
    const struct pool *pool = engine_pool(api->engine);
    struct pool_stats stats;

    pool_get_stats(pool, &stats);
    json_begin_arr(o, "profiles");
    for (unsigned i = 0; i < stats.profile_count; i++) {
        char why[ENGINE_TROUBLE_MAX];
        bool is_good = !engine_profile_trouble(api->engine, i, why, sizeof(why));

        if (!pool_profile(pool, i)->is_retired)
            put_profile(o, pool_profile(pool, i)->name, is_good, why, is_operator);
    }
    json_end(o);
}

/* Ready means that the profile `default` can be served. Other profiles are shown to authenticated
 * callers only. */
void api_readyz(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    struct api_caller caller;
    char why[ENGINE_TROUBLE_MAX] = "there is no profile 'default'";
    int index = pool_profile_index(engine_pool(api->engine), "default");
    bool is_ready =
        index >= 0 && !engine_profile_trouble(api->engine, (unsigned) index, why, sizeof(why));
    bool is_known = api_identify(ex, &caller);
    bool is_operator = is_known && caller.is_operator;
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "ready", is_ready);
    api_put_reason(&o, "reason", str_is_empty(why) ? NULL : why, is_operator);
    if (is_known)
        put_profiles(&o, api, is_operator);
    json_end(&o);
    http_reply_json(ex, is_ready ? 200 : 503, &o);
}

void api_version(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    struct json_out o;

    rt_refresh(engine_rt(api->engine));
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "version", SANDPOOL_VERSION);
    json_put_str(&o, "instance", engine_instance(api->engine));
    json_put_u64(&o, "pid", (uint64_t) getpid());
    json_put_num(&o, "uptime_s",
                 (double) ((rt_now(engine_rt(api->engine)) - api->started_ns) / NS_PER_MS) / 1000);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}
