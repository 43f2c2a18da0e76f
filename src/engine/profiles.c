/* profiles.c - from the configuration to the pool's view of it: profiles, and one backend object
 * for all profiles that share one. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"
#include "engine/hibernate.h"
#include "engine/internal.h"
#include "engine/snapshots.h"

int profiles_find_backend(const struct engine *e, const char *key)
{
    for (unsigned i = 0; i < e->backend_count; i++)
        if (strcmp(e->backends[i].key, key) == 0)
            return (int) i;
    return -1;
}

static void on_died(void *ctx, uint64_t box_id, const char *reason)
{
    struct engine_backend *b = ctx;
    struct pool_event ev = {.kind = POOL_EV_DIED, .box = {box_id}};

    log_warn("box.died", LF_HEX("box", box_id), LF_STR("reason", reason));
    engine_post(b->engine, &ev);
}

static void on_alone(void *ctx, uint64_t box_id, enum backend_death death)
{
    static const struct {
        enum pool_event_kind kind;
        const char *reason;
    } ends[] = {
        [BACKEND_DEATH_PLAIN] = {POOL_EV_DIED, "it has ended"},
        [BACKEND_DEATH_NETLESS] = {POOL_EV_NETLESS, "what serves its network has ended"},
        [BACKEND_DEATH_UNGUARDED] = {POOL_EV_UNGUARDED, "the guard of its sockets has ended"},
        [BACKEND_DEATH_KERNEL_MEMORY] = {POOL_EV_KERNEL_MEMORY,
                                         "it held too much of the kernel's memory"},
    };
    struct engine_backend *b = ctx;
    struct pool_event ev = {.kind = ends[death].kind, .box = {box_id}};

    log_warn("box.died", LF_HEX("box", box_id), LF_STR("reason", ends[death].reason));
    engine_post(b->engine, &ev);
}

static void on_resync(void *ctx)
{
    struct engine_backend *b = ctx;

    reconcile_backend(b->engine, (unsigned) (b - b->engine->backends));
}

/* For those who wait for it. */
static void describe_image(struct engine_backend *b, const struct backend_notice *n)
{
    char done[64] = "";

    if (n->total_bytes > 0)
        (void) snprintf(done, sizeof(done), ", %llu of %llu MB",
                        (unsigned long long) (n->done_bytes / 1000000),
                        (unsigned long long) (n->total_bytes / 1000000));
    (void) snprintf(b->progress, sizeof(b->progress), "the image %.80s: %.60s%s",
                    n->image != NULL ? n->image : "",
                    str_is_empty(n->text) ? "being fetched" : n->text, done);
}

static void on_notice(void *ctx, const struct backend_notice *n)
{
    struct engine_backend *b = ctx;
    struct box_id id = {n->box_id};
    const struct pool_box *box = n->box_id != 0 ? pool_find_box(b->engine->pool, id) : NULL;

    if ((n->kind == BACKEND_BOX_PAUSED || n->kind == BACKEND_BOX_RESUMED) && box != NULL &&
        box->is_paused)
        return; /* of our own doing, or late */
    event_notice(b->engine, b->key, box, n);
    if (n->kind == BACKEND_IMAGE_PULLING)
        describe_image(b, n);
    else if (n->kind == BACKEND_IMAGE_PULLED || n->kind == BACKEND_IMAGE_FAILED)
        b->progress[0] = '\0';
    /* It does not answer, so nobody may get it; whoever holds one keeps it. */
    if (n->kind == BACKEND_BOX_PAUSED && box != NULL && str_is_empty(box->sandbox_id) &&
        (box->state == POOL_BLANK || box->state == POOL_STARTING))
        on_died(ctx, n->box_id, "it was paused before anybody had it");
}

static int open_backend(struct engine *e, const struct config_profile *profile, const char *key,
                        struct err *err)
{
    const struct backend_ops *ops = backend_by_name(profile->backend);
    struct engine_backend *b = &e->backends[e->backend_count];
    struct backend_env env = {.loop = e->loop,
                              .http = e->http,
                              .instance = e->instance,
                              .state_dir = e->config->config->state_dir,
                              .config = e->config->config,
                              .events = &b->events};
    int r;

    if (ops == NULL)
        return err_set(err, SP_CONFIG, "profile '%s': there is no backend '%s'", profile->name,
                       profile->backend);
    if (e->backend_count == ENGINE_BACKENDS_MAX)
        return err_set(err, SP_CONFIG, "more than %d different backends", ENGINE_BACKENDS_MAX);
    b->engine = e;
    b->events = (struct backend_events){.ctx = b,
                                        .on_died = on_died,
                                        .on_alone = on_alone,
                                        .on_resync = on_resync,
                                        .on_notice = on_notice,
                                        .on_snapshot = snapshots_on_changed,
                                        .on_remains = remains_wanted,
                                        .on_kept = remains_kept};
    str_copy_cut(b->key, sizeof(b->key), key);
    r = ops->open(&env, profile, &b->backend, err);
    if (r != SP_OK)
        return err_wrap(err, "profile '%s'", profile->name);
    b->ops = b->backend->ops;
    b->is_elsewhere = b->backend->is_elsewhere;
    e->backend_count++;
    return SP_OK;
}

int profiles_open_backends(struct engine *e, const struct config *config, struct err *err)
{
    for (unsigned i = 0; i < config->profile_count; i++) {
        char key[sizeof(e->backends[0].key)];
        int r;

        backend_key(&config->profiles[i], key, sizeof(key));
        if (profiles_find_backend(e, key) >= 0)
            continue;
        r = open_backend(e, &config->profiles[i], key, err);
        if (r != SP_OK)
            return r;
    }
    return templates_check_support(e, config, err);
}

int profiles_open_at(struct engine *e, const char *key, struct err *err)
{
    struct config_profile *profile = xcalloc(1, sizeof(*profile));
    char again[sizeof(e->backends[0].key)];
    int r = SP_OK;

    if (!config_profile_at(key, profile) || backend_by_name(profile->backend) == NULL)
        r = err_set(err, SP_CONFIG, "there is no such backend");
    if (r == SP_OK) {
        str_copy_cut(profile->name, sizeof(profile->name), "(none)");
        backend_key(profile, again, sizeof(again));
        r = strcmp(again, key) == 0 ? open_backend(e, profile, key, err)
                                    : err_set(err, SP_CONFIG, "the address has another form now");
    }
    free(profile);
    return r;
}

void profiles_prepare(struct engine *e)
{
    const struct config *config = e->config->config;

    for (unsigned i = 0; i < config->profile_count; i++) {
        char key[sizeof(e->backends[0].key)];
        struct backend *backend;

        backend_key(&config->profiles[i], key, sizeof(key));
        backend = e->backends[profiles_find_backend(e, key)].backend;
        if (backend->ops->prepare != NULL)
            backend->ops->prepare(backend, &config->profiles[i]);
    }
}

static unsigned boxes_of(const struct pool_profile_view *view)
{
    unsigned count = 0;

    for (int i = 0; i < POOL_STATE_COUNT; i++)
        count += view->by_state[i];
    return count;
}

int profiles_check(struct engine *e, const struct config *config, struct err *err)
{
    unsigned places = config->profile_count;
    struct pool_stats stats;

    pool_get_stats(e->pool, &stats);
    for (unsigned i = 0; i < stats.profile_count; i++) {
        char key[sizeof(e->backends[0].key)];
        const struct config_profile *profile;
        struct pool_profile_view view;
        const char *old_key;

        pool_get_profile(e->pool, rt_now(e->rt), i, &view);
        if (boxes_of(&view) == 0)
            continue;
        profile = config_find_profile(config, view.profile->name);
        if (profile == NULL) {
            places++;
            continue;
        }
        backend_key(profile, key, sizeof(key));
        old_key = e->backends[view.profile->backend].key;
        if (strcmp(key, old_key) != 0)
            return err_set(err, SP_CONFIG,
                           "profile '%s' has %u boxes on '%s' and cannot move to '%s': give the "
                           "profile on the new backend another name",
                           profile->name, boxes_of(&view), old_key, key);
    }
    if (places > POOL_PROFILES_MAX)
        return err_set(err, SP_CONFIG,
                       "%u profiles, with those that were removed and still have boxes: at most %d",
                       places, POOL_PROFILES_MAX);
    return SP_OK;
}

/* Only of backends that the configuration still names: acquires do not need the others. */
const char *engine_backend_trouble(const struct engine *e)
{
    const struct config *config = e->config->config;

    for (unsigned i = 0; i < config->profile_count; i++) {
        char key[sizeof(e->backends[0].key)];
        int backend;

        backend_key(&config->profiles[i], key, sizeof(key));
        backend = profiles_find_backend(e, key);
        if (backend >= 0 && e->backends[backend].trouble[0] != '\0')
            return e->backends[backend].trouble;
    }
    return NULL;
}

static enum pool_drift drift_of(const struct config_profile *p, const struct backend_ops *ops)
{
    static const enum pool_drift drifts[CONFIG_DRIFT_COUNT] = {
        [CONFIG_DRIFT_KEEP] = POOL_DRIFT_KEEP,
        [CONFIG_DRIFT_DESTROY] = POOL_DRIFT_DESTROY,
        [CONFIG_DRIFT_REBASE] = POOL_DRIFT_REBASE};

    return p->on_drift == CONFIG_DRIFT_REBASE && ops->capture == NULL ? POOL_DRIFT_KEEP
                                                                      : drifts[p->on_drift];
}

static void fill_profile(struct engine *e, const struct config_profile *from,
                         struct pool_profile *to)
{
    char key[sizeof(e->backends[0].key)];
    const struct backend_ops *ops;
    bool want_hibernate;
    int backend;

    backend_key(from, key, sizeof(key));
    backend = profiles_find_backend(e, key);
    assert(backend >= 0);
    ops = e->backends[backend].ops;
    want_hibernate = from->park == CONFIG_PARK_SNAPSHOT && ops->capture != NULL;
    *to = (struct pool_profile){
        .spec_hash = config_spec_hash(from),
        .backend = (unsigned) backend,
        .want_discover = from->discover && ops->can_discover,
        .is_watched = ops->is_watched,
        .can_bind = ops->can_bind,
        .is_elsewhere = !ops->is_local,
        .warm_min = from->personal ? 0 : (unsigned) from->warm.min,
        .warm_max = from->personal ? 0 : (unsigned) from->warm.max,
        .create_max = (unsigned) config_create_concurrency(from),
        .create_timeout_ns = from->create.timeout_s * NS_PER_S,
        .ready_timeout_ns = from->ready_timeout_s * NS_PER_S,
        .destroy_timeout_ns = from->destroy_timeout_s * NS_PER_S,
        .ttl_ns = from->ttl_s * NS_PER_S,
        .ttl_max_ns = from->ttl_max_s * NS_PER_S,
        .idle_ns = from->idle_timeout_s * NS_PER_S,
        .park_ns = want_hibernate ? MAX_OF(from->park_timeout_s * NS_PER_S, (uint64_t) 1)
                                  : from->park_timeout_s * NS_PER_S,
        .want_freeze = from->park == CONFIG_PARK_FREEZE && ops->freeze != NULL,
        .want_hibernate = want_hibernate,
        .drift = drift_of(from, ops),
        .is_durable = from->durable,
        .max_age_ns = from->max_age_s * NS_PER_S,
        .shrink_ns = from->warm.shrink_after_s * NS_PER_S,
        .check_after_ns = from->check_after_s * NS_PER_S,
        .blank_check_ns = from->warm.check_s * NS_PER_S,
        .backoff_min_ns = from->create.backoff_min_ms * NS_PER_MS,
        .backoff_max_ns = from->create.backoff_max_ms * NS_PER_MS,
        .breaker_after = (unsigned) from->create.breaker_failures,
    };
    str_copy_cut(to->name, sizeof(to->name), from->name);
}

/* 128 bits that nobody can guess: the bearer token of one box. */
static void make_token(void *ctx UNUSED, char *dst)
{
    unsigned char bytes[16];

    rand_secure(bytes, sizeof(bytes));
    str_hex(dst, bytes, sizeof(bytes));
}

static void fill_quotas(const struct config *config, struct pool_config *ret)
{
    struct pool_quota *caller = &ret->quotas[POOL_LEVEL_CALLER];
    struct pool_quota *user = &ret->quotas[POOL_LEVEL_USER];

    ret->has_quotas = config->quotas.enabled;
    caller->boxes = (unsigned) config->quotas.caller_boxes;
    caller->waiting = (unsigned) config->quotas.caller_waiting;
    caller->per_minute = (unsigned) config->quotas.caller_per_minute;
    user->boxes = (unsigned) config->quotas.user_boxes;
    user->waiting = (unsigned) config->quotas.user_waiting;
    user->per_minute = (unsigned) config->quotas.user_per_minute;
}

void profiles_fill(struct engine *e, const struct config *config, struct pool_config *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->max_boxes = (unsigned) config->pool.max_boxes;
    ret->max_waiters = (unsigned) config->pool.max_waiters;
    ret->share_percent = (unsigned) config->pool.share_percent;
    fill_quotas(config, ret);
    ret->make_token = make_token;
    rand_secure(&ret->seed, sizeof(ret->seed));
    ret->profile_count = config->profile_count;
    e->has_rebase = false;
    for (unsigned i = 0; i < config->profile_count; i++) {
        fill_profile(e, &config->profiles[i], &ret->profiles[i]);
        e->has_rebase = e->has_rebase || ret->profiles[i].drift == POOL_DRIFT_REBASE;
    }
}

struct engine_backend *profiles_backend(struct engine *e, unsigned profile)
{
    return &e->backends[pool_profile(e->pool, profile)->backend];
}

const char *profiles_name(struct engine *e, unsigned profile)
{
    return pool_profile(e->pool, profile)->name;
}

const struct config_profile *profiles_of_box(struct engine *e, const struct pool_box *box)
{
    if (pool_profile(e->pool, box->profile)->backend != box->backend)
        return NULL;
    return profiles_config(e, box->profile);
}

const struct config_profile *profiles_config(struct engine *e, unsigned profile)
{
    return config_find_profile(e->config->config, profiles_name(e, profile));
}

bool profiles_want_power(const struct engine *e, const struct pool_box *box)
{
    const struct engine_backend *backend = &e->backends[box->backend];

    switch (e->config->config->store.durability) {
    case CONFIG_DURABILITY_PROCESS:
        return false;
    case CONFIG_DURABILITY_POWER:
        return true;
    case CONFIG_DURABILITY_AUTO:
    case CONFIG_DURABILITY_COUNT:
        break;
    }
    /* A local box dies with its machine, so its row need not outlive a power cut, unless its files do. */
    return !backend->ops->is_local || backend->is_elsewhere ||
           pool_profile(e->pool, box->profile)->is_durable;
}

const struct config_profile *engine_profile(struct engine *e, unsigned profile)
{
    return profiles_config(e, profile);
}
