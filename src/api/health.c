/* health.c - is the process alive, can it serve, what is it. */
#include <unistd.h>

#include "api/internal.h"
#include "sandpool/version.h"

void api_healthz(struct http_exchange *ex)
{
    static const char body[] = "{\"status\":\"ok\"}";

    http_reply(ex, 200, "application/json", body, sizeof(body) - 1);
}

/* Everything that keeps an acquire from succeeding; NULL when nothing does. */
static const char *trouble(struct api *api)
{
    struct pool_stats stats;

    pool_get_stats(engine_pool(api->engine), &stats);
    if (!engine_is_recovered(api->engine))
        return "starting: the backends have not been asked yet";
    if (!stats.is_store_up)
        return engine_store_trouble(api->engine);
    if (stats.mode != POOL_RUNNING)
        return stats.mode == POOL_PAUSED ? "the pool is paused" : "the pool is draining";
    if (engine_disk(api->engine)->is_low)
        return engine_disk(api->engine)->reason;
    return engine_backend_trouble(api->engine);
}

void api_readyz(struct http_exchange *ex)
{
    const char *why = trouble(api_of(ex));
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "ready", why == NULL);
    json_put_str(&o, "reason", why);
    json_end(&o);
    http_reply_json(ex, why == NULL ? 200 : 503, &o);
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
