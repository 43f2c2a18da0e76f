/* pool.c - the pool as a whole: its state, and the commands of operators. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "engine/hibernate.h"
#include "engine/holders.h"
#include "front/body.h"

static double to_ms(uint64_t ns)
{
    return (double) (ns / NS_PER_US) / 1000;
}

void api_put_counts(struct json_out *o, const unsigned by_state[POOL_STATE_COUNT])
{
    json_put_u64(o, "starting",
                 by_state[POOL_INTENT] + by_state[POOL_CREATING] + by_state[POOL_STARTING]);
    json_put_u64(o, "blank", by_state[POOL_BLANK]);
    json_put_u64(o, "leased",
                 by_state[POOL_LEASING] + by_state[POOL_LEASED] + by_state[POOL_PARKING]);
    json_put_u64(o, "parked", by_state[POOL_PARKED]);
    json_put_u64(o, "deleting",
                 by_state[POOL_DOOMED] + by_state[POOL_DESTROYING] + by_state[POOL_FORGETTING]);
}

static void put_breaker(struct json_out *o, const struct rt *rt,
                        const struct pool_profile_view *view, bool is_operator)
{
    json_begin_obj(o, "breaker");
    /* No caller is refused while there are blank boxes, even if new ones cannot be made, nor when the next one
     * is the trial. */
    json_put_bool(o, "open",
                  view->is_open && !view->is_trial_due && view->by_state[POOL_BLANK] == 0);
    json_put_u64(o, "failures", view->failures);
    api_put_reason(o, "reason", str_is_empty(view->reason) ? NULL : view->reason, is_operator);
    if (view->failures > 0 && view->retry_at_ns > rt_now(rt) && view->retry_at_ns != POOL_NEVER)
        json_put_num(o, "retry_in_ms", to_ms(view->retry_at_ns - rt_now(rt)));
    json_end(o);
}

void api_put_profile_state(struct json_out *o, struct api *api, unsigned index, bool is_operator)
{
    const struct rt *rt = engine_rt(api->engine);
    const struct config_profile *c;
    struct pool_profile_view view;
    struct engine_leaks leaks;
    enum pool_mode mode;
    const char *text;

    pool_get_profile(engine_pool(api->engine), rt_now(rt), index, &view);
    c = config_find_profile(engine_config(api->engine), view.profile->name);
    json_put_str(o, "name", view.profile->name);
    json_put_str(o, "backend", c != NULL ? c->backend : NULL);
    if (view.profile->is_retired)
        json_put_bool(o, "retired", true);
    mode = pool_profile_mode(engine_pool(api->engine), index, &text);
    api_put_mode(o, mode, text);
    json_put_u64(o, "target", view.target);
    api_put_counts(o, view.by_state);
    engine_get_leaks(api->engine, index, &leaks);
    json_put_u64(o, "leaking", leaks.now);
    json_put_u64(o, "waiting", view.waiting);
    json_put_num(o, "oldest_wait_ms", to_ms(view.oldest_wait_ns));
    json_put_num(o, "arrivals_per_s", view.arrivals_per_s);
    json_put_num(o, "provision_ms", to_ms(view.provision_ns));
    put_breaker(o, rt, &view, is_operator);
    (void) api_put_ready(o, api, index, is_operator); /* it is written down */
    json_put_u64(o, "warm_hits", view.warm_hits);
    json_put_u64(o, "cold_starts", view.cold_starts);
}

static void put_store(struct json_out *o, struct api *api, bool is_up, bool is_operator)
{
    struct store_stats stats;

    engine_get_store_stats(api->engine, &stats);
    json_begin_obj(o, "store");
    json_put_str(o, "state", is_up ? "up" : "down");
    api_put_reason(o, "trouble", engine_store_trouble(api->engine), is_operator);
    json_put_u64(o, "writes", stats.writes);
    json_put_u64(o, "commits", stats.commits);
    json_put_u64(o, "power_commits", stats.power_commits);
    json_put_u64(o, "failures", stats.failures);
    json_put_bool(o, "reserve", stats.has_reserve);
    json_put_num(o, "slowest_commit_ms", to_ms(stats.commit_ns_max));
    json_put_u64(o, "events_dropped", engine_events_dropped(api->engine));
    json_end(o);
}

static bool may_see(const struct api *api, const struct api_caller *caller,
                    const struct pool_box *box)
{
    if (caller->is_operator && !caller->who.has_bounds)
        return true;
    return box != NULL && pool_is_shown(box) && api_covers_box(api, caller, box) &&
           (caller->is_operator || box->principal == caller->principal);
}

/* Operators see where it is and the largest boxes, other callers only their own among these. */
static void put_disk(struct json_out *o, struct api *api, const struct api_caller *caller)
{
    const struct engine_disk *d = engine_disk(api->engine);

    if (!d->is_known)
        return;
    json_begin_obj(o, "disk");
    if (caller->is_operator)
        json_put_str(o, "dir", d->dir);
    json_put_u64(o, "free_bytes", d->free_bytes);
    json_put_u64(o, "total_bytes", d->total_bytes);
    json_put_u64(o, "free_inodes", d->free_inodes);
    json_put_u64(o, "floor_bytes", d->floor_bytes);
    api_put_reason(o, "trouble", d->is_low ? d->reason : NULL, caller->is_operator);
    json_begin_arr(o, "largest");
    for (unsigned i = 0; i < d->largest_count; i++) {
        const struct pool_box *box = pool_find_box(engine_pool(api->engine), d->largest[i].box);
        char id[17];

        if (!may_see(api, caller, box))
            continue;
        str_hex64(id, d->largest[i].box.v);
        json_begin_obj(o, NULL);
        json_put_str(o, "box_id", id);
        json_put_str(o, "sandbox_id",
                     box != NULL && !str_is_empty(box->sandbox_id) ? box->sandbox_id : NULL);
        json_put_u64(o, "bytes", d->largest[i].bytes);
        json_end(o);
    }
    json_end(o);
    json_end(o);
}

static void put_counters(struct json_out *o, const struct pool_stats *stats)
{
    json_begin_obj(o, "acquires");
    for (int i = POOL_SRC_KEPT; i < POOL_SRC_COUNT; i++)
        json_put_u64(o, pool_source_name((enum pool_source) i), stats->acquires[i]);
    json_put_u64(o, "refused", stats->refusals);
    json_end(o);
    json_begin_obj(o, "boxes");
    json_put_u64(o, "created", stats->creates);
    json_put_u64(o, "create_failures", stats->create_failures);
    json_put_u64(o, "destroyed", stats->destroys);
    json_put_u64(o, "lost", stats->lost);
    json_end(o);
}

void api_put_pool(struct json_out *o, struct api *api, const struct api_caller *caller)
{
    const char *trouble = engine_backend_trouble(api->engine);
    struct pool_stats stats;

    rt_refresh(engine_rt(api->engine));
    pool_get_stats(engine_pool(api->engine), &stats);
    json_put_str(o, "instance", engine_instance(api->engine));
    api_put_mode(o, stats.mode, stats.mode_text);
    put_store(o, api, stats.is_store_up, caller->is_operator);
    put_disk(o, api, caller);
    api_put_reason(o, "backend_trouble", trouble, caller->is_operator);
    json_put_u64(o, "max_boxes", stats.max_boxes);
    json_put_u64(o, "total", stats.total);
    json_begin_obj(o, "by_state");
    api_put_counts(o, stats.by_state);
    json_end(o);
    json_put_u64(o, "hibernated", engine_hibernated_count(api->engine));
    json_put_u64(o, "waiting", stats.waiting);
    json_put_u64(o, "max_waiters", stats.max_waiters);
    put_counters(o, &stats);
    json_begin_arr(o, "profiles");
    for (unsigned i = 0; i < stats.profile_count; i++) {
        json_begin_obj(o, NULL);
        api_put_profile_state(o, api, i, caller->is_operator);
        json_end(o);
    }
    json_end(o);
}

void api_pool(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    struct api_caller caller;
    struct json_out o;

    (void) api_identify(ex, &caller); /* always set: the guard has accepted the caller */
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    api_put_pool(&o, api, &caller);
    json_end(&o);
    engine_forget_slowest(api->engine); /* it has been shown to who asked for it */
    http_reply_json(ex, 200, &o);
}

/* --- reconcile --- */

static void on_reconciled(void *ctx, unsigned clean, unsigned failed, size_t seen)
{
    struct api_later *l = ctx;
    struct json_out o;

    if (l->ex != NULL) {
        json_out_init(&o);
        json_begin_obj(&o, NULL);
        json_put_u64(&o, "backends_listed", clean);
        json_put_u64(&o, "backends_failed", failed);
        json_put_u64(&o, "boxes_seen", seen);
        json_end(&o);
        http_reply_json(l->ex, 200, &o);
    }
    free(l);
}

void api_reconcile(struct http_exchange *ex)
{
    engine_reconcile(api_of(ex)->engine, on_reconciled, api_answer_later(ex));
}

void api_reload(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    struct json_out o;
    struct err err;

    if (api->reload(api->reload_ctx, &err) != SP_OK) {
        http_reply_error(ex, SP_INVALID_FIELD, err.msg, 0);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "reloaded", true);
    json_put_u64(&o, "profiles", engine_config(api->engine)->profile_count);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}
