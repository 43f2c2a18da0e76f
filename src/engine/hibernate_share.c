/* hibernate_share.c - how many sandboxes may be hibernated, of all callers and of each. A caller may have a part of what it has and what is
 * free together; beyond that its own oldest one goes when the next one is whole. Nobody loses one to somebody else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/hibernate.h"
#include "engine/internal.h"

enum {
    LOOK_MAX = 8, /* at so many of its oldest, for one that nobody is about to get */
    DROP_MAX = 2, /* after each new one: with a limit that was lowered they become fewer */
    SPARE = 16    /* that cannot be deleted, and a part of the limit */
};

struct sleeper {
    struct map_node node;
    uint64_t principal;
    struct list snapshots; /* the oldest first; one that is asked for goes to the end */
    uint64_t coming;       /* being made */
    uint64_t env_bytes;    /* variables of the snapshots, in memory */
};

static bool is_principal(const struct map_node *node, const void *key)
{
    return container_of(node, struct sleeper, node)->principal == *(const uint64_t *) key;
}

static struct sleeper *find(const struct engine *e, uint64_t principal)
{
    struct map_node *n =
        map_find(&e->hibernate.sleepers, hash_u64(principal), is_principal, &principal);

    return n != NULL ? container_of(n, struct sleeper, node) : NULL;
}

static struct sleeper *make(struct engine *e, uint64_t principal)
{
    struct sleeper *p = find(e, principal);

    if (p != NULL)
        return p;
    p = xcalloc(1, sizeof(*p));
    p->principal = principal;
    list_init(&p->snapshots);
    map_insert(&e->hibernate.sleepers, &p->node, hash_u64(principal));
    return p;
}

static void drop_empty(struct engine *e, struct sleeper *p)
{
    if (p->snapshots.len > 0 || p->coming > 0)
        return;
    map_remove(&e->hibernate.sleepers, &p->node);
    free(p);
}

uint64_t share_env_bytes(const struct backend_extras *envs)
{
    uint64_t bytes = envs != NULL ? sizeof(*envs) : 0;

    for (size_t i = 0; envs != NULL && i < envs->env_count; i++)
        bytes +=
            sizeof(envs->envs[i]) + strlen(envs->envs[i].name) + strlen(envs->envs[i].value) + 2;
    return bytes;
}

void share_add(struct engine *e, struct engine_snapshot *s)
{
    struct sleeper *p = make(e, s->info.principal);

    list_push_back(&p->snapshots, &s->share_link);
    e->hibernate.kept++;
    s->env_bytes = share_env_bytes(s->envs);
    p->env_bytes += s->env_bytes;
    e->hibernate.env_bytes += s->env_bytes;
}

void share_remove(struct engine *e, struct engine_snapshot *s)
{
    struct sleeper *p = find(e, s->info.principal);

    if (!list_is_linked(&s->share_link))
        return;
    list_remove(&p->snapshots, &s->share_link);
    e->hibernate.kept--;
    p->env_bytes -= s->env_bytes;
    e->hibernate.env_bytes -= s->env_bytes;
    drop_empty(e, p);
}

void share_touch(struct engine *e, struct engine_snapshot *s)
{
    if (!list_is_linked(&s->share_link))
        return;
    share_remove(e, s);
    share_add(e, s);
}

void share_begin(struct engine *e, uint64_t principal)
{
    make(e, principal)->coming++;
    e->hibernate.coming++;
}

void share_end(struct engine *e, uint64_t principal)
{
    struct sleeper *p = find(e, principal);

    assert(p != NULL && p->coming > 0 && e->hibernate.coming > 0);
    p->coming--;
    e->hibernate.coming--;
    drop_empty(e, p);
}

/* Whether one with `own` of `all` may have one more, as in the queue and for connections. */
static bool has_room_of(const struct engine *e, uint64_t own, uint64_t all, uint64_t max)
{
    uint64_t reach = own + (all < max ? max - all : 0);

    return own * 100 < reach * e->config->config->snapshots.hibernated_share_percent;
}

static bool has_room(const struct engine *e, uint64_t own, uint64_t all)
{
    return has_room_of(e, own, all, e->config->config->snapshots.hibernated_max);
}

bool share_holds_envs(const struct engine *e, uint64_t principal, uint64_t bytes)
{
    const struct sleeper *p = find(e, principal);
    uint64_t own = p != NULL ? p->env_bytes : 0;

    return has_room_of(e, own + bytes, e->hibernate.env_bytes + bytes,
                       e->config->config->snapshots.hibernated_envs);
}

/* Nobody waits for a box that is made from it. */
static bool is_idle(const struct engine *e, const struct engine_snapshot *s)
{
    return !s->is_leaving && !s->is_over &&
           pool_find_sandbox(e->pool, s->info.sandbox_id) == NULL &&
           !engine_is_pending(e, s->info.sandbox_id);
}

static struct engine_snapshot *oldest(const struct engine *e, const struct sleeper *p,
                                      const struct engine_snapshot *but)
{
    struct list_node *n = p != NULL ? list_first(&p->snapshots) : NULL;

    for (unsigned i = 0; n != NULL && i < LOOK_MAX; i++, n = list_next(&p->snapshots, n)) {
        struct engine_snapshot *s = container_of(n, struct engine_snapshot, share_link);

        if (s != but && is_idle(e, s))
            return s;
    }
    return NULL;
}

int share_check(const struct engine *e, uint64_t principal, struct err *err)
{
    const struct sleeper *p = find(e, principal);
    uint64_t max = e->config->config->snapshots.hibernated_max;
    uint64_t own = p != NULL ? p->snapshots.len + p->coming : 0;
    uint64_t all = e->hibernate.kept + e->hibernate.coming;
    bool is_stuck = e->hibernate.expiries.len + e->hibernate.coming >= max + max / 8 + SPARE;

    if (!is_stuck && (has_room(e, own, all) || oldest(e, p, NULL) != NULL))
        return SP_OK;
    return err_set(err, SP_TOO_MANY_SNAPSHOTS,
                   "there are %llu hibernated sandboxes, %llu of this caller; the limit is %llu "
                   "(snapshots.hibernated_max): destroy some, or raise it",
                   (unsigned long long) all, (unsigned long long) own, (unsigned long long) max);
}

void share_settle(struct engine *e, struct engine_snapshot *added)
{
    const struct sleeper *p = find(e, added->info.principal);

    for (unsigned i = 0; i < DROP_MAX && p != NULL && !e->is_closing; i++) {
        uint64_t own = p->snapshots.len + p->coming;
        uint64_t all = e->hibernate.kept + e->hibernate.coming;
        struct engine_snapshot *s;

        if (own == 0 || has_room(e, own - 1, all - 1))
            return;
        s = oldest(e, p, added);
        if (s == NULL)
            return;
        log_info("hibernate.over_share", LF_STR("sandbox_id", s->info.sandbox_id),
                 LF_HEX("snapshot", s->info.id), LF_U64("caller_has", own));
        pool_restore_past(e->pool, s->info.sandbox_id, s->info.generation, POOL_END_NOT_KEPT,
                          s->info.principal);
        event_not_kept(e, &s->info,
                       "its caller has more hibernated sandboxes than its share of "
                       "snapshots.hibernated_max, and this was the oldest of them");
        hibernate_drop(e, s); /* is in the list no more */
    }
}

void share_fini(struct engine *e)
{
    map_fini(&e->hibernate.sleepers); /* all snapshots are forgotten, so it is empty */
}
