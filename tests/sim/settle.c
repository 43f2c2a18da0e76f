/* settle.c - the end of a walk: faults stop, no new requests are made, and after a while everything
 * must be in order: nobody waits, the targets are met, and the backends, the pool and the store
 * agree. */
#include <stdio.h>
#include <string.h>

#include "world.h"

static bool may_rest(enum pool_state state)
{
    return state == POOL_BLANK || state == POOL_LEASED || state == POOL_PARKED;
}

static const char *check_slots(struct world *w)
{
    for (size_t i = 0; i < pool_slot_count(w->pool); i++) {
        const struct pool_box *b = pool_slot(w->pool, i);
        const struct world_box *real;
        const struct world_row *row;

        if (b == NULL)
            continue;
        real = backend_find(w, b->id.v);
        row = rows_find(w, b->id.v);
        if (!may_rest(b->state) || b->is_unseen)
            return "a box is still between two states";
        if (real == NULL || !real->is_running)
            return "the pool knows a box that does not run";
        if (row == NULL || row->box.state != b->state ||
            strcmp(row->box.sandbox_id, b->sandbox_id) != 0 || row->box.generation != b->generation)
            return "the row of a box differs from the box";
        if (row->box.is_paused != b->is_paused || real->seen.is_frozen != b->is_paused)
            return "box, row and pool do not agree whether it is paused";
        if (b->state != POOL_BLANK &&
            (strcmp(real->seen.sandbox_id, b->sandbox_id) != 0 ||
             real->seen.generation != b->generation || real->seen.principal != b->principal))
            return "the labels of a box do not name its owner";
        if (b->state == POOL_BLANK && b->spec_hash != w->config.profiles[b->profile].spec_hash)
            return "a drifted box was not replaced";
    }
    return NULL;
}

static const char *check_targets(struct world *w, const struct pool_stats *stats)
{
    for (unsigned i = 0; i < stats->profile_count; i++) {
        struct pool_profile_view v;

        pool_get_profile(w->pool, w->now_ns, i, &v);
        if (v.by_state[POOL_BLANK] < v.target && stats->total < stats->max_boxes)
            return "fewer blank boxes than wanted";
        if (v.by_state[POOL_BLANK] > v.target)
            return "more blank boxes than wanted";
    }
    return NULL;
}

static const char *unsettled(struct world *w)
{
    struct pool_stats stats;
    size_t running = 0;
    size_t rows = 0;
    const char *why;

    pool_get_stats(w->pool, &stats);
    for (size_t i = 0; i < w->box_count; i++)
        running += w->boxes[i].is_running ? 1 : 0;
    for (size_t i = 0; i < WORLD_ROWS; i++)
        rows += w->rows[i].is_used ? 1 : 0;
    for (uint64_t i = 1; i <= w->req; i++)
        if (w->requests[i].is_open)
            return "a request was never answered";
    if (stats.waiting > 0)
        return "somebody still waits";
    why = check_slots(w);
    if (why != NULL)
        return why;
    if (running != stats.total)
        return "a box leaked: it runs and the pool does not know it";
    if (rows != stats.total)
        return "a row leaked: the store knows a box the pool does not";
    return check_targets(w, &stats);
}

void settle(struct world *w)
{
    const char *why = "it never settled";

    w->is_calm = true;
    rows_set_up(w, true);
    operator_space(w, false);
    away_begin(w);       /* calm: all are back */
    backend_stop_one(w); /* calm: all go on */
    backend_work(w);     /* and nothing is at work */
    operator_config(w, true);
    operator_run(w);
    for (unsigned i = 0; i < 4000; i++) {
        if (i % 50 == 0) {
            backend_list(w, 0);
            backend_list(w, 1);
        }
        world_advance(w, w->now_ns + 20 * NS_PER_MS);
        why = unsettled(w);
        if (why == NULL)
            return;
    }
    world_fail(w, why);
}
