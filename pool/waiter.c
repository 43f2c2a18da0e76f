/* waiter.c - requests that cannot be answered yet. A waiter is in exactly one phase, which decides
 * its list, map and heap; waiter_enter() is the one place that changes it. */
#include <string.h>

#include "pool/internal.h"

#define AGAIN_MIN_NS (250 * NS_PER_MS)
#define COMMIT_MIN_NS (1 * NS_PER_S) /* least time an acquire has for its commit */

static bool eq_req(const struct map_node *node, const void *key)
{
    return container_of(node, struct waiter, by_req)->req.v == *(const uint64_t *) key;
}

static bool eq_thread(const struct map_node *node, const void *key)
{
    return strcmp(container_of(node, struct waiter, by_sandbox)->acquire.sandbox_id, key) == 0;
}

struct waiter *waiter_find(const struct pool *p, struct req_id req)
{
    struct map_node *n = map_find(&p->reqs, req.v, eq_req, &req.v);

    return n != NULL ? container_of(n, struct waiter, by_req) : NULL;
}

struct waiter *waiter_find_thread(const struct pool *p, const char *sandbox_id)
{
    struct map_node *n = map_find(&p->threads, hash_str(sandbox_id), eq_thread, sandbox_id);

    return n != NULL ? container_of(n, struct waiter, by_sandbox) : NULL;
}

/* One that was used before, if there is one: so no more memory is touched than needed. */
static struct waiter *take_free(struct pool *p)
{
    struct list_node *n = list_pop_front(&p->free_waiters);

    if (n != NULL)
        return waiter_of(n);
    if (p->waiter_count == p->waiter_max)
        return NULL;
    p->waiter_count++;
    return &p->waiters[p->waiter_count - 1];
}

/* While an acquire refers to a profile by its index, that index is not given to another profile. */
static void count_meant(struct pool *p, const struct waiter *w, int delta)
{
    if (w->kind == POOL_EV_ACQUIRE && w->acquire.profile < POOL_PROFILES_MAX)
        p->profiles[w->acquire.profile].meant += (unsigned) delta;
}

struct waiter *waiter_new(struct pool *p, const struct pool_event *ev)
{
    struct waiter *w = take_free(p);

    if (w == NULL)
        return NULL;
    assert(waiter_find(p, ev->req) == NULL);
    memset(w, 0, sizeof(*w));
    w->req = ev->req;
    w->kind = ev->kind;
    w->phase = WAITER_NEW;
    w->since_ns = p->now_ns;
    list_init(&w->joined);
    if (ev->kind == POOL_EV_ACQUIRE) {
        w->acquire = ev->u.acquire;
        if (w->acquire.commit_ns != 0) /* given again: never over before it has begun */
            w->commit_ns = MAX_OF(w->acquire.commit_ns, time_after(p->now_ns, AGAIN_MIN_NS));
    }
    count_meant(p, w, 1);
    map_insert(&p->reqs, &w->by_req,
               w->req.v); /* they count up: neighbours share a line of the cache */
    return w;
}

/* Waits for something other than a commit: counts against max_waiters and has a deadline. */
static bool phase_is_waiting(enum waiter_phase phase)
{
    return phase == WAITER_QUEUED || phase == WAITER_JOINED || phase == WAITER_BOX ||
           phase == WAITER_DISCOVERING || phase == WAITER_PAUSED;
}

/* A discovery and a check have the deadline of their effect. Requests that wait for a commit and
 * have no deadline are answered when the disk is known to hang: waiter_store_down(). */
static uint64_t phase_deadline(const struct pool *p, struct waiter *w)
{
    switch (w->phase) {
    case WAITER_QUEUED:
    case WAITER_JOINED:
    case WAITER_BOX:
        return w->acquire.deadline_ns;
    case WAITER_PAUSED:
        return MIN_OF(w->retry_ns, w->acquire.deadline_ns);
    case WAITER_COMMIT: /* a box that arrives at the last moment must still be stored */
        if (w->kind != POOL_EV_ACQUIRE)
            return POOL_NEVER;
        if (w->commit_ns == 0) /* once, however often it looks for another box */
            w->commit_ns = time_after(p->now_ns, COMMIT_MIN_NS);
        return MAX_OF(w->acquire.deadline_ns, w->commit_ns);
    case WAITER_GONE: /* however many tries that takes, and whatever the pauses between them are */
        return time_after(w->since_ns, p->profiles[w->slot->box.profile].conf.destroy_timeout_ns);
    case WAITER_FREE:
    case WAITER_NEW:
    case WAITER_REDO:
    case WAITER_DISCOVERING:
    case WAITER_CHECKING:
    case WAITER_DELETED:
    case WAITER_PHASE_COUNT:
        break;
    }
    return POOL_NEVER;
}

static struct list *phase_list(struct pool *p, struct waiter *w)
{
    switch (w->phase) {
    case WAITER_FREE:
        return &p->free_waiters;
    case WAITER_REDO:
        return &p->redo;
    case WAITER_JOINED:
        return &w->primary->joined;
    case WAITER_DISCOVERING:
        return &p->discovering;
    case WAITER_BOX:
    case WAITER_CHECKING:
    case WAITER_COMMIT:
    case WAITER_DELETED:
    case WAITER_GONE:
        return &w->slot->waiters;
    case WAITER_NEW:
    case WAITER_PAUSED: /* found by its thread and by the heap of deadlines */
    case WAITER_QUEUED: /* turns.c */
    case WAITER_PHASE_COUNT:
        break;
    }
    return NULL;
}

/* It is no longer the one of its thread that waits for a new box. */
static void unlink_thread(struct pool *p, struct waiter *w)
{
    if (w->by_sandbox.is_linked)
        holders_claim(p, w, false);
    map_remove(&p->threads, &w->by_sandbox);
}

static void leave_phase(struct pool *p, struct waiter *w)
{
    struct list *l = phase_list(p, w);

    if (w->phase == WAITER_QUEUED && w->turn != NULL)
        turn_remove(p, w);
    else if (l != NULL)
        list_remove(l, &w->link);
    if (phase_is_waiting(w->phase))
        party_leave(p, w);
    unlink_thread(p, w);
    heap_remove(&p->deadlines, &w->deadline);
    w->slot = NULL;
    w->primary = NULL;
    w->write = 0;
    w->phase = WAITER_NEW;
}

/* An heir arrives with the turn it takes over. */
static void join_phase(struct pool *p, struct waiter *w, enum waiter_phase phase)
{
    struct list *l;
    uint64_t deadline_ns;

    w->phase = phase;
    l = phase_list(p, w);
    if (phase_is_waiting(phase))
        party_enter(p, w);
    if (phase == WAITER_QUEUED && w->turn == NULL)
        turn_push(p, w);
    else if (phase == WAITER_REDO && w->acquire.is_special)
        list_push_front(l, &w->link); /* the others of its thread can share its box, but it cannot
                                    * share theirs */
    else if (l != NULL)
        list_push_back(l, &w->link);
    if (phase == WAITER_QUEUED || phase == WAITER_DISCOVERING || phase == WAITER_PAUSED) {
        map_insert(&p->threads, &w->by_sandbox, hash_str(w->acquire.sandbox_id));
        holders_claim(p, w, true);
    }
    deadline_ns = phase_deadline(p, w);
    if (deadline_ns != POOL_NEVER)
        heap_set(&p->deadlines, &w->deadline, deadline_ns);
}

void waiter_enter(struct pool *p, struct waiter *w, enum waiter_phase phase)
{
    leave_phase(p, w);
    join_phase(p, w, phase);
}

void waiter_join(struct pool *p, struct waiter *w, struct waiter *primary)
{
    leave_phase(p, w);
    w->primary = primary;
    join_phase(p, w, WAITER_JOINED);
    /* Waiters that joined this one now wait for the same. */
    for (struct list_node *n = list_first(&w->joined); n != NULL; n = list_first(&w->joined)) {
        struct waiter *j = waiter_of(n);

        leave_phase(p, j);
        j->primary = primary;
        join_phase(p, j, WAITER_JOINED);
    }
}

static void attach_one(struct pool *p, struct waiter *w, struct slot *s, enum waiter_phase phase,
                       uint64_t write)
{
    leave_phase(p, w);
    w->slot = s;
    join_phase(p, w, phase);
    w->write = write;
}

void waiter_attach(struct pool *p, struct waiter *w, struct slot *s, enum waiter_phase phase,
                   uint64_t write)
{
    attach_one(p, w, s, phase, write);
    for (struct list_node *n = list_first(&w->joined); n != NULL; n = list_first(&w->joined))
        attach_one(p, waiter_of(n), s, phase, write);
}

void waiter_redo_all(struct pool *p, struct slot *s)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        struct waiter *w = waiter_of(n);

        next = list_next(&s->waiters, n);
        if (w->phase == WAITER_BOX || w->phase == WAITER_CHECKING)
            waiter_enter(p, w, WAITER_REDO);
    }
}

/* The first waiter that joined `w`, special ones before the others; NULL if there is none. */
static struct waiter *find_heir(const struct waiter *w)
{
    struct list_node *first = list_first(&w->joined);

    for (struct list_node *n = first; n != NULL; n = list_next(&w->joined, n))
        if (waiter_of(n)->acquire.is_special)
            return waiter_of(n);
    return first != NULL ? waiter_of(first) : NULL;
}

/* A turn belongs to one profile. The extras that a box is made with were computed for the profile
 * that the caller named: the backend of another profile may need more of them at creation. */
static bool can_take_turn(const struct waiter *w, const struct waiter *heir)
{
    return w->phase == WAITER_QUEUED && line_of(w) == line_of(heir) &&
           w->acquire.principal == heir->acquire.principal &&
           !waiter_is_spent(heir, w->acquire.profile) &&
           (heir->acquire.made_with == 0 || heir->acquire.profile == w->acquire.profile);
}

/* The heir becomes what `w` was. */
static void hand_over(struct pool *p, struct waiter *w)
{
    struct waiter *heir = find_heir(w);
    struct list_node *n;

    if (heir == NULL)
        return;
    leave_phase(p, heir);
    if (heir->acquire.is_special && heir->tries < w->tries) { /* the pause is shared by its
                                                               * thread */
        heir->tries = w->tries;
        heir->retry_ns = w->retry_ns;
        memcpy(heir->reason, w->reason, sizeof(heir->reason));
    }
    if (can_take_turn(w, heir)) {
        unlink_thread(p, w);
        turn_replace(p, w, heir);
        count_meant(p, heir, -1);
        heir->acquire.profile = w->acquire.profile;
        count_meant(p, heir, 1);
        heir->was_queued = true;
        heir->is_counted = true;
        join_phase(p, heir, WAITER_QUEUED);
    } else {
        join_phase(p, heir, WAITER_REDO); /* a discovery answers to its own request only */
    }
    for (n = list_first(&w->joined); n != NULL; n = list_first(&w->joined)) {
        struct waiter *j = waiter_of(n);

        leave_phase(p, j);
        j->primary = heir;
        join_phase(p, j, WAITER_JOINED);
    }
}

void waiter_end(struct pool *p, struct waiter *w)
{
    struct slot *s = w->slot;

    hand_over(p, w);
    leave_phase(p, w);
    count_meant(p, w, -1);
    map_remove(&p->reqs, &w->by_req);
    w->phase = WAITER_FREE;
    list_push_front(&p->free_waiters, &w->link);
    if (s != NULL) {
        make_left(p, s);
        lease_left(p, s);
    }
}

void waiter_ok(struct pool *p, struct waiter *w, struct slot *s, enum pool_source source)
{
    if (w->kind == POOL_EV_ACQUIRE) {
        p->acquires[source]++;
        s->reply_count++;
    }
    emit_reply_ok(p, w->req, s, source, p->now_ns - w->since_ns);
    waiter_end(p, w);
}

void waiter_refuse(struct pool *p, struct waiter *w, const struct refusal *r)
{
    p->refusals++;
    emit_refusal(p, w->req, r, p->now_ns - w->since_ns);
    waiter_end(p, w);
}

void waiter_overdue(struct pool *p, struct waiter *w)
{
    struct refusal r;

    if (w->phase == WAITER_GONE) {
        doom_answer(p, w);
        return;
    }
    if (w->phase == WAITER_PAUSED && w->acquire.deadline_ns > p->now_ns) {
        waiter_enter(p, w, WAITER_REDO); /* its pause is over */
        return;
    }
    if (w->phase == WAITER_COMMIT && w->kind == POOL_EV_ACQUIRE &&
        w->slot->box.state == POOL_LEASED) {
        lease_keep_old(p, w->slot, w);
        return;
    }
    if (w->phase == WAITER_BOX && w->silences > 0 && !w->is_checked && w->slot->absences == 0 &&
        (w->slot->box.state == POOL_LEASED || w->slot->box.state == POOL_PARKED)) {
        w->is_checked = true; /* nobody reports that it is gone: its owner gets it as it is */
        waiter_enter(p, w, WAITER_REDO);
        return;
    }
    r = acquire_refusal(p, w);
    waiter_refuse(p, w, &r);
}

/* It is only being verified. */
static bool has_its_box(const struct waiter *w)
{
    return w->phase == WAITER_BOX && w->slot->box.state == POOL_LEASED;
}

/* Also when the disk hangs: then the writes have no result for a while. They are settled when it is
 * known; a lease without any reply is undone. */
void waiter_store_down(struct pool *p)
{
    for (size_t i = 0; i < p->waiter_count; i++) {
        struct waiter *w = &p->waiters[i];
        bool is_end = w->phase == WAITER_DELETED || w->phase == WAITER_GONE;

        if (has_its_box(w))
            continue;
        if (w->phase == WAITER_QUEUED || w->phase == WAITER_JOINED || w->phase == WAITER_BOX ||
            w->phase == WAITER_COMMIT)
            waiter_overdue(p, w);
        else if (is_end && w->slot->box.state == POOL_DOOMED)
            doom_unrecorded(p, w->slot);
    }
}

/* Of the box it waits for, else the one it asked for, or that it would take over from who asked before. */
static const struct profile *profile_of_waiter(struct pool *p, const struct waiter *w)
{
    if (w->phase == WAITER_BOX)
        return profile_of(p, w->slot);
    return &p->profiles[(w->phase == WAITER_JOINED ? w->primary : w)->acquire.profile];
}

void waiter_refuse_drained(struct pool *p)
{
    for (size_t i = 0; i < p->waiter_count; i++) {
        struct waiter *w = &p->waiters[i];
        struct refusal r = {.code = SP_OK};

        if (has_its_box(w))
            continue;
        if (w->phase != WAITER_QUEUED && w->phase != WAITER_JOINED && w->phase != WAITER_BOX &&
            w->phase != WAITER_PAUSED)
            continue;
        if (mode_of(p, profile_of_waiter(p, w)) != POOL_DRAINING)
            continue;
        mode_refuse(p, profile_of_waiter(p, w), &r);
        waiter_refuse(p, w, &r);
    }
}
