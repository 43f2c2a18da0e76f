/* settle.c - the end of a walk: faults stop, no new requests are made, and after a while everything
 * must be in order: nobody waits, the targets are met, and the backends, the pool and the disk
 * agree. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "walk.h"

static const char *row_state(enum pool_state state)
{
    return state == POOL_BLANK ? "blank" : (state == POOL_LEASED ? "leased" : "parked");
}

static bool can_bind(const struct pool_box *b)
{
    return backend_by_name(backends_name(boxes_find(b->id.v)->backend))->can_bind;
}

static const char *check_box(const struct pool_box *b)
{
    const struct walk_box *real = boxes_find(b->id.v);
    const struct walk_row *row = disk_row(b->id.v);

    if ((b->state != POOL_BLANK && b->state != POOL_LEASED && b->state != POOL_PARKED) ||
        b->is_unseen)
        return "a box is still between two states";
    if (real == NULL || !real->is_running)
        return "the pool knows a box that does not run";
    if (row == NULL || strcmp(row->state, row_state(b->state)) != 0 ||
        strcmp(row->sandbox_id, b->sandbox_id) != 0 || row->generation != b->generation)
        return "the row of a box differs from the box";
    if (row->is_paused != b->is_paused || (real->stands_still && !b->is_paused))
        return "box, row and pool do not agree whether it is paused";
    if (b->state != POOL_BLANK && can_bind(b) &&
        (strcmp(real->labels.sandbox_id, b->sandbox_id) != 0 ||
         real->labels.generation != b->generation || real->labels.principal != b->principal))
        return "the labels of a box do not name its owner";
    if (b->state == POOL_BLANK &&
        b->spec_hash != pool_profile(engine_pool(walk.engine), b->profile)->spec_hash)
        return "a drifted box was not replaced";
    return NULL;
}

static const char *check_targets(const struct pool_stats *stats)
{
    for (unsigned i = 0; i < stats->profile_count; i++) {
        struct pool_profile_view v;

        pool_get_profile(engine_pool(walk.engine), walk_now(), i, &v);
        if (v.by_state[POOL_BLANK] < v.target && stats->total < stats->max_boxes)
            return "fewer blank boxes than wanted";
        if (v.by_state[POOL_BLANK] > v.target)
            return "more blank boxes than wanted";
    }
    return NULL;
}

static const char *unsettled(void)
{
    const struct pool *pool = engine_pool(walk.engine);
    struct pool_stats stats;
    size_t running = 0;
    size_t rows = 0;

    pool_get_stats(pool, &stats);
    for (size_t i = 0; i < walk.box_count; i++)
        running += walk.boxes[i].is_running && walk.backends[walk.boxes[i].backend] != NULL ? 1 : 0;
    for (size_t i = 0; i < WALK_ROWS; i++)
        rows += walk.disk.rows[i].is_used ? 1 : 0;
    if (!list_is_empty(&walk.requests))
        return "a request was never answered";
    if (!list_is_empty(&walk.questions))
        return "a question was never answered";
    if (stats.waiting > 0)
        return "somebody still waits";
    for (size_t i = 0; i < pool_slot_count(pool); i++) {
        const struct pool_box *b = pool_slot(pool, i);
        const char *why = b != NULL ? check_box(b) : NULL;

        if (why != NULL)
            return why;
    }
    if (running != stats.total)
        return "a box leaked: it runs and the pool does not know it";
    if (rows != stats.total)
        return "a row leaked: the disk knows a box that the pool does not";
    return check_targets(&stats);
}

/* For the trace. */
static void say_rest(void)
{
    const struct pool *pool = engine_pool(walk.engine);

    for (size_t i = 0; i < walk.box_count; i++) {
        const struct walk_box *b = &walk.boxes[i];
        struct box_id id = {b->labels.box_id};

        if (b->is_running && pool_find_box(pool, id) == NULL)
            walk_say("unknown: box %016llx on %s, profile %s, id %s", (unsigned long long) id.v,
                     backends_name(b->backend), b->labels.profile, b->labels.sandbox_id);
    }
    for (size_t i = 0; i < pool_slot_count(pool); i++) {
        const struct pool_box *b = pool_slot(pool, i);

        if (b != NULL && check_box(b) != NULL)
            walk_say("box %016llx, %s: %s", (unsigned long long) b->id.v, pool_state_name(b->state),
                     check_box(b));
    }
}

void settle(void)
{
    const char *why = "it never settled";

    walk_say("--- settles");
    walk.is_calm = true;
    disk_set_bad(false);
    walk.is_space_low = false;
    boxes_calm();
    operator_reload(true);
    operator_run();
    for (unsigned i = 0; i < 600; i++) {
        walk_run(walk_now() + 500 * NS_PER_MS);
        why = unsettled();
        if (why == NULL)
            return;
    }
    say_rest();
    walk_fail(why);
}
