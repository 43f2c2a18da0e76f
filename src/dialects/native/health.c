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

bool api_put_ready(struct json_out *o, struct api *api, unsigned profile, bool is_operator)
{
    char why[ENGINE_TROUBLE_MAX];
    bool is_ready;
    enum engine_cause cause =
        engine_profile_cause(api->engine, profile, &is_ready, why, sizeof(why));

    json_put_bool(o, "ready", is_ready);
    json_put_str(o, "cause", cause == ENGINE_CAUSE_NONE ? NULL : engine_cause_name(cause));
    api_put_reason(o, "reason", str_is_empty(why) ? NULL : why, is_operator);
    return is_ready;
}

static void put_profiles(struct json_out *o, struct api *api, bool is_operator)
{
    const struct pool *pool = engine_pool(api->engine);
    struct pool_stats stats;

    pool_get_stats(pool, &stats);
    json_begin_arr(o, "profiles");
    for (unsigned i = 0; i < stats.profile_count; i++) {
        if (pool_profile(pool, i)->is_retired)
            continue;
        json_begin_obj(o, NULL);
        json_put_str(o, "name", pool_profile(pool, i)->name);
        (void) api_put_ready(o, api, i, is_operator); /* it is written down */
        json_end(o);
    }
    json_end(o);
}

/* Ready means that the profile `default` can be served. Other profiles are shown to authenticated
 * callers only. */
void api_readyz(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    struct api_caller caller;
    int index = pool_profile_index(engine_pool(api->engine), "default");
    bool is_known = api_identify(ex, &caller);
    bool is_operator = is_known && caller.is_operator;
    bool is_ready = false;
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (index >= 0) {
        is_ready = api_put_ready(&o, api, (unsigned) index, is_operator);
    } else {
        json_put_bool(&o, "ready", false);
        json_put_str(&o, "cause", engine_cause_name(ENGINE_CAUSE_CONFIGURATION));
        json_put_str(&o, "reason", "there is no profile 'default'");
    }
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
