/* hibernated.c - sandboxes that are snapshots until their next acquire, as callers are shown them: one by its id, and in
 * lists after all boxes. */
#include <string.h>

#include "base/str.h"
#include "dialects/native/internal.h"
#include "engine/hibernate.h"

static bool may_see(const struct api_caller *caller, const struct engine_snapshot *s)
{
    return s->info.is_hibernated && s->by_sandbox.is_linked && !s->is_leaving && !s->is_over &&
           (caller->is_operator || s->info.principal == caller->principal) &&
           api_covers(caller, s->info.user, s->info.profile, s->info.sandbox_id);
}

static void put(struct json_out *o, struct api *api, const struct engine_snapshot *s)
{
    uint64_t ends_ms = s->expiry.key;
    uint64_t now_ms = (uint64_t) rt_wall_at(engine_rt(api->engine), rt_now(engine_rt(api->engine)));
    char text[40];
    char hex[17];

    str_hex64(hex, s->info.id);
    json_put_str(o, "sandbox_id", s->info.sandbox_id);
    json_put_u64(o, "generation", s->info.generation);
    json_put_null(o, "box_id");
    json_put_str(o, "state", "hibernated");
    json_put_str(o, "profile", s->info.profile);
    json_put_str(o, "user_id", s->info.user);
    json_put_str(o, "thread_id", s->info.thread);
    json_put_null(o, "sandbox_url");
    str_iso8601(text, s->info.created_ms);
    json_put_str(o, "created_at", text);
    json_put_null(o, "expires_at");
    str_iso8601(text, ends_ms != UINT64_MAX ? ends_ms : 0);
    json_put_str(o, "ends_at", ends_ms != UINT64_MAX ? text : NULL);
    json_put_str(o, "ends_by", ends_ms != UINT64_MAX ? "hibernated" : NULL);
    if (ends_ms != UINT64_MAX)
        json_put_num(o, "ends_in_s", ends_ms > now_ms ? (double) (ends_ms - now_ms) / 1000 : 0);
    json_put_num(o, "age_s",
                 now_ms > s->info.created_ms ? (double) (now_ms - s->info.created_ms) / 1000 : 0);
    json_put_str(o, "snapshot_id", hex);
    json_put_u64(o, "size_bytes", s->info.size);
    if (!str_is_empty(s->info.metadata))
        json_put_raw(o, "metadata", s->info.metadata);
}

bool api_reply_hibernated(struct http_exchange *ex, struct api *api,
                          const struct api_caller *caller, const char *sandbox_id)
{
    const struct engine_snapshot *s = engine_hibernated_find(api->engine, sandbox_id);
    struct json_out o;

    if (s == NULL || !may_see(caller, s))
        return false;
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    put(&o, api, s);
    json_end(&o);
    http_reply_json(ex, 200, &o);
    return true;
}

/* An id that has a box is shown with its box. */
static bool is_shown(const struct api *api, const struct api_hibernated_filter *f,
                     const struct engine_snapshot *s)
{
    return s->order > f->after && may_see(f->caller, s) &&
           (f->profile == NULL || strcmp(f->profile, s->info.profile) == 0) &&
           (str_is_empty(f->user) || strcmp(f->user, s->info.user) == 0) &&
           (str_is_empty(f->thread) || strcmp(f->thread, s->info.thread) == 0) &&
           pool_find_sandbox(engine_pool(api->engine), s->info.sandbox_id) == NULL;
}

bool api_list_hibernated(struct json_out *o, struct api *api, struct api_hibernated_filter *f)
{
    const struct engine_snapshot *s = engine_hibernated_next(api->engine, NULL);

    for (; s != NULL; s = engine_hibernated_next(api->engine, s)) {
        if (!is_shown(api, f, s))
            continue;
        if (f->left == 0)
            return true;
        json_begin_obj(o, NULL);
        put(o, api, s);
        json_end(o);
        f->after = s->order;
        f->left--;
    }
    return false;
}
