/* restore.c - rows of the store become slots again. Rows are believed: leases stand and deadlines
 * run, but blank boxes wait for a listing and a probe before anyone gets one. Nothing is asked of
 * anybody here; the first step does that. */
#include <string.h>

#include "pool/internal.h"

/* Two rows with one id: a crash fell between the end of the old box and its row. The newer binding
 * is the true one. */
static void settle_duplicate(struct pool *p, struct slot *s)
{
    struct slot *other = s->box.sandbox_id[0] != '\0' ? bind_find(p, s->box.sandbox_id) : NULL;

    if (other == NULL)
        return;
    if (other->box.generation >= s->box.generation) {
        s->box.state = POOL_DOOMED;
        return;
    }
    bind_cut(p, other);
    other->box.end = POOL_END_ORPHAN;
    box_set_state(p, other, POOL_DOOMED);
    box_mark_dirty(p, other, 0);
}

/* What the row means for a pool that has just started. */
static bool settled_state(enum pool_state state, enum pool_state *ret)
{
    switch (state) {
    case POOL_INTENT:
    case POOL_CREATING:
        *ret = POOL_INTENT;
        return true;
    case POOL_STARTING:
    case POOL_BLANK:
        *ret = state;
        return true;
    case POOL_LEASING:
    case POOL_LEASED:
        *ret = POOL_LEASED;
        return true;
    case POOL_PARKING:
    case POOL_PARKED:
        *ret = POOL_PARKED;
        return true;
    case POOL_DOOMED:
    case POOL_DESTROYING:
    case POOL_FORGETTING:
        *ret = POOL_DESTROYING;
        return true;
    case POOL_FREE:
    case POOL_STATE_COUNT:
        break;
    }
    return false;
}

static void enter(struct pool *p, struct slot *s)
{
    enum pool_state state = s->box.state;

    s->lease_from = POOL_PARKED; /* an owner was told of it: never blank again */
    s->committed_ns = s->box.expires_ns;
    s->age_ns = POOL_NEVER;
    s->box.is_unseen = state != POOL_DOOMED && state != POOL_DESTROYING;
    if (s->box.is_unseen && s->box.sandbox_id[0] != '\0')
        bind_link(p, s);
    if (state == POOL_DOOMED)
        s->box.end = POOL_END_ORPHAN;
    box_enter(p, s, state);
    s->changed_ns = 0;
    if (state == POOL_DOOMED)
        box_mark_dirty(p, s, 0);
}

bool pool_restore_box(struct pool *p, const struct pool_box *row)
{
    enum pool_state state = POOL_FREE;
    struct slot *s;

    if (!settled_state(row->state, &state) || row->profile >= p->profile_count || row->id.v == 0 ||
        box_find(p, row->id) != NULL)
        return false;
    if ((state == POOL_LEASED || state == POOL_PARKED) && row->sandbox_id[0] == '\0')
        return false;
    s = box_take(p);
    if (s == NULL)
        return false;
    s->box = *row;
    s->box.busy = 0;
    s->box.state = state;
    if (state == POOL_BLANK)
        bind_clear(p, s);
    if (state != POOL_DESTROYING)
        settle_duplicate(p, s);
    enter(p, s);
    p->adopted_high = MAX_OF(p->adopted_high, p->total);
    p->wake_ns = 0;
    return true;
}
