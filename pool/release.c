/* release.c - requests of the owner of a box: release, renew, destroy, pause. A stale generation or a
 * wrong caller is refused before anything changes. */
#include "pool/internal.h"

static void refuse(struct pool *p, struct req_id req, int code)
{
    struct refusal r = {.code = code, .reason = sp_error_info(code)->text};

    if (code == SP_STORE_UNAVAILABLE)
        r.retry_after_ns = POOL_REWRITE_NS;
    p->refusals++;
    emit_refusal(p, req, &r, 0);
}

/* One that is being removed is lost for every verb that needs it, as for calls to it: its row is still there, and what
 * ended it is known. */
static bool refuse_dying(struct pool *p, const struct pool_event *ev, const struct slot *s)
{
    struct refusal r = {
        .code = SP_SANDBOX_LOST, .lost = s->box.end, .reason = "the sandbox is being removed"};

    if (!box_is_dying(s) || s->box.end == POOL_END_NONE)
        return false;
    p->refusals++;
    emit_refusal(p, ev->req, &r, 0);
    return true;
}

/* The id is no longer bound: its former owner gets the reason of the end. */
static void refuse_unbound(struct pool *p, const struct pool_event *ev)
{
    const struct past *past = past_find(p, ev->u.on.sandbox_id);
    struct refusal r = {.code = SP_SANDBOX_LOST};

    if (past == NULL || !pool_end_is_loss(past->end) ||
        (past->owner->principal != ev->u.on.principal && !ev->u.on.is_operator)) {
        refuse(p, ev->req, SP_NOT_FOUND);
        return;
    }
    r.lost = past->end;
    r.reason = "the sandbox was removed";
    if (pool_end_is_death(past->end))
        r.reason = "the sandbox died";
    if (past->end == POOL_END_RESTARTED)
        r.reason = "the machine was restarted, and the sandbox ended with it";
    p->refusals++;
    emit_refusal(p, ev->req, &r, 0);
}

static struct slot *find_by_name(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = bind_find(p, ev->u.on.sandbox_id);
    const struct pool_box *box = s == NULL ? pool_find_deleting(p, ev->u.on.sandbox_id) : NULL;

    return box != NULL ? box_find(p, box->id) : s;
}

/* The box of the event, or NULL after a refusal. */
static struct slot *find_target(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = ev->box.v != 0 ? box_find(p, ev->box) : find_by_name(p, ev);

    if (s == NULL) {
        if (ev->box.v != 0)
            refuse(p, ev->req, SP_NOT_FOUND);
        else
            refuse_unbound(p, ev);
        return NULL;
    }
    if (!ev->u.on.is_operator && s->box.principal != ev->u.on.principal) {
        refuse(p, ev->req, SP_NOT_FOUND); /* as if there were none */
        return NULL;
    }
    if (ev->u.on.generation != 0 && ev->u.on.generation != s->box.generation) {
        refuse(p, ev->req, SP_STALE_GENERATION);
        return NULL;
    }
    return s;
}

static struct waiter *wait_for(struct pool *p, const struct pool_event *ev, struct slot *s,
                               enum waiter_phase phase, uint64_t write)
{
    struct waiter *w = waiter_new(p, ev);

    if (w == NULL)
        refuse(p, ev->req, SP_QUEUE_FULL);
    else if (phase != WAITER_NEW)
        waiter_attach(p, w, s, phase, write);
    return w;
}

/* An acquire must not be answered with a box (`kept`) that was released in the meantime. */
static void redo_kept(struct pool *p, struct slot *s)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        next = list_next(&s->waiters, n);
        if (waiter_of(n)->kind == POOL_EV_ACQUIRE)
            waiter_enter(p, waiter_of(n), WAITER_REDO);
    }
}

static void park(struct pool *p, const struct pool_event *ev, struct slot *s)
{
    struct waiter *w = wait_for(p, ev, s, WAITER_NEW, 0);
    bool is_pausing;

    if (w == NULL)
        return;
    s->is_known = true;
    s->was_parked = s->box.state == POOL_PARKED;
    redo_kept(p, s);
    s->box.parked_ns = p->now_ns;
    box_set_state(p, s, POOL_PARKING);
    is_pausing = !s->box.is_paused && profile_of(p, s)->conf.want_freeze;
    s->box.is_paused = s->box.is_paused || is_pausing;
    s->wait_write = box_write(p, s, POOL_WRITE_LEASE);
    if (is_pausing)
        s->pause_write = s->wait_write;
    waiter_attach(p, w, s, WAITER_COMMIT, s->wait_write);
}

static void doom_for(struct pool *p, const struct pool_event *ev, struct slot *s, enum pool_end end,
                     enum waiter_phase phase)
{
    if (wait_for(p, ev, s, phase, 0) == NULL)
        return;
    doom_box(p, s, end);
    if (!p->is_store_up)
        doom_unrecorded(p, s);
}

/* One whose reply was not delivered is parked at once, and its row is written later: until then a
 * crash would restore the lease. */
static bool is_stored(const struct slot *s)
{
    return !list_is_linked(&s->dirty_link) && s->open_writes == 0;
}

static void destroy(struct pool *p, const struct pool_event *ev, struct slot *s)
{
    enum waiter_phase phase = ev->u.on.is_quick ? WAITER_DELETED : WAITER_GONE;
    bool is_committed = s->box.state == POOL_DESTROYING || s->box.state == POOL_FORGETTING;

    if (s->box.state == POOL_FORGETTING || (is_committed && ev->u.on.is_quick))
        emit_reply_ok(p, ev->req, s, POOL_SRC_NONE, 0);
    else if (!box_is_dying(s))
        doom_for(p, ev, s, POOL_END_DESTROYED, phase);
    else if (wait_for(p, ev, s, phase, 0) != NULL && s->box.state == POOL_DOOMED && !p->is_store_up)
        doom_unrecorded(p, s);
}

static void release(struct pool *p, const struct pool_event *ev, struct slot *s)
{
    bool want_park = s->box.thread[0] != '\0' && !ev->u.on.want_destroy &&
                     profile_of(p, s)->conf.park_ns > 0 && !profile_of(p, s)->conf.is_retired;

    if (s->box.state == POOL_PARKED && !ev->u.on.want_destroy && is_stored(s)) {
        emit_reply_ok(p, ev->req, s, POOL_SRC_NONE, 0);
        return;
    }
    if (box_is_dying(s) && ev->u.on.want_destroy) {
        destroy(p, ev, s);
        return;
    }
    if (refuse_dying(p, ev, s))
        return;
    if (s->box.state != POOL_LEASED && s->box.state != POOL_PARKED &&
        s->box.state != POOL_PARKING) {
        refuse(p, ev->req, SP_NOT_LEASED);
        return;
    }
    if (!p->is_store_up && !ev->u.on.want_destroy && (want_park || s->box.state != POOL_LEASED))
        refuse(p, ev->req, SP_STORE_UNAVAILABLE);
    else if (s->box.state == POOL_PARKING && !ev->u.on.want_destroy)
        (void) wait_for(p, ev, s, WAITER_COMMIT, s->wait_write); /* NULL: answered already */
    else if (s->box.state == POOL_PARKED ? !ev->u.on.want_destroy : want_park)
        park(p, ev, s);
    else
        doom_for(p, ev, s, POOL_END_RELEASED,
                 ev->u.on.want_destroy && !ev->u.on.is_quick ? WAITER_GONE : WAITER_DELETED);
}

static void renew(struct pool *p, const struct pool_event *ev, struct slot *s)
{
    struct waiter *w;

    if (refuse_dying(p, ev, s))
        return;
    if (s->box.state != POOL_LEASED) {
        refuse(p, ev->req, SP_NOT_LEASED);
        return;
    }
    if (ev->u.on.is_spent) {
        refuse(p, ev->req, SP_BUDGET_EXCEEDED);
        return;
    }
    if (!p->is_store_up) {
        refuse(p, ev->req, SP_STORE_UNAVAILABLE);
        return;
    }
    w = wait_for(p, ev, s, WAITER_NEW, 0);
    if (w == NULL)
        return;
    s->is_known = true;
    lease_extend(p, s, w, ev->u.on.ttl_ns);
}

/* A parked box is parked once more, so that an acquire waits for this commit. */
static void pause_box(struct pool *p, const struct pool_event *ev, struct slot *s)
{
    bool is_frozen = s->box.is_paused && s->pause_write == 0; /* or is about to be */
    struct waiter *w;
    uint64_t write;

    if (refuse_dying(p, ev, s))
        return;
    if (s->box.state != POOL_LEASED && s->box.state != POOL_PARKED) {
        refuse(p, ev->req, SP_NOT_LEASED);
        return;
    }
    if (s->box.is_paused && is_stored(s)) {
        emit_reply_ok(p, ev->req, s, POOL_SRC_NONE, 0);
        return;
    }
    if (!p->is_store_up || !writes_is_settled(s)) {
        refuse(p, ev->req, SP_STORE_UNAVAILABLE);
        return;
    }
    w = wait_for(p, ev, s, WAITER_NEW, 0);
    if (w == NULL)
        return;
    s->is_known = true;
    s->box.is_paused = true;
    if (s->box.state == POOL_PARKED) {
        s->was_parked = true;
        box_set_state(p, s, POOL_PARKING);
    }
    write = box_write(p, s, POOL_WRITE_LEASE);
    if (!is_frozen)
        s->pause_write = write;
    if (s->box.state == POOL_PARKING)
        s->wait_write = write;
    waiter_attach(p, w, s, WAITER_COMMIT, write);
}

void release_step(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = find_target(p, ev);

    if (s == NULL)
        return;
    if (ev->kind == POOL_EV_RELEASE)
        release(p, ev, s);
    else if (ev->kind == POOL_EV_RENEW)
        renew(p, ev, s);
    else if (ev->kind == POOL_EV_PAUSE)
        pause_box(p, ev, s);
    else
        destroy(p, ev, s);
}

/* PARKING, committed. */
void release_stored(struct pool *p, struct slot *s)
{
    uint64_t write = s->wait_write;
    struct list_node *next;

    box_set_state(p, s, POOL_PARKED);
    emit_event(p, POOL_FACT_PARKED, s, NULL);
    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        struct waiter *w = waiter_of(n);

        next = list_next(&s->waiters, n);
        if (w->kind != POOL_EV_ACQUIRE && w->write == write)
            waiter_ok(p, w, s, POOL_SRC_NONE);
    }
}

void release_failed(struct pool *p, struct slot *s)
{
    struct refusal r = {.code = SP_STORE_UNAVAILABLE,
                        .reason = "the store cannot be written",
                        .retry_after_ns = POOL_REWRITE_NS};
    uint64_t write = s->wait_write;
    struct list_node *next;

    if (!s->was_parked)
        s->box.parked_ns = 0;
    box_set_state(p, s, s->was_parked ? POOL_PARKED : POOL_LEASED);
    box_mark_dirty(p, s, time_after(p->now_ns, POOL_REWRITE_NS));
    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = next) {
        struct waiter *w = waiter_of(n);

        next = list_next(&s->waiters, n);
        if (w->kind != POOL_EV_ACQUIRE && w->write == write)
            waiter_refuse(p, w, &r);
    }
}
