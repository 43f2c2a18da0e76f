/* restore.c - makes slots from rows of the store. Rows are trusted: leases continue and deadlines
 * run, but blank boxes wait for a listing and a probe before a caller gets one. Nothing is
 * requested here; the first step does that. */
#include <string.h>

#include "pool/internal.h"

/* The newer one may be an intent that failed: then this was the id's last generation. */
static void remember_replaced(struct pool *p, const struct pool_box *b, const struct slot *by)
{
    if (b->generation < by->box.generation)
        past_remember(p, b->sandbox_id, b->generation, POOL_END_ORPHAN, b->principal);
}

/* A binding that was replaced by a newer one of the same id: a crash happened between the end of
 * the old box and its row. */
static void doom_replaced(struct pool *p, struct slot *s)
{
    bind_cut(p, s);
    s->box.end = POOL_END_ORPHAN;
    box_set_state(p, s, POOL_DOOMED);
    box_mark_dirty(p, s, 0);
    p->wake_ns = 0;
}

static bool is_promised(const struct slot *s)
{
    return s->box.state == POOL_LEASED || s->box.state == POOL_PARKED;
}

/* A box that was being made for a thread and failed has used no generation: the next box of the
 * thread has the same one, and the row of the first still exists if its end could not be stored. */
static bool is_newer(const struct slot *s, const struct slot *other)
{
    if (s->box.generation != other->box.generation)
        return s->box.generation > other->box.generation;
    return is_promised(s) && !is_promised(other);
}

static void settle_duplicate(struct pool *p, struct slot *s)
{
    struct slot *other = bind_find(p, s->box.sandbox_id);
    const struct past *past = past_find(p, s->box.sandbox_id);

    if (past != NULL && past->generation >= s->box.generation) {
        s->box.state = POOL_DOOMED;
    } else if (other != NULL && !is_newer(s, other)) {
        remember_replaced(p, &s->box, other);
        s->box.state = POOL_DOOMED;
    } else if (other != NULL) {
        remember_replaced(p, &other->box, s);
        doom_replaced(p, other);
    }
}

void pool_restore_past(struct pool *p, const char *sandbox_id, uint64_t generation,
                       enum pool_end end, uint64_t principal)
{
    struct slot *s = bind_find(p, sandbox_id);

    if (s != NULL && s->box.generation <= generation)
        doom_replaced(p, s);
    past_remember(p, sandbox_id, generation, end, principal);
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

/* It is not known whether its create made a box; `was` is the state of its row. */
static bool is_create_unknown(const struct slot *s, enum pool_state was)
{
    if (s->box.state == POOL_INTENT)
        return true; /* until a listing shows it */
    if (s->box.state == POOL_DOOMED)
        return was == POOL_INTENT || was == POOL_CREATING;
    return s->box.state == POOL_DESTROYING &&
           (s->box.end == POOL_END_CREATE_FAILED || s->box.end == POOL_END_ORPHAN);
}

/* The row may be behind by this much, so it is added; but the result is never in the future. */
static void restore_use(struct slot *s, uint64_t now_ns)
{
    struct pool_box *b = &s->box;

    b->active_ns = MIN_OF(b->active_ns, now_ns);
    b->maybe_ns = 0;
    if (b->state == POOL_LEASED && b->idle_ns != POOL_NEVER)
        b->maybe_ns = MIN_OF(time_after(b->active_ns, b->idle_ns / 4), now_ns);
    s->saved_ns = b->active_ns;
}

static void enter(struct pool *p, struct slot *s, enum pool_state was)
{
    enum pool_state state = s->box.state;

    s->lease_from = POOL_PARKED;
    s->is_known = true; /* an owner got a reply for it in an earlier life */
    s->committed_ns = s->box.expires_ns;
    s->age_ns = POOL_NEVER;
    s->box.is_unseen = state != POOL_DOOMED && state != POOL_DESTROYING;
    s->is_pause_open = s->box.is_unseen;
    s->is_unclaimed = (state == POOL_INTENT || state == POOL_STARTING) && !s->box.is_stale;
    if (s->box.is_unseen && s->box.sandbox_id[0] != '\0')
        bind_link(p, s);
    else if (s->box.sandbox_id[0] != '\0')
        index_owner_join(p, s);
    index_set_ref(p, s, s->box.ref);
    if (state == POOL_DOOMED)
        s->box.end = POOL_END_ORPHAN;
    s->is_create_unknown = is_create_unknown(s, was);
    box_enter(p, s, state);
    s->changed_ns = 0;
    if (state == POOL_DOOMED)
        box_mark_dirty(p, s, 0);
}

bool pool_restore_box(struct pool *p, uint64_t now_ns, const struct pool_box *row)
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
    s->box.is_paused = row->is_paused && (state == POOL_LEASED || state == POOL_PARKED);
    s->box.state = state;
    if (state == POOL_BLANK && s->box.sandbox_id[0] != '\0')
        s->box.state = POOL_DOOMED; /* no row of ours says so: whose token it has is not known */
    if (s->box.state == state && state != POOL_DESTROYING && s->box.sandbox_id[0] != '\0')
        settle_duplicate(p, s);
    if ((state == POOL_INTENT || state == POOL_STARTING) && s->box.sandbox_id[0] != '\0' &&
        s->box.thread[0] == '\0')
        s->box.state = POOL_DOOMED; /* made for a caller who cannot come back */
    restore_use(s, now_ns);
    enter(p, s, row->state);
    p->adopted_high = MAX_OF(p->adopted_high, p->total);
    p->wake_ns = 0;
    return true;
}
