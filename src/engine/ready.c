/* ready.c - can an acquire succeed, now or soon? One answer for /readyz, `sandpool pool` and `sandpool doctor`,
 * so that they never disagree. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/hibernate.h"
#include "engine/internal.h"
#include "engine/snapshots.h"

#define MB (1024 * 1024)
#define WAIT_FRESH_NS (15 * NS_PER_S) /* what is said of a box that starts is asked more often */

static void describe_mode(char *dst, size_t cap, const char *what, enum pool_mode mode,
                          const char *text)
{
    (void) snprintf(dst, cap, "the %s is %s%s%.160s", what, pool_mode_name(mode),
                    str_is_empty(text) ? "" : ": ", text);
}

static const char *const cause_names[] = {"",     "stopping",      "starting", "store",
                                          "mode", "configuration", "backend",  "snapshots",
                                          "disk", "failures",      "exhausted"};

static_assert(ARRAY_LEN(cause_names) == ENGINE_CAUSE_COUNT, "a name for each cause");

const char *engine_cause_name(enum engine_cause cause)
{
    return cause_names[cause];
}

static void describe_store(struct engine *e, char *dst, size_t cap)
{
    const char *store = engine_store_trouble(e);
    const struct engine_disk *disk = engine_disk(e);

    if (store == NULL)
        store = "the store cannot be written";
    if (disk->is_known)
        (void) snprintf(dst, cap, "%.200s; %llu MB are free in %.60s", store,
                        (unsigned long long) (disk->free_bytes / MB), disk->dir);
    else
        str_copy_cut(dst, cap, store);
}

/* What holds for every profile. */
static enum engine_cause judge_pool(struct engine *e, char *dst, size_t cap)
{
    struct pool_stats stats;

    pool_get_stats(e->pool, &stats);
    if (e->is_closing) { /* and the backends, which must not be asked any more */
        str_copy_cut(dst, cap, "the daemon is stopping");
        return ENGINE_CAUSE_STOPPING;
    }
    if (!e->is_recovered) {
        str_copy_cut(dst, cap, "starting: the backends have not been asked yet");
        return ENGINE_CAUSE_STARTING;
    }
    if (!stats.is_store_up) {
        describe_store(e, dst, cap);
        return ENGINE_CAUSE_STORE;
    }
    if (stats.mode == POOL_RUNNING)
        return ENGINE_CAUSE_NONE;
    describe_mode(dst, cap, "pool", stats.mode, stats.mode_text);
    return ENGINE_CAUSE_MODE;
}

/* Callers are refused, or wait for a trial that is under way. */
static bool is_failing(const struct pool_profile_view *view)
{
    return view->is_open && !view->is_trial_due;
}

static void describe_breaker(const struct engine *e, const struct pool_profile_view *view,
                             char *dst, size_t cap)
{
    uint64_t now_ns = rt_now(e->rt);
    uint64_t wait_ns = view->retry_at_ns > now_ns ? view->retry_at_ns - now_ns : 0;

    if (wait_ns == 0)
        (void) snprintf(dst, cap,
                        "%u boxes in a row could not be made: %.160s; another is tried now",
                        view->failures, view->reason);
    else
        (void) snprintf(dst, cap,
                        "%u boxes in a row could not be made: %.160s; tried again in %.1f s",
                        view->failures, view->reason, (double) (wait_ns / NS_PER_MS) / 1000);
}

/* What was learned since the last box could not be made; NULL: nothing. */
static const char *newer_cause(const struct engine *e, unsigned profile,
                               const struct pool_profile_view *view)
{
    const struct engine_backend *b = &e->backends[view->profile->backend];
    const struct engine_wait *w = &e->waits[profile];
    uint64_t failed_ns = view->failures > 0 ? view->failed_at_ns : 0;
    bool has_wait =
        !str_is_empty(w->text) && w->at_ns > failed_ns && rt_now(e->rt) - w->at_ns < WAIT_FRESH_NS;
    bool has_trouble = !str_is_empty(b->trouble) && b->trouble_ns > failed_ns;

    if (has_trouble && (!has_wait || b->trouble_ns > w->at_ns))
        return b->trouble;
    return has_wait ? w->text : NULL;
}

bool ready_explains(struct engine *e, unsigned profile, const struct pool_fx *refusal,
                    struct pool_fx *ret)
{
    int code = refusal->u.reply.code;
    struct pool_profile_view view;
    const char *cause;

    if (code != SP_ACQUIRE_TIMEOUT && code != SP_BACKEND_UNAVAILABLE)
        return false;
    pool_get_profile(e->pool, rt_now(e->rt), profile, &view);
    if (code == SP_BACKEND_UNAVAILABLE && strcmp(refusal->reason, view.reason) != 0)
        return false; /* it is about this caller's box */
    cause = newer_cause(e, profile, &view);
    if (cause == NULL)
        return false;
    *ret = *refusal;
    str_copy_cut(ret->reason, sizeof(ret->reason), cause);
    return true;
}

const char *engine_disk_limit(struct engine *e, unsigned profile)
{
    const struct config_profile *config = profiles_config(e, profile);
    struct engine_backend *b = &e->backends[pool_profile(e->pool, profile)->backend];

    return config != NULL && b->ops->disk_limit != NULL ? b->ops->disk_limit(b->backend, config)
                                                        : NULL;
}

/* What keeps the profile from being served at all, though boxes may be ready. */
static enum engine_cause judge_profile(struct engine *e, unsigned profile,
                                       const struct pool_profile_view *view, char *dst, size_t cap)
{
    const struct engine_backend *b = &e->backends[view->profile->backend];
    const char *text;
    enum pool_mode mode = pool_profile_mode(e->pool, profile, &text);

    if (profiles_config(e, profile) == NULL || view->profile->is_retired) {
        str_copy_cut(dst, cap, "the profile is gone from the configuration");
        return ENGINE_CAUSE_CONFIGURATION;
    }
    if (mode != POOL_RUNNING) {
        describe_mode(dst, cap, "profile", mode, text);
        return ENGINE_CAUSE_MODE;
    }
    if (!str_is_empty(b->trouble) && !(is_failing(view) && view->failed_at_ns > b->trouble_ns)) {
        str_copy_cut(dst, cap, b->trouble);
        return ENGINE_CAUSE_BACKEND;
    }
    return hibernate_lacks(e, profile, dst, cap) ? ENGINE_CAUSE_SNAPSHOTS : ENGINE_CAUSE_NONE;
}

/* Why no box can be made. */
static enum engine_cause judge_making(struct engine *e, unsigned profile,
                                      const struct pool_profile_view *view, char *dst, size_t cap)
{
    const struct engine_backend *b = &e->backends[view->profile->backend];

    if (engine_profile_lacks(e, profile, dst, cap))
        return ENGINE_CAUSE_SNAPSHOTS;
    if (b->ops->trouble != NULL &&
        b->ops->trouble(b->backend, profiles_config(e, profile), dst, cap))
        return ENGINE_CAUSE_BACKEND;
    if (is_failing(view)) {
        describe_breaker(e, view, dst, cap);
        return ENGINE_CAUSE_FAILURES;
    }
    if (!pool_is_exhausted(e->pool))
        return ENGINE_CAUSE_NONE;
    str_copy_cut(dst, cap, "all boxes are in use");
    return ENGINE_CAUSE_EXHAUSTED;
}

enum engine_cause ready_judge(struct engine *e, unsigned profile, bool *ret_is_ready, char *dst,
                              size_t cap)
{
    struct pool_profile_view view;
    enum engine_cause cause;

    dst[0] = '\0';
    pool_get_profile(e->pool, rt_now(e->rt), profile, &view);
    cause = judge_pool(e, dst, cap);
    if (cause == ENGINE_CAUSE_NONE)
        cause = judge_profile(e, profile, &view, dst, cap);
    *ret_is_ready = cause == ENGINE_CAUSE_NONE;
    if (cause != ENGINE_CAUSE_NONE)
        return cause;
    if (engine_disk(e)->is_low) { /* no box is made, but those that there are can be had */
        str_copy_cut(dst, cap, engine_disk(e)->reason);
        *ret_is_ready = view.by_state[POOL_BLANK] > 0;
        return ENGINE_CAUSE_DISK;
    }
    if (view.by_state[POOL_BLANK] > 0)
        return ENGINE_CAUSE_NONE;
    cause = judge_making(e, profile, &view, dst, cap);
    *ret_is_ready = cause == ENGINE_CAUSE_NONE;
    return cause;
}

enum engine_cause engine_profile_cause(struct engine *e, unsigned profile, bool *ret_is_ready,
                                       char *dst, size_t cap)
{
    health_touch(e); /* what is shown here is in the log soon */
    return ready_judge(e, profile, ret_is_ready, dst, cap);
}

bool engine_profile_trouble(struct engine *e, unsigned profile, char *dst, size_t cap)
{
    bool is_ready;

    (void) engine_profile_cause(e, profile, &is_ready, dst, cap); /* the sentence is enough */
    return !is_ready;
}

void engine_wait_reason(struct engine *e, unsigned profile, char *dst, size_t cap)
{
    const struct engine_backend *b = &e->backends[pool_profile(e->pool, profile)->backend];
    struct pool_profile_view view;
    struct pool_stats stats;
    const char *cause;

    pool_get_stats(e->pool, &stats);
    pool_get_profile(e->pool, rt_now(e->rt), profile, &view);
    cause = newer_cause(e, profile, &view);
    if (stats.total >= stats.max_boxes)
        (void) snprintf(dst, cap, "all %u boxes are in use: %u leased, %u being made, %u parked",
                        stats.max_boxes,
                        stats.by_state[POOL_LEASING] + stats.by_state[POOL_LEASED] +
                            stats.by_state[POOL_PARKING],
                        stats.by_state[POOL_INTENT] + stats.by_state[POOL_CREATING] +
                            stats.by_state[POOL_STARTING],
                        stats.by_state[POOL_PARKED]);
    else if (!str_is_empty(b->progress))
        str_copy_cut(dst, cap, b->progress);
    else if (cause != NULL)
        str_copy_cut(dst, cap, cause);
    else if (view.failures > 0)
        describe_breaker(e, &view, dst, cap);
    else if (!engine_profile_trouble(e, profile, dst, cap))
        str_copy_cut(dst, cap, "a box is being made");
}
