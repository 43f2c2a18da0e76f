/* waiting.c - GET /v1/waiting: what an acquire that has not been answered waits for. */
#include "base/str.h"
#include "dialects/native/internal.h"

/* SP_OK: `ret` is the id that is waited for, "" for an acquire that has no name. */
static int decode(struct http_exchange *ex, uint64_t principal, char ret[POOL_ID_MAX + 1],
                  int *ret_profile, struct err *err)
{
    const struct pool *pool = engine_pool(api_of(ex)->engine);
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1];
    char profile[POOL_NAME_MAX + 1];
    char request[POOL_ID_MAX + 1];

    if (!http_query(ex, "user_id", user, sizeof(user)))
        str_copy_cut(user, sizeof(user), "default");
    if (!http_query(ex, "profile", profile, sizeof(profile)))
        str_copy_cut(profile, sizeof(profile), "default");
    *ret_profile = pool_profile_index(pool, profile);
    if (*ret_profile < 0)
        return err_set(err, SP_INVALID_FIELD, "'profile': there is no such profile");
    if (http_query(ex, "request_id", request, sizeof(request))) {
        (void) api_find_request(api_of(ex), request, principal, ret);
        return SP_OK;
    }
    if (http_query(ex, "sandbox_id", ret, POOL_ID_MAX + 1))
        return SP_OK;
    if (http_query(ex, "thread_id", thread, sizeof(thread)))
        api_sandbox_id(user, thread, ret);
    return SP_OK;
}

void api_waiting(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    const struct rt *rt = engine_rt(api->engine);
    char sandbox_id[POOL_ID_MAX + 1] = "";
    char why[ENGINE_TROUBLE_MAX];
    struct pool_waiting w = {0};
    struct api_caller caller;
    struct json_out o;
    struct err err;
    bool is_found;
    int profile;

    (void) api_identify(ex, &caller); /* always set: the guard has accepted the caller */
    if (decode(ex, caller.principal, sandbox_id, &profile, &err) != SP_OK) {
        http_reply_err(ex, &err);
        return;
    }
    rt_refresh(engine_rt(api->engine));
    is_found = !str_is_empty(sandbox_id) &&
               pool_find_waiting(engine_pool(api->engine), sandbox_id, caller.principal, &w);
    engine_wait_reason(api->engine, is_found ? w.profile : (unsigned) profile, why, sizeof(why));
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "waiting", is_found);
    api_put_reason(&o, "reason", why, caller.is_operator);
    if (is_found) {
        json_put_u64(&o, "place", w.place);
        json_put_u64(&o, "of", w.of);
        json_put_u64(&o, "held", w.held);
        json_put_num(&o, "waited_s",
                     (double) ((rt_now(rt) - MIN_OF(w.since_ns, rt_now(rt))) / NS_PER_MS) / 1000);
    }
    json_end(&o);
    http_reply_json(ex, 200, &o);
}
