/* check.c - every invariant of the pool, with a sentence for each. Tests call it after every step;
 * it visits everything, so the daemon does not call it. */
#include <string.h>

#include "pool/internal.h"

static bool is_on_list(const struct list *l, const struct list_node *node)
{
    return list_is_linked(node) && node->prev->next == node && node->next->prev == node &&
           l->len > 0;
}

static const struct list *list_for(const struct pool *p, const struct slot *s)
{
    if (s->box.state == POOL_BLANK)
        return &p->profiles[s->box.profile].blank[box_blank_kind(p, s)];
    return &p->lists[s->box.state];
}

/* An answer is pending, or time changes it, or it may stay in this state. */
static bool is_stuck(const struct slot *s)
{
    bool is_dirty = list_is_linked(&s->dirty_link);

    switch (s->box.state) {
    case POOL_INTENT:
        return s->wait_write == 0 && !s->box.is_unseen;
    case POOL_CREATING:
        return !s->is_asked;
    case POOL_STARTING:
        return !s->is_asked && !s->box.is_unseen;
    case POOL_LEASING:
    case POOL_PARKING:
        return s->wait_write == 0;
    case POOL_DOOMED:
    case POOL_FORGETTING:
        return s->wait_write == 0 && !is_dirty;
    case POOL_DESTROYING:
        return !s->is_asked && !heap_has(&s->due);
    case POOL_BLANK:
        return s->is_mute && !s->is_asked && !heap_has(&s->due);
    case POOL_FREE:
    case POOL_LEASED:
    case POOL_PARKED:
    case POOL_STATE_COUNT:
        break;
    }
    return false;
}

static bool is_owned(enum pool_state state)
{
    return state == POOL_LEASING || state == POOL_LEASED || state == POOL_PARKING ||
           state == POOL_PARKED;
}

static const char *check_slot(const struct pool *p, const struct slot *s)
{
    const char *why = index_check(p, s);
    uint64_t due_ns = expiry_due(p, s);

    if (why != NULL)
        return why;

    if (box_find(p, s->box.id) != s)
        return "a box is not found under its id";
    if (s->list != list_for(p, s) || !is_on_list(s->list, &s->link))
        return "a box is not on the list its state names";
    if (is_owned(s->box.state) != s->by_sandbox.is_linked && s->box.state != POOL_STARTING &&
        s->box.state != POOL_CREATING && s->box.state != POOL_INTENT)
        return "owned and bound are not the same";
    if (box_is_special(s) && !s->by_sandbox.is_linked)
        return "a box is made for an owner that is not bound to it";
    if (box_is_special(s) && s->box.state == POOL_STARTING && list_is_empty(&s->waiters))
        return "a box is made for nobody";
    if (s->by_sandbox.is_linked && bind_find(p, s->box.sandbox_id) != s)
        return "an id is bound to two boxes";
    if (s->box.state == POOL_BLANK && s->box.sandbox_id[0] != '\0')
        return "a blank box has an owner";
    if (heap_has(&s->due) != (due_ns != POOL_NEVER) || (heap_has(&s->due) && s->due.key != due_ns))
        return "a box is due at the wrong time";
    if (heap_has(&s->evict) !=
        (s->box.state == POOL_PARKED && !s->is_checking && s->hibernate_end == POOL_END_NONE))
        return "the eviction order does not hold the parked boxes that nobody waits for";
    if (is_stuck(s))
        return "a box waits for nothing";
    if (s->is_checking && s->box.state != POOL_LEASED && s->box.state != POOL_PARKED &&
        !s->is_asking)
        return "a box is checked in a state that needs none";
    if (s->is_asking && !s->is_checking)
        return "a box is asked for, and nobody will answer";
    if (list_is_linked(&s->idle_link) && (s->box.state != POOL_LEASED || s->is_asked))
        return "a box is to be asked whether it is idle that need not be";
    if (pool_active_ns(&s->box) > p->now_ns)
        return "a box was used in the future";
    if (doubt_is_waiting(s) != list_is_linked(&s->doubt_link))
        return "a missing box will not be asked for";
    return NULL;
}

static const char *check_slots(const struct pool *p)
{
    size_t on_lists = p->freed.len;

    for (size_t i = 0; i < p->slot_count; i++) {
        const struct slot *s = &p->slots[i];
        const char *why = s->box.state != POOL_FREE ? check_slot(p, s) : NULL;

        if (why != NULL)
            return why;
        if (s->box.state == POOL_FREE && (s->by_id.is_linked || s->by_sandbox.is_linked))
            return "a free slot is still known";
    }
    for (int i = 0; i < POOL_STATE_COUNT; i++)
        on_lists += p->lists[i].len;
    for (unsigned i = 0; i < POOL_PROFILES_MAX; i++)
        for (int k = 0; k < BLANK_KIND_COUNT; k++)
            on_lists += p->profiles[i].blank[k].len;
    return on_lists == p->slot_count ? NULL : "slots were lost or are on two lists";
}

static const char *check_counters(const struct pool *p)
{
    unsigned by_state[POOL_STATE_COUNT] = {0};
    unsigned by_profile[POOL_PROFILES_MAX][POOL_STATE_COUNT] = {{0}};
    unsigned making[POOL_PROFILES_MAX] = {0};
    unsigned verifying[POOL_PROFILES_MAX] = {0};
    unsigned total = 0;
    unsigned stuck = 0;
    unsigned asking = 0;
    unsigned flushing = 0;
    unsigned pulses = 0;
    unsigned idle_asks = 0;
    unsigned hibernating = 0;
    unsigned hibernate_asks = 0;

    for (size_t i = 0; i < p->slot_count; i++) {
        const struct slot *s = &p->slots[i];

        if (s->box.state == POOL_FREE)
            continue;
        total++;
        by_state[s->box.state]++;
        by_profile[s->box.profile][s->box.state]++;
        making[s->box.profile] += box_is_making(s) ? 1 : 0;
        verifying[s->box.profile] += box_is_verifying(s) ? 1 : 0;
        stuck += s->tries > 0 ? 1 : 0;
        asking += s->is_asking ? 1 : 0;
        flushing += s->flush_write != 0 ? 1 : 0;
        pulses += s->box.state == POOL_BLANK && s->is_asked ? 1 : 0;
        idle_asks += s->box.state == POOL_LEASED && s->is_asked ? 1 : 0;
        hibernating += s->hibernate_end != POOL_END_NONE ? 1 : 0;
        hibernate_asks += s->is_hibernating ? 1 : 0;
    }
    if (idle_asks != p->idle_asks || idle_asks > POOL_IDLE_ASKS_MAX ||
        (idle_asks < POOL_IDLE_ASKS_MAX && !list_is_empty(&p->idlers)))
        return "agents of idle boxes are not asked in turn";
    if (hibernating != p->hibernating || hibernate_asks != p->hibernate_asks ||
        hibernate_asks > POOL_HIBERNATES_MAX || hibernating > by_state[POOL_PARKED] ||
        (hibernate_asks < POOL_HIBERNATES_MAX && p->is_store_up && !list_is_empty(&p->hibernaters)))
        return "boxes do not become snapshots in turn";
    if (pulses != p->pulses || pulses > POOL_ASKS_MAX + p->max_waiters + 1)
        return "the number of blank boxes that are asked differs from a recount";
    if (asking != p->asking || (asking < POOL_ASKS_MAX && !list_is_empty(&p->doubted)))
        return "missing boxes are not asked for in turn";
    if (flushing != p->flushing ||
        (flushing < POOL_FLUSH_MAX && p->is_store_up && !list_is_empty(&p->dirty)))
        return "rows that are to be written are not";
    if (total != p->total || stuck != p->stuck ||
        memcmp(by_state, p->by_state, sizeof(by_state)) != 0)
        return "the counters differ from a recount";
    for (unsigned i = 0; i < POOL_PROFILES_MAX; i++)
        if (making[i] != p->profiles[i].making || verifying[i] != p->profiles[i].verifying ||
            memcmp(by_profile[i], p->profiles[i].by_state, sizeof(by_profile[i])) != 0)
            return "the counters of a profile differ from a recount";
    if (p->total > p->max_boxes && p->total > p->adopted_high)
        return "more boxes than max_boxes";
    return NULL;
}

static const char *check_away(const struct pool *p)
{
    struct away found = {.used = p->away.used};

    for (size_t i = 0; i < p->slot_count; i++) {
        const struct slot *s = &p->slots[i];

        if (s->box.state == POOL_FREE)
            continue;
        found.stuck[s->box.backend] += s->tries > 0 ? 1 : 0;
        if (away_is_unknown(s) && s->box.made_with != 0)
            found.unknown_own[s->box.backend]++;
        else if (away_is_unknown(s))
            found.unknown[s->box.backend]++;
    }
    return memcmp(&found, &p->away, sizeof(found)) == 0
               ? NULL
               : "the counters of a backend differ from a recount";
}

static bool same_thread(const struct pool_box *a, const struct pool_box *b)
{
    return a->thread[0] != '\0' && strcmp(a->thread, b->thread) == 0 &&
           strcmp(a->user, b->user) == 0;
}

/* Threads have one id each, so two boxes of a thread would be two ids of it: an error of the
 * caller, unless one of them is dying. Small pools only: it compares every pair. */
static const char *check_threads(const struct pool *p)
{
    if (p->slot_count > 256)
        return NULL;
    for (size_t i = 0; i < p->slot_count; i++)
        for (size_t j = i + 1; j < p->slot_count; j++)
            if (p->slots[i].by_sandbox.is_linked && p->slots[j].by_sandbox.is_linked &&
                same_thread(&p->slots[i].box, &p->slots[j].box) &&
                strcmp(p->slots[i].box.sandbox_id, p->slots[j].box.sandbox_id) == 0)
                return "a thread has two boxes";
    return NULL;
}

const char *pool_check(const struct pool *p)
{
    const char *why = check_slots(p);

    if (why == NULL)
        why = check_counters(p);
    if (why == NULL)
        why = check_away(p);
    if (why == NULL)
        why = makers_check(p);
    if (why == NULL)
        why = holders_check(p);
    if (why == NULL)
        why = check_threads(p);
    if (why == NULL)
        why = check_waiters(p);
    if (why == NULL)
        why = past_check(p);
    return why;
}
