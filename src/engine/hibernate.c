/* hibernate.c - a box whose time is over becomes a snapshot, and its thread's next acquire is given a box that is made
 * from it. At any moment the files are in the box, or in the snapshot, or in both: then the box counts. So the
 * snapshot is whole before the box is doomed, and it is deleted after the lease of the next box was committed. */
#include "engine/hibernate.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

#define GONE_PROFILE_S (30ULL * 24 * 3600) /* the same as the default of hibernate_max_s */
#define LOOK_MS (3600ULL * 1000)           /* the wall clock may be set */
#define RETRY_DROP_MS (60ULL * 1000)

static bool is_sandbox(const struct map_node *node, const void *key)
{
    const struct engine_snapshot *s = container_of(node, struct engine_snapshot, by_sandbox);

    return strcmp(s->info.sandbox_id, key) == 0;
}

static struct engine_snapshot *find_any(const struct engine *e, const char *sandbox_id)
{
    const struct map *m = &e->hibernate.by_sandbox;
    struct map_node *n =
        m->len > 0 ? map_find(m, hash_str(sandbox_id), is_sandbox, sandbox_id) : NULL;

    return n != NULL ? container_of(n, struct engine_snapshot, by_sandbox) : NULL;
}

struct engine_snapshot *engine_hibernated_find(const struct engine *e, const char *sandbox_id)
{
    struct engine_snapshot *s = find_any(e, sandbox_id);

    return s != NULL && !s->is_leaving && !s->is_over ? s : NULL;
}

void hibernate_put_times(const struct engine *e, struct snapshot *s)
{
    const struct engine_snapshot *known = find_any(e, s->sandbox_id);

    s->created_ms = (uint64_t) rt_wall_at(e->rt, rt_now(e->rt));
    s->made_ms = rt_stored_at(e->rt, rt_now(e->rt));
    if (known == NULL)
        return;
    s->created_ms = MAX_OF(s->created_ms, known->info.created_ms + 1);
    s->made_ms = MAX_OF(s->made_ms, known->info.made_ms + 1);
}

size_t engine_hibernated_count(const struct engine *e)
{
    return e->hibernate.by_sandbox.len;
}

const struct engine_snapshot *engine_hibernated_next(const struct engine *e,
                                                     const struct engine_snapshot *s)
{
    const struct list *l = &e->hibernate.list;
    struct list_node *n = s != NULL ? list_next(l, &s->hibernated_link) : list_first(l);

    return n != NULL ? container_of(n, struct engine_snapshot, hibernated_link) : NULL;
}

static void on_dropped(void *ctx UNUSED, int code, const char *reason)
{
    if (code != SP_OK)
        log_warn("hibernate.not_deleted", LF_STR("reason", reason));
}

static void arm(struct engine *e);

/* From now on nobody gets it, also when it cannot be deleted: then that is tried again. */
void hibernate_drop(struct engine *e, struct engine_snapshot *s)
{
    uint64_t now_ms = (uint64_t) rt_wall_at(e->rt, rt_now(e->rt));

    s->is_over = true;
    share_remove(e, s);
    heap_set(&e->hibernate.expiries, &s->expiry, now_ms + RETRY_DROP_MS);
    if (!s->is_leaving && !e->is_closing)
        engine_snapshot_drop(e, s, on_dropped, NULL);
    arm(e);
}

/* --- how long they are kept --- */

static uint64_t expiry_of(struct engine *e, const struct engine_snapshot *s)
{
    int profile = pool_profile_index(e->pool, s->info.profile);
    const struct config_profile *c = profile >= 0 ? profiles_config(e, (unsigned) profile) : NULL;
    uint64_t max_s = c != NULL ? c->hibernate_max_s : GONE_PROFILE_S;

    uint64_t until_ms = s->info.until_ms != 0 ? s->info.until_ms : UINT64_MAX;

    return max_s == 0 ? until_ms : MIN_OF(until_ms, s->info.created_ms + max_s * 1000);
}

static void on_timer(struct rt_timer *timer)
{
    struct engine *e = container_of(timer, struct engine, hibernate.timer);
    uint64_t now_ms = (uint64_t) rt_wall_at(e->rt, rt_now(e->rt));
    struct heap_node *n = heap_top(&e->hibernate.expiries);

    for (; n != NULL && n->key <= now_ms; n = heap_top(&e->hibernate.expiries)) {
        struct engine_snapshot *s = container_of(n, struct engine_snapshot, expiry);

        if (!s->is_over)
            log_info("hibernate.expired", LF_STR("sandbox_id", s->info.sandbox_id),
                     LF_HEX("snapshot", s->info.id));
        hibernate_drop(e, s); /* and is ranked behind */
    }
    arm(e);
}

static void arm(struct engine *e)
{
    const struct heap_node *n = heap_top(&e->hibernate.expiries);
    uint64_t now_ms = (uint64_t) rt_wall_at(e->rt, rt_now(e->rt));
    uint64_t in_ms;

    if (!e->is_recovered || e->is_closing)
        return;
    if (n == NULL) {
        rt_timer_cancel(e->rt, &e->hibernate.timer);
        return;
    }
    in_ms = n->key > now_ms ? MIN_OF(n->key - now_ms, (uint64_t) LOOK_MS) : 0;
    rt_timer_set(e->rt, &e->hibernate.timer, rt_after(rt_now(e->rt), in_ms * NS_PER_MS), on_timer);
}

void hibernate_rank(struct engine *e)
{
    for (struct list_node *n = list_first(&e->hibernate.list); n != NULL;
         n = list_next(&e->hibernate.list, n)) {
        struct engine_snapshot *s = container_of(n, struct engine_snapshot, hibernated_link);

        if (!s->is_over)
            heap_set(&e->hibernate.expiries, &s->expiry, expiry_of(e, s));
    }
    arm(e);
}

/* --- which there are --- */

/* The wall clock may have been set back since an older one was made. */
static bool is_newer(const struct engine_snapshot *a, const struct engine_snapshot *b)
{
    if (a->info.generation != b->info.generation)
        return a->info.generation > b->info.generation;
    if (a->is_found != b->is_found)
        return b->is_found; /* made by this process: of a box that there was still */
    if (a->info.made_ms != b->info.made_ms && a->info.made_ms != 0 && b->info.made_ms != 0)
        return a->info.made_ms > b->info.made_ms;
    return a->info.created_ms >= b->info.created_ms;
}

/* While it was made its box was given to the thread, or another box was bound to the id: what is in it is outdated, and the
 * other one may have variables that nobody has yet. */
static bool is_late(struct engine *e, const struct snapshot *s)
{
    const struct pool_box *b = pool_find_sandbox(e->pool, s->sandbox_id);

    return fx_hibernate_was_leased(e, s->id) || (b != NULL && b->id.v != s->box_id);
}

/* Two of one id: a crash, or its owner was faster than the end of the box. Before all boxes are known none is deleted. */
void hibernate_added(struct engine *e, struct engine_snapshot *s)
{
    struct engine_snapshot *other = find_any(e, s->info.sandbox_id);
    bool is_older = other != NULL && (is_newer(other, s) ||
                                      (!s->is_found && !other->is_over && is_late(e, &s->info)));
    struct engine_snapshot *old = is_older ? s : other;

    list_push_back(&e->hibernate.list, &s->hibernated_link);
    heap_set(&e->hibernate.expiries, &s->expiry, expiry_of(e, s));
    if (old != s) {
        if (old != NULL)
            map_remove(&e->hibernate.by_sandbox, &old->by_sandbox);
        map_insert(&e->hibernate.by_sandbox, &s->by_sandbox, hash_str(s->info.sandbox_id));
    }
    share_add(e, s);
    if (old != NULL && e->is_recovered)
        hibernate_drop(e, old);
    if (!s->is_found && !s->is_over && e->is_recovered)
        share_settle(e, s);
    arm(e);
}

void hibernate_forgotten(struct engine *e, struct engine_snapshot *s)
{
    map_remove(&e->hibernate.by_sandbox, &s->by_sandbox);
    heap_remove(&e->hibernate.expiries, &s->expiry);
    share_remove(e, s);
    list_remove(&e->hibernate.list, &s->hibernated_link);
}

void hibernate_init(struct engine *e, const struct config *config)
{
    map_init(&e->hibernate.by_sandbox, config->snapshots.hibernated_max);
    heap_init(&e->hibernate.expiries, 0);
    list_init(&e->hibernate.list);
    list_init(&e->hibernate.running);
    map_init(&e->hibernate.sleepers, 64);
}

void hibernate_fini(struct engine *e)
{
    map_fini(&e->hibernate.by_sandbox);
    heap_fini(&e->hibernate.expiries);
    share_fini(e);
}

/* Its owner, or an operator, has destroyed the box it was made of, or one that came after. */
bool hibernate_is_unwanted(const struct engine *e, const struct snapshot *s)
{
    uint64_t generation = 0;
    enum pool_end end = pool_find_past(e->pool, s->sandbox_id, &generation, NULL);

    return (end == POOL_END_DESTROYED || end == POOL_END_RELEASED) && generation >= s->generation;
}

static bool is_made_from(struct engine *e, const struct pool_box *b, const struct snapshot *s)
{
    unsigned late = special_late_of(e->backends[b->backend].ops, profiles_of_box(e, b));
    const struct engine_note *note = note_find(e, b->id);
    struct backend_extras extras = {0};
    char hex[17];

    if (note != NULL && note->restored_from == s->id)
        return true;
    str_hex64(hex, s->id);
    extras.snapshot = hex;
    return backend_extras_hash(&extras, ~late) ==
           b->made_with; /* of an earlier life of the daemon */
}

/* The files of `s` are in the box, or were. */
static bool has_files_of(struct engine *e, const struct pool_box *b, const struct snapshot *s)
{
    return b->id.v == s->box_id || is_made_from(e, b, s);
}

/* Its variables were given to the box by nobody yet, as far as is known. */
static bool is_unequipped(struct engine *e, const struct pool_box *b,
                          const struct engine_snapshot *s)
{
    if (s->envs == NULL)
        return false;
    return b->id.v == s->info.box_id ? s->was_unequipped : is_made_from(e, b, &s->info);
}

/* A leased box that is neither the one it was made of nor made from it was given to the thread before the backend could list its
 * snapshots. */
static bool is_over(struct engine *e, const struct engine_snapshot *s)
{
    const struct pool_box *b = pool_find_sandbox(e->pool, s->info.sandbox_id);

    if (!s->by_sandbox.is_linked)
        return true;
    if (b != NULL)
        return b->state == POOL_LEASED && !b->is_unseen && has_files_of(e, b, &s->info) &&
               !is_unequipped(e, b, s);
    return hibernate_is_unwanted(e, &s->info);
}

void hibernate_sweep(struct engine *e)
{
    for (struct list_node *n = list_first(&e->hibernate.list); n != NULL;
         n = list_next(&e->hibernate.list, n)) {
        struct engine_snapshot *s = container_of(n, struct engine_snapshot, hibernated_link);

        if (s->is_found && is_over(e, s))
            hibernate_drop(e, s);
    }
    arm(e);
}

void hibernate_event(struct engine *e, const struct pool_fx *fx)
{
    enum pool_fact fact = fx->u.event.fact;
    enum pool_end end = fx->u.event.end;
    bool is_end =
        fact == POOL_FACT_DOOMED &&
        (end == POOL_END_DESTROYED || (end == POOL_END_RELEASED && fx->snapshot.leased_ns != 0));
    struct engine_snapshot *s =
        fact == POOL_FACT_LEASED || is_end ? find_any(e, fx->snapshot.sandbox_id) : NULL;

    if (fact == POOL_FACT_LEASED)
        fx_hibernate_leased(e, fx->snapshot.sandbox_id);
    if (s == NULL ||
        (fact == POOL_FACT_LEASED &&
         (!has_files_of(e, &fx->snapshot, &s->info) || is_unequipped(e, &fx->snapshot, s))) ||
        (is_end && s->info.generation > fx->snapshot.generation))
        return;
    FAULT_POINT("hibernate.before_drop");
    hibernate_drop(e, s);
}

void hibernate_equipped(struct engine *e, const struct pool_box *box)
{
    const struct pool_box *bound = pool_find_sandbox(e->pool, box->sandbox_id);
    struct engine_snapshot *s = find_any(e, box->sandbox_id);

    if (bound == NULL || bound->id.v != box->id.v) /* it became one meanwhile, or ended */
        return;
    if (s == NULL || s->is_over || !is_unequipped(e, box, s))
        return;
    FAULT_POINT("hibernate.before_drop");
    hibernate_drop(e, s);
}

const struct engine_snapshot *hibernate_source(struct engine *e, const struct pool_box *box)
{
    const struct engine_snapshot *s = engine_hibernated_find(e, box->sandbox_id);
    bool is_source = s != NULL && (box->id.v == s->info.box_id ? s->was_unequipped
                                                               : is_made_from(e, box, &s->info));

    return is_source ? s : NULL;
}

bool hibernate_wants_envs(struct engine *e, const struct pool_box *box)
{
    const struct engine_snapshot *s = engine_hibernated_find(e, box->sandbox_id);
    unsigned late = special_late_of(e->backends[box->backend].ops, profiles_of_box(e, box));

    return s != NULL && is_unequipped(e, box, s) && (late & BACKEND_LATE_ENVS) != 0;
}

struct backend_extras *hibernate_add_envs(struct engine *e, const struct pool_box *box,
                                          struct backend_extras *extras)
{
    const struct engine_snapshot *s = engine_hibernated_find(e, box->sandbox_id);
    struct backend_extras all = *extras;
    struct backend_extras *made;

    if (s == NULL || !hibernate_wants_envs(e, box))
        return extras;
    FAULT_POINT("hibernate.before_envs");
    all.envs = s->envs->envs;
    all.env_count = s->envs->env_count;
    made = backend_extras_copy(&all);
    free(extras);
    return made;
}

/* --- a box becomes one --- */

/* Of a lease that has been granted since, the files change again. While one is being committed it is kept. */
void hibernate_captured(struct engine *e, const struct snapshot *made, bool was_leased)
{
    struct engine_snapshot *s = engine_snapshot_find(e, made->id);
    bool has_box = pool_find_sandbox(e->pool, made->sandbox_id) != NULL;

    if (s != NULL && (was_leased || (!has_box && hibernate_is_unwanted(e, made))))
        hibernate_drop(e, s);
}
