/* snapshot_limits.c - how many snapshots there may be, of all callers and of each, and how long one that nobody uses is kept. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine/internal.h"
#include "engine/snapshot_side.h"
#include "engine/snapshots.h"

#define TOUCH_MS 60000 /* more uses in this time are not written down */
#define LOOK_MIN_MS ((uint64_t) 1000)
#define LOOK_MAX_MS ((uint64_t) 600000)
#define MB (1024 * 1024)

enum { EXPIRED_AT_ONCE = 64 }; /* the next ones a look later */

struct holder {
    struct map_node node;
    struct list_node link;
    struct list all;  /* what it has, */
    struct list kept; /* and what of that is not hibernated */
    struct engine_holding has;
    size_t coming;         /* being made */
    uint64_t coming_bytes; /* that these will take, where it is known before */
};

/* --- who has what --- */

static bool is_principal(const struct map_node *node, const void *key)
{
    return container_of(node, struct holder, node)->has.principal == *(const uint64_t *) key;
}

static struct holder *find(const struct engine *e, uint64_t principal)
{
    struct map_node *n = map_find(&e->holders, hash_u64(principal), is_principal, &principal);

    return n != NULL ? container_of(n, struct holder, node) : NULL;
}

static struct holder *make(struct engine *e, uint64_t principal)
{
    struct holder *h = find(e, principal);

    if (h != NULL)
        return h;
    h = xcalloc(1, sizeof(*h));
    h->has.principal = principal;
    list_init(&h->all);
    list_init(&h->kept);
    map_insert(&e->holders, &h->node, hash_u64(principal));
    list_push_back(&e->holder_list, &h->link);
    return h;
}

static void drop_empty(struct engine *e, struct holder *h)
{
    if (h->has.count > 0 || h->coming > 0 || !list_is_empty(&h->all))
        return;
    map_remove(&e->holders, &h->node);
    list_remove(&e->holder_list, &h->link);
    free(h);
}

void quota_add(struct engine *e, const struct snapshot *s)
{
    struct holder *h = make(e, s->principal);

    h->has.count++;
    h->has.bytes += s->size;
    e->snapshot_bytes += s->size;
}

void quota_remove(struct engine *e, const struct snapshot *s)
{
    struct holder *h = find(e, s->principal);

    assert(h != NULL && h->has.count > 0 && h->has.bytes >= s->size);
    h->has.count--;
    h->has.bytes -= s->size;
    e->snapshot_bytes -= s->size;
    drop_empty(e, h);
}

/* Temporary ones have an end of their own. */
void quota_join(struct engine *e, struct engine_snapshot *s)
{
    struct holder *h = make(e, s->info.principal);

    snapshots_rank(&h->all, s, offsetof(struct engine_snapshot, own_link));
    if (s->info.is_hibernated)
        return;
    snapshots_rank(&h->kept, s, offsetof(struct engine_snapshot, own_kept_link));
    if (!s->info.is_temporary)
        heap_set(&e->snapshots_unused, &s->unused, s->used_ms);
}

void quota_leave(struct engine *e, struct engine_snapshot *s)
{
    struct holder *h = find(e, s->info.principal);

    list_remove(&h->all, &s->own_link);
    list_remove(&h->kept, &s->own_kept_link);
    heap_remove(&e->snapshots_unused, &s->unused);
    drop_empty(e, h);
}

const struct list *quota_list(const struct engine *e, uint64_t principal, bool want_hibernated)
{
    const struct holder *h = find(e, principal);

    return h == NULL ? NULL : want_hibernated ? &h->all : &h->kept;
}

void quota_begin(struct engine *e, uint64_t principal, uint64_t bytes)
{
    struct holder *h = make(e, principal);

    h->coming++;
    h->coming_bytes += bytes;
    e->snapshots_coming++;
    e->snapshot_bytes_coming += bytes;
}

void quota_end(struct engine *e, uint64_t principal, uint64_t bytes)
{
    struct holder *h = find(e, principal);

    assert(h != NULL && h->coming > 0 && h->coming_bytes >= bytes && e->snapshots_coming > 0);
    h->coming--;
    h->coming_bytes -= bytes;
    e->snapshots_coming--;
    e->snapshot_bytes_coming -= bytes;
    drop_empty(e, h);
}

static int refuse_count(struct err *err, const char *who, uint64_t count, const char *key)
{
    return err_set(err, SP_TOO_MANY_SNAPSHOTS, "%s %" PRIu64 " snapshots, the limit (%s)", who,
                   count, key);
}

/* `more`: 0: not known, and one that begins below the limit may pass it. */
static int check_bytes(uint64_t has, uint64_t more, uint64_t limit, const char *who,
                       const char *key, struct err *err)
{
    if (limit == 0 || (has < limit && more <= limit - has))
        return SP_OK;
    if (more > 0)
        return err_set(err, SP_TOO_MANY_SNAPSHOTS,
                       "the snapshot has %" PRIu64 " MB, and %s snapshots of %" PRIu64
                       " MB: the limit (%s) is %" PRIu64 " MB",
                       more / MB, who, has / MB, key, limit / MB);
    return err_set(err, SP_TOO_MANY_SNAPSHOTS, "%s snapshots of %" PRIu64 " MB, the limit (%s)",
                   who, has / MB, key);
}

int quota_check(const struct engine *e, uint64_t principal, uint64_t bytes, struct err *err)
{
    const struct config *c = e->config->config;
    const struct holder *h = find(e, principal);
    uint64_t per_caller = c->snapshots.max_per_caller;
    uint64_t all = e->snapshots.len + e->snapshots_coming;
    uint64_t own = h != NULL ? h->has.count + h->coming : 0;
    uint64_t own_bytes = h != NULL ? h->has.bytes + h->coming_bytes : 0;
    int rc;

    if (per_caller == 0)
        per_caller = MAX_OF((uint64_t) 1, c->snapshots.max / 2);
    if (own >= per_caller)
        return refuse_count(err, "the caller has", own, "snapshots.max_per_caller");
    if (all >= c->snapshots.max)
        return refuse_count(err, "there are", all, "snapshots.max");
    rc = check_bytes(own_bytes, bytes, c->snapshots.max_bytes_per_caller, "the caller has",
                     "snapshots.max_bytes_per_caller", err);
    if (rc == SP_OK)
        rc = check_bytes(e->snapshot_bytes + e->snapshot_bytes_coming, bytes,
                         c->snapshots.max_bytes, "there are", "snapshots.max_bytes", err);
    return rc;
}

size_t engine_snapshot_holders(const struct engine *e, struct engine_holding *ret, size_t cap)
{
    size_t count = 0;

    for (struct list_node *n = list_first(&e->holder_list); n != NULL;
         n = list_next(&e->holder_list, n)) {
        const struct engine_holding *has = &container_of(n, struct holder, link)->has;
        size_t at = count;

        while (at > 0 && ret[at - 1].count < has->count)
            at--;
        if (at == cap || has->count == 0)
            continue;
        count = MIN_OF(count + 1, cap);
        for (size_t i = count - 1; i > at; i--)
            ret[i] = ret[i - 1];
        ret[at] = *has;
    }
    return count;
}

struct engine_holding engine_snapshot_holding(const struct engine *e, uint64_t principal)
{
    const struct holder *h = find(e, principal);

    return h != NULL ? h->has : (struct engine_holding){.principal = principal};
}

void quota_fini(struct engine *e)
{
    while (!list_is_empty(&e->holder_list)) {
        struct holder *h = container_of(list_first(&e->holder_list), struct holder, link);

        h->has.count = h->coming = 0; /* all that were on the way have ended */
        drop_empty(e, h);
    }
    map_fini(&e->holders);
}

/* --- use, and what nobody uses --- */

void engine_snapshot_used(struct engine *e, uint64_t id)
{
    struct engine_snapshot *s = engine_snapshot_find(e, id);
    uint64_t now_ms = (uint64_t) rt_wall_at(e->rt, rt_now(e->rt));

    if (s == NULL)
        return;
    s->used_ms = now_ms;
    if (heap_has(&s->unused))
        heap_set(&e->snapshots_unused, &s->unused, now_ms);
    if (s->info.is_temporary || (now_ms >= s->noted_ms && now_ms - s->noted_ms < TOUCH_MS))
        return;
    s->noted_ms = now_ms;
    side_touch(e, id);
}

static void on_expired(void *ctx, int code, const char *reason)
{
    (void) ctx;
    if (code != SP_OK)
        log_warn("snapshot.not_expired", LF_STR("reason", reason));
}

/* Those that may not go now are looked at again later, and so is what could not be deleted. */
static void on_timer(struct rt_timer *timer)
{
    struct engine *e = container_of(timer, struct engine, keep_timer);
    uint64_t keep_ms = e->config->config->snapshots.keep_s * 1000;
    uint64_t now_ms = (uint64_t) rt_wall_at(e->rt, rt_now(e->rt));
    struct heap_node *n = heap_top(&e->snapshots_unused);

    for (unsigned left = EXPIRED_AT_ONCE; left > 0 && n != NULL && n->key + keep_ms <= now_ms;
         left--, n = heap_top(&e->snapshots_unused)) {
        struct engine_snapshot *s = container_of(n, struct engine_snapshot, unused);

        heap_set(&e->snapshots_unused, n, now_ms - keep_ms + MIN_OF(keep_ms, LOOK_MAX_MS));
        if (s->is_leaving || engine_snapshot_profile(e, s->info.id) != NULL)
            continue;
        log_info("snapshot.expired", LF_HEX("snapshot", s->info.id),
                 LF_U64("unused_s", (now_ms - s->used_ms) / 1000));
        engine_snapshot_drop(e, s, on_expired, NULL);
    }
    snapshots_keep_arm(e);
}

/* Those that are made meanwhile are due later than the longest pause, or after it. */
void snapshots_keep_arm(struct engine *e)
{
    uint64_t keep_ms = e->config->config->snapshots.keep_s * 1000;
    uint64_t now_ms = (uint64_t) rt_wall_at(e->rt, rt_now(e->rt));
    uint64_t pause_ms = MIN_OF(MAX_OF(keep_ms, LOOK_MIN_MS), LOOK_MAX_MS);
    const struct heap_node *n = heap_top(&e->snapshots_unused);
    uint64_t due_ms = n != NULL ? n->key + keep_ms : UINT64_MAX;

    rt_timer_cancel(e->rt, &e->keep_timer);
    if (keep_ms == 0 || e->is_closing || !e->is_recovered)
        return;
    pause_ms = due_ms <= now_ms + LOOK_MIN_MS ? LOOK_MIN_MS : MIN_OF(pause_ms, due_ms - now_ms);
    rt_timer_set(e->rt, &e->keep_timer, rt_after(rt_now(e->rt), pause_ms * NS_PER_MS), on_timer);
}
