/* check_waiters.c - the invariants of requests: each waits in one place, for something that will
 * happen, and none waits while a box is free for it. */
#include <string.h>

#include "pool/internal.h"

static bool is_waiting(enum waiter_phase phase)
{
    return phase == WAITER_QUEUED || phase == WAITER_JOINED || phase == WAITER_BOX ||
           phase == WAITER_DISCOVERING || phase == WAITER_PAUSED;
}

/* In this state of the box an answer is certain. */
static bool will_be_answered(const struct waiter *w)
{
    const struct slot *s = w->slot;

    switch (w->phase) {
    case WAITER_BOX:
        return s->box.state == POOL_INTENT || s->box.state == POOL_CREATING ||
               s->box.state == POOL_STARTING || s->box.state == POOL_PARKING ||
               s->box.state == POOL_PARKED ||
               (s->box.state == POOL_LEASED && (s->is_checking || s->recheck_ns != POOL_NEVER));
    case WAITER_CHECKING:
        return s->is_checking;
    case WAITER_COMMIT:
        return w->write != 0 && w->write <= s->last_write && !box_is_dying(s);
    case WAITER_DELETED:
        return s->box.state == POOL_DOOMED;
    case WAITER_GONE:
        return s->box.state == POOL_DOOMED || s->box.state == POOL_DESTROYING;
    case WAITER_FREE:
    case WAITER_NEW:
    case WAITER_REDO:
    case WAITER_QUEUED:
    case WAITER_JOINED:
    case WAITER_DISCOVERING:
    case WAITER_PAUSED:
    case WAITER_PHASE_COUNT:
        break;
    }
    return false;
}

static const char *check_one(const struct pool *p, const struct waiter *w)
{
    bool is_first =
        w->phase == WAITER_QUEUED || w->phase == WAITER_DISCOVERING || w->phase == WAITER_PAUSED;
    bool is_committing = w->phase == WAITER_COMMIT && w->kind == POOL_EV_ACQUIRE;
    bool has_deadline =
        w->phase == WAITER_PAUSED || w->phase == WAITER_GONE ||
        (w->acquire.deadline_ns != POOL_NEVER &&
         (is_committing || (is_waiting(w->phase) && w->phase != WAITER_DISCOVERING)));

    if (w->phase == WAITER_NEW || w->phase == WAITER_REDO)
        return "a request was left undecided";
    if (waiter_find(p, w->req) != w)
        return "a request is not found under its id";
    if (heap_has(&w->deadline) != has_deadline)
        return "a waiting request has no deadline, or one too many";
    if (is_first != w->by_sandbox.is_linked)
        return "a thread that waits is not known";
    if (w->by_sandbox.is_linked && (waiter_find_thread(p, w->acquire.sandbox_id) != w ||
                                    bind_find(p, w->acquire.sandbox_id) != NULL))
        return "a thread waits twice, or waits although it has a box";
    if ((w->phase == WAITER_QUEUED) != (w->turn != NULL))
        return "a queued request has no turn";
    if (w->phase == WAITER_JOINED && w->primary->phase != WAITER_QUEUED &&
        w->primary->phase != WAITER_DISCOVERING && w->primary->phase != WAITER_PAUSED)
        return "a request joined one that does not wait";
    if (w->phase == WAITER_JOINED && w->acquire.is_special && !w->primary->acquire.is_special)
        return "a request that wants its own box shares one that is not";
    if (w->slot != NULL && !will_be_answered(w))
        return "a request waits for an answer that will not come";
    return NULL;
}

static const char *check_group(const struct pool *p, const struct group *g, unsigned *waiting)
{
    for (struct list_node *n = list_first(&g->turns); n != NULL; n = list_next(&g->turns, n)) {
        const struct turn *t = container_of(n, struct turn, link);

        if (list_is_empty(&t->waiters) || t->group != g)
            return "a turn is empty or in the wrong group";
        *waiting += (unsigned) t->waiters.len;
        for (struct list_node *m = list_first(&t->waiters); m != NULL;
             m = list_next(&t->waiters, m)) {
            const struct waiter *w = waiter_of(m);

            if (line_of(w) != g->line || w->acquire.profile != g->profile)
                return "a request waits in the wrong line";
            if (w->acquire.principal != g->party->principal)
                return "a request waits in the turn of another principal";
            if (turn_find(p, g, w->acquire.user) != t)
                return "a user has two turns";
        }
    }
    return list_is_empty(&g->turns) ? "a group of nobody is in a line" : NULL;
}

static const char *check_line(const struct pool *p, const struct profile *f, enum line line)
{
    const struct list *round = &f->round[line];
    unsigned waiting = 0;
    uint64_t since = 0;

    for (struct list_node *n = list_first(round); n != NULL; n = list_next(round, n)) {
        const struct group *g = container_of(n, struct group, link);
        const char *why = check_group(p, g, &waiting);

        if (why != NULL)
            return why;
        if (&p->profiles[g->profile] != f || g->line != line || g->since <= since)
            return "a group is in the wrong line, or not in its place";
        since = g->since;
    }
    if (waiting != f->waiting[line])
        return "the number of waiters differs from a recount";
    if (line == LINE_BLANK && waiting > 0 && mode_of(p, f) == POOL_RUNNING && p->is_store_up &&
        f->blank[BLANK_FRESH].len + f->blank[BLANK_DRIFTED].len > 0 && f->verifying <= waiting)
        return "an acquire waits while a box is free for it";
    if (waiting > 0 && (!p->is_store_up || mode_of(p, f) == POOL_DRAINING || f->conf.is_retired))
        return "an acquire waits for a box that nobody will make";
    return NULL;
}

const char *check_waiters(const struct pool *p)
{
    unsigned meant[POOL_PROFILES_MAX] = {0};
    unsigned waiting = 0;
    size_t unused = 0;

    for (size_t i = 0; i < p->waiter_count; i++) {
        const struct waiter *w = &p->waiters[i];
        const char *why = w->phase != WAITER_FREE ? check_one(p, w) : NULL;

        if (why != NULL)
            return why;
        waiting += is_waiting(w->phase) ? 1 : 0;
        if (w->phase != WAITER_FREE && w->kind == POOL_EV_ACQUIRE)
            meant[w->acquire.profile]++;
        unused += w->phase == WAITER_FREE ? 1 : 0;
    }
    if (waiting != p->waiting || unused != p->free_waiters.len || waiting > p->max_waiters)
        return "the number of requests differs from a recount";
    for (unsigned i = 0; i < p->profile_count; i++)
        if (meant[i] != p->profiles[i].meant)
            return "the number of acquires that mean a profile differs from a recount";
    for (unsigned i = 0; i < p->profile_count * LINE_COUNT; i++) {
        const char *why = check_line(p, &p->profiles[i / LINE_COUNT], i % LINE_COUNT);

        if (why != NULL)
            return why;
    }
    return NULL;
}
