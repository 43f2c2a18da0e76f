/* load.c - what the store remembers becomes the pool: rows of boxes, ended leases, the pool's
 * mode, the instance's name, the newest events. Runs before the loop. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

/* Rows are kept until all are read: a profile that only rows know must be in the pool's
 * configuration before the first box is. */
struct loaded_box {
    struct pool_box box;
    char profile[POOL_NAME_MAX + 1];
    char *backend; /* its key */
    char *metadata;
    uint64_t metered_ms; /* 0: its time is not metered */
    struct store_price price;
    char currency[CONFIG_CURRENCY_MAX + 1]; /* of it */
    struct store_used used;                 /* of one that is being deleted */
    bool is_cut;                            /* something in its row is too long to be ours */
};

/* A box that is gone, kept until its backend is open. */
struct loaded_gone {
    char *backend;
    char *ref;
    char *life;
    uint64_t ago_ns;
};

struct loader {
    struct engine *engine;
    struct loaded_box *boxes;
    size_t count;
    size_t cap;
    char *modes; /* see modes_text(); NULL: none stored */
    uint64_t generation_floor;
    bool was_clean;
    bool is_rebooted; /* the machine has started since the daemon ran last */
    struct store_past *past;
    size_t past_count;
    size_t past_cap;
    struct loaded_gone *gone;
    size_t gone_count;
    size_t gone_cap;
};

static enum pool_state state_of_row(const char *name)
{
    static const struct {
        const char *name;
        enum pool_state state;
    } states[] = {{"intent", POOL_INTENT},
                  {"starting", POOL_STARTING},
                  {"blank", POOL_BLANK},
                  {"leased", POOL_LEASED},
                  {"parked", POOL_PARKED}};

    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (strcmp(states[i].name, name) == 0)
            return states[i].state;
    return POOL_DOOMED; /* "deleting", and whatever a row should not say */
}

static enum pool_end end_of_name(const char *name)
{
    for (int i = 0; i < POOL_END_COUNT; i++)
        if (strcmp(pool_end_name((enum pool_end) i), name) == 0)
            return (enum pool_end) i;
    return POOL_END_NONE;
}

static uint64_t mono_or(const struct rt *rt, uint64_t stored_ms, uint64_t none)
{
    return stored_ms == 0 ? none : rt_mono_of_stored(rt, stored_ms);
}

static bool on_box(void *ctx, const struct store_box *row)
{
    struct loader *l = ctx;
    const struct rt *rt = l->engine->rt;
    struct loaded_box *to;
    struct pool_box *b;

    if (l->count == l->cap) {
        l->cap = l->cap > 0 ? l->cap * 2 : 64;
        l->boxes = xrealloc(l->boxes, l->cap * sizeof(*l->boxes));
    }
    to = &l->boxes[l->count];
    l->count++;
    memset(to, 0, sizeof(*to));
    b = &to->box;
    b->id.v = row->id;
    b->state = state_of_row(row->state);
    b->spec_hash = row->spec_hash;
    b->principal = row->principal;
    b->generation = row->generation;
    b->made_with = row->made_with;
    b->is_stale = row->is_stale;
    b->is_paused = row->is_paused;
    b->created_ns = mono_or(rt, row->created_ms, 0);
    b->ready_ns = mono_or(rt, row->ready_ms, 0);
    b->leased_ns = mono_or(rt, row->leased_ms, 0);
    b->parked_ns = mono_or(rt, row->parked_ms, 0);
    b->active_ns = mono_or(rt, row->active_ms, 0);
    b->expires_ns = mono_or(rt, row->expires_ms, POOL_NEVER);
    b->idle_ns = row->idle_limit_ms == 0 ? POOL_NEVER : row->idle_limit_ms * NS_PER_MS;
    b->end = end_of_name(row->end);
    to->is_cut = !str_copy(b->sandbox_id, sizeof(b->sandbox_id), row->sandbox_id) ||
                 !str_copy(b->user, sizeof(b->user), row->user) ||
                 !str_copy(b->thread, sizeof(b->thread), row->thread) ||
                 !str_copy(b->url, sizeof(b->url), row->url) ||
                 !str_copy(b->token, sizeof(b->token), row->token) ||
                 !str_copy(b->ref, sizeof(b->ref), row->ref) ||
                 !str_copy(b->life, sizeof(b->life), row->life) ||
                 !str_copy(to->profile, sizeof(to->profile), row->profile);
    to->metered_ms = row->true_ms;
    to->price = row->price;
    str_copy_cut(to->currency, sizeof(to->currency), row->price.currency);
    if (b->state == POOL_DOOMED && row->used != NULL)
        to->used = *row->used;
    /* The daemon ran at least until the last row was written. */
    l->engine->usage.watched_ms = MAX_OF(
        l->engine->usage.watched_ms, MAX_OF(row->true_ms, MAX_OF(row->leased_ms, row->parked_ms)));
    to->backend = xstrdup(row->backend);
    to->metadata = str_is_empty(row->meta) ? NULL : xstrdup(row->meta);
    return true;
}

static bool on_past(void *ctx, const struct store_past *past)
{
    struct loader *l = ctx;

    if (l->past_count == l->past_cap) {
        l->past_cap = l->past_cap > 0 ? l->past_cap * 2 : 64;
        l->past = xrealloc(l->past, l->past_cap * sizeof(*l->past));
    }
    l->past[l->past_count] = *past;
    l->past[l->past_count].sandbox_id = xstrdup(past->sandbox_id);
    l->past[l->past_count].end = pool_end_name(end_of_name(past->end)); /* static text */
    l->past_count++;
    return true;
}

static bool on_gone(void *ctx, const struct store_gone *gone)
{
    struct loader *l = ctx;
    uint64_t now_ms = rt_stored_at(l->engine->rt, rt_now(l->engine->rt));
    uint64_t ago_ms = now_ms - MIN_OF(gone->gone_ms, now_ms); /* the clock may have been set back */

    if (l->gone_count == l->gone_cap) {
        l->gone_cap = l->gone_cap > 0 ? l->gone_cap * 2 : 64;
        l->gone = xrealloc(l->gone, l->gone_cap * sizeof(*l->gone));
    }
    l->gone[l->gone_count] = (struct loaded_gone){.backend = xstrdup(gone->backend),
                                                  .ref = xstrdup(gone->ref),
                                                  .life = xstrdup(gone->life),
                                                  .ago_ns = ago_ms * NS_PER_MS};
    l->gone_count++;
    return true;
}

static bool on_event(void *ctx, const struct store_event *ev)
{
    struct loader *l = ctx;

    journal_restore(&l->engine->journal, ev->id, ev->at_ms, ev->kind, ev->body, ev->principal);
    return true;
}

static bool on_meta(void *ctx, const char *key, const char *value)
{
    struct loader *l = ctx;

    if (strcmp(key, META_INSTANCE) == 0) {
        str_copy_cut(l->engine->instance, sizeof(l->engine->instance), value);
    } else if (strcmp(key, META_MODE) == 0) {
        free(l->modes);
        l->modes = xstrdup(value);
    } else if (strcmp(key, META_BOOT) ==
               0) { /* boxes of the machine end with it: they did not just die */
        l->is_rebooted =
            !str_is_empty(l->engine->boot_id) && strcmp(value, l->engine->boot_id) != 0;
    } else if (strcmp(key, META_CLOCK) == 0) {
        clock_restore(l->engine, value);
    } else if (strcmp(key, META_WATCHED) == 0) {
        return str_parse_u64(value, 0, INT64_MAX, &l->engine->usage.watched_ms);
    } else if (strcmp(key, META_CLEAN) == 0) {
        l->was_clean = strcmp(value, "1") == 0;
    } else if (strcmp(key, "generation_floor") == 0) {
        if (!str_parse_u64(value, 0, UINT64_MAX, &l->generation_floor))
            return false;
    }
    return true;
}

static bool on_token(void *ctx, const struct store_token *token)
{
    struct loader *l = ctx;

    return tokens_load(l->engine, token);
}

/* A box whose profile is gone from the configuration still needs one in the pool: retired. */
static unsigned profile_for(struct pool_config *pc, const struct loaded_box *row)
{
    struct pool_profile *profile;
    unsigned i = 0;

    while (i < pc->profile_count && strcmp(pc->profiles[i].name, row->profile) != 0)
        i++;
    if (i < pc->profile_count || i == POOL_PROFILES_MAX)
        return i;
    profile = &pc->profiles[i];
    *profile = pc->profiles[0];
    profile->is_retired = true;
    profile->warm_min = 0;
    profile->warm_max = 0;
    str_copy_cut(profile->name, sizeof(profile->name), row->profile);
    pc->profile_count++;
    return i;
}

/* A box stays with the backend that made it, also when its profile names another one by now, or none
 * names that backend. */
static int place_box(struct engine *e, struct pool_config *pc, struct loaded_box *row,
                     struct err *err)
{
    int backend = profiles_find_backend(e, row->backend);
    unsigned known = pc->profile_count;
    int r = SP_OK;

    if (backend < 0) {
        r = profiles_open_at(e, row->backend, err);
        if (r != SP_OK)
            return err_wrap(err,
                            "box %016llx is on backend '%s', which no profile names: give one "
                            "that does until the box has ended",
                            (unsigned long long) row->box.id.v, row->backend);
        backend = (int) e->backend_count - 1;
        log_warn("engine.backend_not_configured", LF_STR("backend", row->backend),
                 LF_STR("profile", row->profile));
    }
    row->box.backend = (unsigned) backend;
    row->box.profile = profile_for(pc, row);
    if (pc->profile_count > known) {
        const struct backend_ops *ops = e->backends[backend].ops;

        pc->profiles[known].backend = (unsigned) backend;
        pc->profiles[known].is_watched = ops->is_watched;
        pc->profiles[known].can_bind = ops->can_bind;
    }
    return SP_OK;
}

static int build_pool(struct loader *l, struct err *err)
{
    struct engine *e = l->engine;
    struct pool_config *pc = xcalloc(1, sizeof(*pc));
    const struct loaded_box *refused = NULL;

    profiles_fill(e, e->config->config, pc);
    for (size_t i = 0; i < l->count; i++) {
        int r = place_box(e, pc, &l->boxes[i], err);

        if (r != SP_OK) {
            free(pc);
            return r;
        }
    }
    /* A cap that was lowered below what runs must not lose what runs. */
    if (pc->max_boxes < l->count)
        pc->restore_max = (unsigned) l->count;
    e->pool = pool_new(pc);
    free(pc);
    usage_take_prices(e);
    if (l->modes != NULL)
        modes_restore(e, l->modes);
    pool_restore_floor(e->pool, l->generation_floor);
    for (size_t i = 0; i < l->past_count; i++)
        pool_restore_past(e->pool, l->past[i].sandbox_id, l->past[i].generation,
                          end_of_name(l->past[i].end), l->past[i].principal);
    for (size_t i = 0; i < l->count; i++) {
        const struct engine_backend *b = &e->backends[l->boxes[i].box.backend];

        l->boxes[i].price.currency = l->boxes[i].currency;
        if (l->boxes[i].metered_ms != 0 && l->boxes[i].box.profile < POOL_PROFILES_MAX)
            usage_loaded(e, l->boxes[i].box.profile, &l->boxes[i].price);
        l->boxes[i].box.is_rebooted = l->is_rebooted && b->ops->is_local && !b->is_elsewhere;
        if (l->boxes[i].is_cut || !pool_restore_box(e->pool, rt_now(e->rt), &l->boxes[i].box))
            refused = &l->boxes[i];
        else if (l->boxes[i].metadata != NULL)
            note_set_metadata(e, &l->boxes[i].box, l->boxes[i].metadata);
        if (refused == NULL && l->boxes[i].box.state == POOL_LEASED)
            holder_begin(e, &l->boxes[i].box);
        report_note_used(e, l->boxes[i].box.id, &l->boxes[i].used);
    }
    if (refused != NULL && refused->box.profile == POOL_PROFILES_MAX)
        return err_set(err, SP_CONFIG,
                       "profile '%s' is gone but still has boxes, and with it there are more than "
                       "%d: remove another one until they have ended",
                       refused->profile, POOL_PROFILES_MAX);
    if (refused != NULL)
        return err_set(err, SP_INTERNAL,
                       "the row of box %016llx in sandpool.db is malformed: remove it there, or "
                       "move the file away to start without the leases",
                       (unsigned long long) refused->box.id.v);
    return SP_OK;
}

/* One that neither a profile nor a box names any more makes no box, either. */
static void recall_gone(const struct loader *l)
{
    for (size_t i = 0; i < l->gone_count; i++) {
        const struct loaded_gone *g = &l->gone[i];
        int at = profiles_find_backend(l->engine, g->backend);
        struct backend *b = at >= 0 ? l->engine->backends[at].backend : NULL;

        if (b != NULL && b->ops->recall != NULL)
            b->ops->recall(b, g->ref, g->life, g->ago_ns);
    }
}

static void loader_fini(struct loader *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->boxes[i].backend);
        free(l->boxes[i].metadata);
    }
    for (size_t i = 0; i < l->past_count; i++)
        free((char *) (uintptr_t) l->past[i].sandbox_id);
    for (size_t i = 0; i < l->gone_count; i++) {
        free(l->gone[i].backend);
        free(l->gone[i].ref);
        free(l->gone[i].life);
    }
    free(l->modes);
    free(l->boxes);
    free(l->past);
    free(l->gone);
}

int load_store(struct engine *e, struct err *err)
{
    struct loader l = {.engine = e};
    struct store_reader reader = {.ctx = &l,
                                  .on_box = on_box,
                                  .on_past = on_past,
                                  .on_gone = on_gone,
                                  .on_event = on_event,
                                  .on_meta = on_meta,
                                  .on_token = on_token,
                                  .events_tail = ENGINE_EVENTS_TAIL};
    int r;

    clock_begin(e);
    r = store_load(e->store, &reader, err);

    if (r == SP_OK && l.is_rebooted)
        log_info("engine.machine_restarted", LF_U64("boxes", l.count));
    if (r == SP_OK && !l.was_clean)
        journal_skip(&e->journal);
    if (r == SP_OK && !store_is_fresh(e->store))
        log_warn(
            "store.not_fresh",
            LF_STR("effect", "it may be an older copy: boxes that have no owner are replaced"));
    if (r == SP_OK)
        r = instance_choose(e, l.count, err);
    if (r == SP_OK)
        r = profiles_open_backends(e, e->config->config, err);
    if (r == SP_OK)
        r = build_pool(&l, err);
    if (r == SP_OK)
        recall_gone(&l);
    loader_fini(&l);
    return r;
}
