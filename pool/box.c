/* box.c - slots, and the one function that changes a state. State is list membership: a change
 * checks the table of allowed moves, moves the slot, keeps the counters and starts a new epoch, so
 * that answers to older effects no longer count. */
#include <string.h>

#include "base/str.h"
#include "pool/internal.h"
#include "pool/pulse.h"

#define TO(name) (1U << POOL_##name)

static const unsigned allowed_next[POOL_STATE_COUNT] = {
    [POOL_FREE] = 0, /* box_enter() */
    [POOL_INTENT] = TO(CREATING) | TO(STARTING) | TO(FORGETTING) | TO(DOOMED) | TO(FREE),
    [POOL_CREATING] = TO(STARTING) | TO(DOOMED),
    [POOL_STARTING] = TO(BLANK) | TO(LEASING) | TO(PARKED) | TO(DOOMED),
    [POOL_BLANK] = TO(LEASING) | TO(STARTING) | TO(DOOMED),
    [POOL_LEASING] = TO(LEASED) | TO(BLANK) | TO(PARKED) | TO(DOOMED) | TO(FREE),
    [POOL_LEASED] = TO(PARKING) | TO(PARKED) | TO(DOOMED),
    [POOL_PARKING] = TO(PARKED) | TO(LEASED) | TO(DOOMED),
    [POOL_PARKED] = TO(LEASING) | TO(PARKING) | TO(DOOMED),
    [POOL_DOOMED] = TO(DESTROYING),
    [POOL_DESTROYING] = TO(FORGETTING),
    [POOL_FORGETTING] = TO(FREE) | TO(DOOMED),
};

static bool eq_id(const struct map_node *node, const void *key)
{
    const struct slot *s = container_of(node, struct slot, by_id);

    return s->box.id.v == *(const uint64_t *) key;
}

struct slot *box_find(const struct pool *p, struct box_id id)
{
    struct map_node *n = map_find(&p->ids, hash_u64(id.v), eq_id, &id.v);

    return n != NULL ? container_of(n, struct slot, by_id) : NULL;
}

bool pool_is_shown(const struct pool_box *box)
{
    if (box->is_stale && box->is_unseen)
        return false;
    return box->state == POOL_LEASED || box->state == POOL_PARKING || box->state == POOL_PARKED;
}

bool box_is_dying(const struct slot *s)
{
    return s->box.state == POOL_DOOMED || s->box.state == POOL_DESTROYING ||
           s->box.state == POOL_FORGETTING;
}

bool box_is_making(const struct slot *s)
{
    enum pool_state state = s->box.state;

    if (s->box.sandbox_id[0] != '\0')
        return false;
    return state == POOL_INTENT || state == POOL_CREATING || state == POOL_STARTING ||
           box_is_verifying(s) ||
           (state == POOL_BLANK && (s->box.is_unseen || s->is_missing) && !s->is_silent);
}

/* Boxes of an earlier life are not: their callers are gone. */
bool box_is_special(const struct slot *s)
{
    enum pool_state state = s->box.state;

    return s->is_made && s->box.sandbox_id[0] != '\0' &&
           (state == POOL_INTENT || state == POOL_CREATING || state == POOL_STARTING);
}

enum blank_kind box_blank_kind(const struct pool *p, const struct slot *s)
{
    const struct pool_profile *c = &p->profiles[s->box.profile].conf;

    if (s->box.is_unseen || s->is_missing || s->is_mute)
        return BLANK_UNSEEN;
    return s->box.spec_hash == c->spec_hash && s->box.backend == c->backend ? BLANK_FRESH
                                                                            : BLANK_DRIFTED;
}

bool box_is_watched(const struct pool *p, const struct slot *s)
{
    const struct pool_profile *c = &p->profiles[s->box.profile].conf;

    return c->is_watched && c->backend == s->box.backend;
}

bool box_is_verifying(const struct slot *s)
{
    return s->box.state == POOL_BLANK && s->is_mute && s->unanswered == 0;
}

void box_take_life(struct pool *p, struct slot *s, const char *life)
{
    if (life[0] == '\0' || strcmp(s->box.life, life) == 0)
        return;
    str_copy_cut(s->box.life, sizeof(s->box.life), life);
    if (s->box.state == POOL_BLANK || s->box.state == POOL_LEASED || s->box.state == POOL_PARKED)
        box_mark_dirty(p, s, 0);
}

void box_check(struct pool *p, struct slot *s, uint64_t deadline_ns)
{
    if (s->is_checking)
        return;
    s->is_checking = true;
    box_rank(p, s);
    emit_backend(p, POOL_FX_CHECK, s, deadline_ns);
}

static struct list *list_of(struct pool *p, struct slot *s)
{
    if (s->box.state == POOL_FREE)
        return &p->freed;
    if (s->box.state == POOL_BLANK)
        return &profile_of(p, s)->blank[box_blank_kind(p, s)];
    return &p->lists[s->box.state];
}

bool box_is_flying(const struct slot *s)
{
    return s->box.sandbox_id[0] != '\0' &&
           (s->box.state == POOL_INTENT || s->box.state == POOL_CREATING);
}

bool box_is_landing(const struct slot *s)
{
    return s->box.sandbox_id[0] != '\0' && s->box.state == POOL_STARTING;
}

static void count_in(struct pool *p, struct slot *s)
{
    struct profile *f = profile_of(p, s);

    if (s->box.state == POOL_FREE)
        return;
    p->total++;
    p->by_state[s->box.state]++;
    f->by_state[s->box.state]++;
    f->making += box_is_making(s) ? 1 : 0;
    f->verifying += box_is_verifying(s) ? 1 : 0;
    f->flying += box_is_flying(s) ? 1 : 0;
    f->landing += box_is_landing(s) ? 1 : 0;
    maker_count_in(p, s);
    p->stuck += s->tries > 0 ? 1 : 0;
    away_count(p, s, true);
}

static void count_out(struct pool *p, struct slot *s)
{
    struct profile *f = profile_of(p, s);

    if (s->box.state == POOL_FREE)
        return;
    p->total--;
    p->by_state[s->box.state]--;
    f->by_state[s->box.state]--;
    f->making -= box_is_making(s) ? 1 : 0;
    f->verifying -= box_is_verifying(s) ? 1 : 0;
    f->flying -= box_is_flying(s) ? 1 : 0;
    f->landing -= box_is_landing(s) ? 1 : 0;
    maker_count_out(p, s);
    p->stuck -= s->tries > 0 ? 1 : 0;
    away_count(p, s, false);
}

/* Rule 3, in the one place that every state change passes. From LEASED on the box is shown to
 * callers, and once it has an owner its labels may name it: the next owner of a blank box must be
 * its first. */
static void check_use(struct slot *s)
{
    if (pool_is_shown(&s->box) || (s->box.sandbox_id[0] != '\0' && s->box.state != POOL_LEASING))
        s->is_used = true;
    assert(s->box.state != POOL_BLANK || (!s->is_used && s->box.sandbox_id[0] == '\0'));
}

static void put_on_list(struct pool *p, struct slot *s)
{
    check_use(s);
    s->list = list_of(p, s);
    list_push_back(s->list, &s->link);
    index_note_ending(p, s);
    doubt_enlist(p, s);
    box_rank(p, s);
}

/* A box that is being checked is skipped: its owner may have come back for it. */
void box_rank(struct pool *p, struct slot *s)
{
    if (s->box.state == POOL_PARKED && !s->is_checking && s->hibernate_end == POOL_END_NONE)
        heap_set(&p->parked, &s->evict, s->box.parked_ns);
    else
        heap_remove(&p->parked, &s->evict);
    expiry_update(p, s);
}

struct box_id box_mint_id(struct pool *p)
{
    struct box_id id;

    do {
        id.v = rand_next(&p->rand);
    } while (id.v == 0 || box_find(p, id) != NULL);
    return id;
}

struct slot *box_take(struct pool *p)
{
    struct list_node *n = list_pop_front(&p->lists[POOL_FREE]);
    struct slot *s;

    if (n == NULL)
        return NULL;
    s = slot_of(n);
    memset(s, 0, sizeof(*s));
    list_init(&s->waiters);
    return s;
}

void box_enter(struct pool *p, struct slot *s, enum pool_state state)
{
    assert(s->box.id.v != 0 && s->box.profile < p->profile_count);
    index_go_last(p, s);
    p->epoch++;
    s->box.epoch = p->epoch;
    s->box.state = state;
    s->changed_ns = p->now_ns;
    recheck_begin(p, s);
    map_insert(&p->ids, &s->by_id, hash_u64(s->box.id.v));
    put_on_list(p, s);
    count_in(p, s);
    holders_settle(p, s);
}

/* One that was found and could not be recorded keeps running: the next discovery or listing finds
 * it again. */
static void leave_pool(struct pool *p, struct slot *s, bool is_gone)
{
    struct recent *r = &p->recent[p->recent_next];

    assert(list_is_empty(&s->waiters));
    bind_cut(p, s);
    index_leave(p, s);
    map_remove(&p->ids, &s->by_id);
    box_unmark_dirty(p, s);
    p->flushing -= s->flush_write != 0 ? 1 : 0;
    s->flush_write = 0;
    if (!is_gone)
        return;
    r->id = s->box.id;
    r->profile = s->box.profile;
    r->backend = s->box.backend;
    r->freed_ns = p->now_ns;
    p->recent_next = (p->recent_next + 1) % POOL_RECENT_MAX;
}

void box_set_state(struct pool *p, struct slot *s, enum pool_state next)
{
    bool was_leasing = s->box.state == POOL_LEASING;
    bool was_blank = s->box.state == POOL_BLANK;

    assert((allowed_next[s->box.state] & (1U << next)) != 0);
    count_out(p, s);
    list_remove(s->list, &s->link);
    idle_stop(p, s);
    hibernate_stop(p, s);
    s->box.state = next;
    s->changed_ns = p->now_ns;
    s->wait_write = 0;
    s->retry_ns = 0;
    s->tries = 0;
    p->pulses -= was_blank && s->is_asked ? 1 : 0;
    s->is_asked = false;
    s->is_checking = false;
    doubt_stop(p, s);
    if (box_is_dying(s) || next == POOL_FREE) {
        s->is_missing = false;
        s->misses = 0;
    }
    p->epoch++;
    s->box.epoch = p->epoch;
    if (next == POOL_BLANK || next == POOL_LEASED || next == POOL_PARKED)
        s->box.is_unseen = s->box.is_unseen && s->box.is_stale; /* then a listing must show it */
    if (next == POOL_BLANK)
        pulse_begin(p, s);
    if (next == POOL_LEASED)
        idle_begin(s);
    if (next == POOL_PARKED)
        mode_parked(p, s);
    recheck_begin(p, s);
    put_on_list(p, s);
    count_in(p, s);
    holders_settle(p, s);
    if (next != POOL_CREATING && next != POOL_STARTING) /* otherwise nothing has changed for them */
        waiter_redo_all(p, s);
    if (next == POOL_FREE)
        leave_pool(p, s, !was_leasing);
}

void box_take_owner(struct pool *p, struct slot *s, const struct pool_seen *seen)
{
    count_out(p, s); /* with an owner it is no longer counted as a future blank box */
    memcpy(s->box.sandbox_id, seen->sandbox_id, sizeof(s->box.sandbox_id));
    memcpy(s->box.user, seen->user, sizeof(s->box.user));
    memcpy(s->box.thread, seen->thread, sizeof(s->box.thread));
    s->box.principal = seen->principal;
    s->box.generation = seen->generation;
    count_in(p, s);
    bind_link(p, s);
    holders_settle(p, s);
    bind_claim(p, s);
}

void box_relink(struct pool *p, struct slot *s)
{
    list_remove(s->list, &s->link);
    put_on_list(p, s);
}

void box_set_mute(struct pool *p, struct slot *s, bool is_mute, unsigned unanswered)
{
    count_out(p, s);
    list_remove(s->list, &s->link);
    s->is_mute = is_mute;
    s->unanswered = unanswered;
    put_on_list(p, s);
    count_in(p, s);
}

void box_set_doubt(struct pool *p, struct slot *s, bool is_missing, bool is_silent)
{
    count_out(p, s);
    list_remove(s->list, &s->link);
    s->is_missing = is_missing;
    s->is_silent = is_silent;
    if (!doubt_is_waiting(s))
        list_remove(&p->doubted, &s->doubt_link);
    put_on_list(p, s);
    count_in(p, s);
}

void box_recycle_freed(struct pool *p)
{
    for (struct list_node *n = list_pop_front(&p->freed); n != NULL;
         n = list_pop_front(&p->freed)) {
        struct slot *s = slot_of(n);

        memset(&s->box, 0, sizeof(s->box));
        s->list = &p->lists[POOL_FREE];
        list_push_back(s->list, n);
    }
}

/* The pause after a failed write is constant, so the list of waiting rows is in order. */
void box_mark_dirty(struct pool *p, struct slot *s, uint64_t not_before_ns)
{
    box_unmark_dirty(p, s);
    s->rewrite_ns = not_before_ns;
    if (not_before_ns > p->now_ns)
        list_push_back(&p->rewrites, &s->dirty_link);
    else if (!list_is_empty(&s->waiters))
        list_push_front(&p->dirty, &s->dirty_link);
    else
        list_push_back(&p->dirty, &s->dirty_link);
    if (not_before_ns <= p->now_ns)
        s->rewrite_ns = 0;
}

void box_unmark_dirty(struct pool *p, struct slot *s)
{
    list_remove(s->rewrite_ns == 0 ? &p->dirty : &p->rewrites, &s->dirty_link);
}

uint64_t box_write(struct pool *p, struct slot *s, enum pool_write what)
{
    box_unmark_dirty(p, s); /* this write contains all changes */
    s->is_row_behind = false;
    s->last_write = emit_store(p, what, s);
    s->open_writes++;
    s->is_reverted = false;
    s->saved_ns = s->box.active_ns;
    expiry_update(p, s);
    return s->last_write;
}
