/* pool.c - makes and frees the pool. The only file that allocates: everything a step will ever need
 * is allocated here from the configured maxima. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pool/internal.h"

#define SPARE_SLOTS 64 /* for running boxes that are found when the pool is full */

/* A box makes at most this many effects in one step (a listing: adopted, row, probe; a death: lost,
 * doomed, row; a slot is not reused before the next step). */
#define FX_PER_SLOT 6
#define FX_PER_PROFILE 4

static void init_slots(struct pool *p, unsigned restore_max)
{
    p->slot_count = (size_t) MAX_OF(p->max_boxes, restore_max) + SPARE_SLOTS;
    p->slots = xcalloc(p->slot_count, sizeof(struct slot));
    for (int i = 0; i < POOL_STATE_COUNT; i++)
        list_init(&p->lists[i]);
    list_init(&p->freed);
    list_init(&p->dirty);
    list_init(&p->rewrites);
    list_init(&p->doubted);
    list_init(&p->idlers);
    list_init(&p->hibernaters);
    map_init(&p->ids, p->slot_count);
    map_init(&p->sandboxes, p->slot_count);
    index_init(p, xcalloc(p->slot_count * POOL_ORDERED_PER_SLOT, sizeof(struct ordered)),
               xcalloc(p->slot_count, sizeof(struct owner)));
    makers_init(p, xcalloc(p->slot_count, sizeof(struct maker)));
    heap_init(&p->due, p->slot_count);
    heap_init(&p->parked, p->slot_count);
    for (size_t i = 0; i < p->slot_count; i++) {
        list_push_back(&p->lists[POOL_FREE], &p->slots[i].link);
        p->slots[i].list = &p->lists[POOL_FREE];
        list_init(&p->slots[i].waiters);
    }
}

/* Requests that wait for a commit have separate room: a full queue must not block the releases that
 * would empty it. */
static void init_waiters(struct pool *p)
{
    p->waiter_max = (size_t) p->max_waiters * 2 + 64;
    p->waiters = xcalloc(p->waiter_max, sizeof(struct waiter));
    p->parties_all = xcalloc((size_t) p->max_waiters + 1, sizeof(struct party));
    p->groups_all = xcalloc((size_t) p->max_waiters + 1, sizeof(struct group));
    p->turns = xcalloc((size_t) p->max_waiters + 1, sizeof(struct turn));
    list_init(&p->free_parties);
    list_init(&p->free_groups);
    list_init(&p->free_waiters);
    list_init(&p->free_turns);
    list_init(&p->redo);
    list_init(&p->discovering);
    map_init(&p->reqs, p->waiter_max);
    map_init(&p->threads, p->waiter_max);
    map_init(&p->parties, p->max_waiters);
    map_init(&p->groups, p->max_waiters);
    map_init(&p->users, p->max_waiters);
    heap_init(&p->deadlines, p->waiter_max);
    for (size_t i = 0; i < (size_t) p->max_waiters + 1; i++) {
        list_push_back(&p->free_parties, &p->parties_all[i].link);
        list_push_back(&p->free_groups, &p->groups_all[i].link);
        list_push_back(&p->free_turns, &p->turns[i].link);
    }
}

struct pool *pool_new(const struct pool_config *config)
{
    struct pool *p = xcalloc(1, sizeof(*p));
    size_t past_max;

    assert(config->max_boxes > 0 && config->profile_count <= POOL_PROFILES_MAX);
    p->max_boxes = config->max_boxes;
    p->max_waiters = config->max_waiters;
    p->share_percent = config->share_percent > 0 ? config->share_percent : 100;
    p->make_token = config->make_token;
    p->make_token_ctx = config->make_token_ctx;
    p->is_store_up = true;
    p->wake_ns = POOL_NEVER;
    rand_seed(&p->rand, config->seed);
    init_slots(p, config->restore_max);
    init_waiters(p);
    holders_init(p, config->has_quotas ? xcalloc(holders_room(p), sizeof(struct holder)) : NULL);
    holders_set(p, config);
    past_max = MAX_OF((size_t) p->max_boxes * 4, (size_t) 1024);
    past_init(p, xcalloc(past_max, sizeof(struct past)),
              xcalloc(past_max, sizeof(struct past_owner)), past_max);
    p->fx_cap = p->slot_count * FX_PER_SLOT + p->waiter_max + POOL_PROFILES_MAX * FX_PER_PROFILE;
    p->fx = xcalloc(p->fx_cap, sizeof(struct fx_rec));
    for (unsigned i = 0; i < POOL_PROFILES_MAX; i++)
        reconfig_init_profile(p, i, i < config->profile_count ? &config->profiles[i] : NULL);
    p->profile_count = config->profile_count;
    away_count_used(p);
    return p;
}

struct pool *pool_free(struct pool *p)
{
    if (p == NULL)
        return NULL;
    heap_fini(&p->due);
    heap_fini(&p->parked);
    heap_fini(&p->deadlines);
    map_fini(&p->ids);
    map_fini(&p->sandboxes);
    index_fini(p);
    makers_fini(p);
    holders_fini(p);
    free(p->quota.all);
    free(p->ordered.at);
    free(p->owners);
    free(p->makers.all);
    map_fini(&p->reqs);
    map_fini(&p->threads);
    map_fini(&p->parties);
    map_fini(&p->groups);
    map_fini(&p->users);
    past_fini(p);
    free(p->fx);
    free(p->past);
    free(p->past_owners);
    free(p->parties_all);
    free(p->groups_all);
    free(p->turns);
    free(p->waiters);
    free(p->slots);
    free(p);
    return NULL;
}
