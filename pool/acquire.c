/* acquire.c - the order in which an acquire is served: the thread's leased box, its parked box, a
 * box the backend already runs under this id, a blank box (unless it is special), the queue. A
 * waiter may pass here several times: whenever what it waited for has changed. */
#include <string.h>

#include "pool/internal.h"

#define DISCOVER_NS (5 * NS_PER_S)
#define QUESTION_MIN_NS (250 * NS_PER_MS)
#define SPACE_RETRY_NS (5 * NS_PER_S)
#define RETRY_AFTER_MIN_NS (100 * NS_PER_MS)

static const struct refusal queue_full = {SP_QUEUE_FULL, "too many callers are waiting",
                                          RETRY_AFTER_MIN_NS, POOL_END_NONE};
static const struct refusal share_full = {
    SP_QUEUE_FULL, "this caller has used its share of the queue, the rest is kept for others",
    RETRY_AFTER_MIN_NS, POOL_END_NONE};

/* An older copy of the database may name an owner whose lease was undone before another caller got
 * the box. The labels show which. */
static const struct refusal not_listed = {SP_BACKEND_UNAVAILABLE,
                                          "the backend has not shown yet whose box it is", NS_PER_S,
                                          POOL_END_NONE};

static const struct refusal spent = {SP_BUDGET_EXCEEDED, "the user has used up its budget", 0,
                                     POOL_END_NONE};

static const struct refusal kept = {
    .code = SP_BACKEND_UNAVAILABLE,
    .reason = "the box has just ended, and its files were kept: try again",
    .retry_after_ns = NS_PER_MS};

static const char absent_text[] =
    "the thread's box does not answer and its backend does not show it: "
    "it is asked again before its lease ends";

static void refuse(struct pool *p, struct waiter *w, int code, const char *reason)
{
    struct refusal r = {.code = code, .reason = reason};

    waiter_refuse(p, w, &r);
}

/* Why no box is available now, and when to try again. `s`: the box it is about, or NULL. */
static struct refusal refusal_for(struct pool *p, const struct waiter *w, const struct slot *s)
{
    const struct profile *f = &p->profiles[w->acquire.profile];
    const struct profile *held_by = s != NULL ? profile_of(p, s) : f;
    struct refusal r = {.retry_after_ns = MAX_OF(f->provision_ns, RETRY_AFTER_MIN_NS)};

    assert(w->phase != WAITER_BOX || w->slot != NULL);
    if (w->phase == WAITER_BOX && w->slot->absences > 0) {
        r.code = SP_BACKEND_UNAVAILABLE;
        r.reason = absent_text;
        r.retry_after_ns = POOL_ABSENT_GAP_NS;
    } else if (w->phase == WAITER_COMMIT) {
        r.code = SP_STORE_UNAVAILABLE;
        r.reason = "the store does not answer in time";
    } else if (mode_of(p, held_by) == POOL_DRAINING) {
        mode_refuse(p, held_by, &r);
    } else if (!p->is_store_up) {
        r.code = SP_STORE_UNAVAILABLE;
        r.reason = "the store cannot be written";
    } else if (mode_of(p, held_by) == POOL_PAUSED) {
        mode_refuse(p, held_by, &r);
    } else if (w->tries > 0) {
        r.code = SP_BACKEND_UNAVAILABLE;
        r.reason = w->reason;
        if (w->retry_ns > p->now_ns)
            r.retry_after_ns = w->retry_ns - p->now_ns;
    } else if (w->phase != WAITER_BOX && p->total >= p->max_boxes) {
        r.code = SP_POOL_EXHAUSTED;
        r.reason = exhaust_text(p);
        p->exhaust.was_refused = true;
    } else if (w->phase != WAITER_BOX && p->is_space_low) {
        r.code = SP_BACKEND_UNAVAILABLE;
        r.reason = p->space_reason;
        r.retry_after_ns = SPACE_RETRY_NS;
    } else if (w->phase != WAITER_BOX && f->failures > 0) {
        r.code = SP_BACKEND_UNAVAILABLE;
        r.reason = f->reason;
        if (f->retry_ns > p->now_ns)
            r.retry_after_ns = f->retry_ns - p->now_ns;
    } else if (w->phase != WAITER_BOX && away_holds(p, f)) {
        r.code = SP_BACKEND_UNAVAILABLE;
        r.reason = "the backend has not answered earlier requests to make or destroy boxes";
    } else {
        r.code = SP_ACQUIRE_TIMEOUT;
        r.reason = "no box became ready in time";
    }
    return r;
}

struct refusal acquire_refusal(struct pool *p, const struct waiter *w)
{
    return refusal_for(p, w, w->phase == WAITER_BOX ? w->slot : NULL);
}

/* True if there is a place in the queue for it; else it has been refused. Acquires that joined it
 * have their places already. */
static bool has_place(struct pool *p, struct waiter *w)
{
    struct refusal r;

    if (p->waiting >= p->max_waiters)
        waiter_refuse(p, w, &queue_full);
    else if (!party_may_wait(p, w->acquire.principal))
        waiter_refuse(p, w, &share_full);
    else if (!holders_allow_wait(p, w, &r))
        waiter_refuse(p, w, &r);
    else
        return true;
    return false;
}

/* True when the waiter may stay; else it has been refused. */
static bool may_wait(struct pool *p, struct waiter *w)
{
    const struct profile *f = &p->profiles[w->acquire.profile];
    /* Otherwise it may wait for the trial, or for a blank box that is being verified. */
    bool is_hopeless =
        f->verifying == 0 && (p->is_space_low || (f->is_open && p->now_ns < f->retry_ns));

    if (w->acquire.deadline_ns <= p->now_ns || (is_hopeless && p->total < p->max_boxes)) {
        struct refusal r = acquire_refusal(p, w);

        waiter_refuse(p, w, &r);
        return false;
    }
    return has_place(p, w);
}

static void wait_for_box(struct pool *p, struct waiter *w, struct slot *s)
{
    if (w->acquire.deadline_ns <= p->now_ns) {
        struct refusal r = {.code = SP_ACQUIRE_TIMEOUT,
                            .reason = "the thread's box is not ready",
                            .retry_after_ns = RETRY_AFTER_MIN_NS};

        if (mode_of(p, profile_of(p, s)) == POOL_PAUSED)
            mode_refuse(p, profile_of(p, s), &r);
        if (s->absences > 0)
            r = (struct refusal){SP_BACKEND_UNAVAILABLE, absent_text, POOL_ABSENT_GAP_NS,
                                 POOL_END_NONE};
        waiter_refuse(p, w, &r);
    } else if (has_place(p, w)) {
        waiter_attach(p, w, s, WAITER_BOX, 0);
    }
}

/* A question to the backend takes no longer than the caller waits, but always has a short minimum
 * time. */
static uint64_t question_deadline(const struct pool *p, const struct waiter *w, uint64_t limit_ns)
{
    uint64_t at_ns = MIN_OF(time_after(p->now_ns, limit_ns), w->acquire.deadline_ns);

    return MAX_OF(at_ns, time_after(p->now_ns, QUESTION_MIN_NS));
}

static bool needs_check(struct pool *p, const struct slot *s, const struct waiter *w)
{
    const struct pool_profile *c = &profile_of(p, s)->conf;

    if (w->is_checked)
        return false;
    if (s->box.is_unseen || s->is_missing)
        return true;
    /* A listing that shows the box does not prove that the same one still runs in it. */
    return !box_is_watched(p, s) && time_after(s->answered_ns, c->check_after_ns) < p->now_ns;
}

static void check_first(struct pool *p, struct waiter *w, struct slot *s)
{
    waiter_attach(p, w, s, WAITER_CHECKING, 0);
    box_check(p, s, question_deadline(p, w, POOL_CHECK_NS));
}

/* Acquires that wait for the answer are served, or keep waiting for the next check. */
static void serve_checked(struct pool *p, struct slot *s, enum pool_verdict verdict)
{
    struct list_node *next = list_first(&s->waiters);

    if (s->box.state < POOL_BLANK)
        return; /* a listing did not show it: who waits for it to be made goes on waiting */
    for (size_t left = s->waiters.len; left > 0 && next != NULL; left--) {
        struct waiter *w = waiter_of(next);

        next = list_next(&s->waiters, next);
        if (w->phase != WAITER_CHECKING && w->phase != WAITER_BOX)
            continue;
        w->silences++;
        w->is_checked = recheck_is_enough(p, s, w, verdict);
        if (w->is_checked)
            waiter_enter(p, w, WAITER_REDO);
        else
            wait_for_box(p, w, s);
    }
}

void acquire_checked(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);
    enum pool_verdict verdict;

    if (s == NULL || s->box.epoch != ev->epoch || !s->is_checking) {
        p->late_answers++;
        return;
    }
    s->is_checking = false;
    verdict = recheck_answered(p, s, ev);
    doubt_answered(p, s, verdict);
    serve_checked(p, s, verdict);
    acquire_redo(p); /* before its own deadline or an eviction can end it */
    box_rank(p, s);
}

/* SP_OK if this caller may have that box. */
static int check_owner(const struct pool_acquire *a, const char *user, const char *thread,
                       uint64_t principal, unsigned profile)
{
    if (strcmp(a->user, user) != 0 || strcmp(a->thread, thread) != 0)
        return SP_OWNER_CONFLICT;
    if (a->principal != principal && !a->is_operator)
        return SP_FORBIDDEN;
    if (a->is_profile_named && a->profile != profile)
        return SP_SPEC_CONFLICT;
    return SP_OK;
}

/* What another program has made has no hash. */
bool pool_box_is_outdated(const struct pool_profile *p, const struct pool_box *box)
{
    return box->spec_hash != 0 && box->spec_hash != p->spec_hash && box->backend == p->backend &&
           !p->is_retired;
}

/* It is not what its profile is now, and the profile says what to do then. */
static bool is_outdated(struct pool *p, const struct slot *s, enum pool_drift drift)
{
    const struct pool_profile *c = &profile_of(p, s)->conf;

    return c->drift == drift && pool_box_is_outdated(c, &s->box);
}

static void serve_parked(struct pool *p, struct waiter *w, struct slot *s)
{
    enum pool_mode mode = mode_of(p, profile_of(p, s));

    if (mode == POOL_DRAINING || !p->is_store_up) {
        struct refusal r = refusal_for(p, w, s);

        waiter_refuse(p, w, &r);
    } else if (mode == POOL_PAUSED) {
        wait_for_box(p, w, s);
    } else if (needs_check(p, s, w)) {
        check_first(p, w, s);
    } else if (is_outdated(p, s, POOL_DRIFT_DESTROY)) {
        doom_box(p, s, POOL_END_DRIFT);
        waiter_enter(p, w, WAITER_REDO);
    } else if (is_outdated(p, s, POOL_DRIFT_REBASE) && !s->was_rebased) {
        hibernate_rebase(p, s);
        wait_for_box(p, w, s);
    } else {
        struct refusal r;

        if (holders_allow_box(p, w, &r))
            lease_begin(p, s, w, POOL_SRC_PARKED);
        else
            waiter_refuse(p, w, &r);
    }
}

/* The box was being made when the daemon ended, and its thread's files are in a snapshot it was not made from. */
static bool is_useless_for(const struct slot *s, const struct waiter *w)
{
    return s->is_unclaimed && w->acquire.is_restored && w->acquire.made_with != s->box.made_with &&
           (s->box.state == POOL_INTENT || s->box.state == POOL_STARTING ||
            s->box.state == POOL_PARKED);
}

/* The id has a box. */
static void serve_bound(struct pool *p, struct waiter *w, struct slot *s)
{
    const struct pool_box *b = &s->box;
    int code = check_owner(&w->acquire, b->user, b->thread, b->principal, b->profile);

    w->was_bound = true;
    if (code != SP_OK) {
        refuse(p, w, code, sp_error_info(code)->text);
        return;
    }
    if (b->is_stale && b->is_unseen) {
        waiter_refuse(p, w, &not_listed);
        return;
    }
    if (is_useless_for(s, w)) {
        doom_box(p, s, hibernate_unused_end(s));
        waiter_enter(p, w, WAITER_REDO);
        return;
    }
    if (waiter_is_spent(w, b->profile) && b->state != POOL_LEASED && b->state != POOL_LEASING) {
        waiter_refuse(p, w, &spent);
        return;
    }
    switch (b->state) {
    case POOL_LEASED:
        if (needs_check(p, s, w))
            check_first(p, w, s);
        else
            lease_keep(p, s, w);
        break;
    case POOL_LEASING:
        waiter_attach(p, w, s, WAITER_COMMIT, s->wait_write);
        break;
    case POOL_PARKED:
        serve_parked(p, w, s);
        break;
    case POOL_INTENT:
    case POOL_CREATING:
    case POOL_STARTING:
    case POOL_PARKING:
        wait_for_box(p, w, s);
        break;
    case POOL_FREE:
    case POOL_BLANK:
    case POOL_DOOMED:
    case POOL_DESTROYING:
    case POOL_FORGETTING:
    case POOL_STATE_COUNT:
        assert(false); /* not bound in these */
    }
}

/* True when its caller and its user may have one more box; else it has been refused. */
static bool has_quota(struct pool *p, struct waiter *w)
{
    struct refusal r;

    if (holders_allow_box(p, w, &r) && holders_allow_lease(p, w, &r))
        return true;
    waiter_refuse(p, w, &r);
    return false;
}

/* Another acquire of this thread waits already: both share one box, if it fits both. */
static void join_thread(struct pool *p, struct waiter *w, struct waiter *primary)
{
    const struct pool_acquire *a = &primary->acquire;
    int code = check_owner(&w->acquire, a->user, a->thread, a->principal, a->profile);

    if (code == SP_OK && w->acquire.is_special &&
        (!a->is_special || w->acquire.made_with != a->made_with))
        code = SP_SPEC_CONFLICT;
    if (code != SP_OK) {
        refuse(p, w, code, sp_error_info(code)->text);
        return;
    }
    if (may_wait(p, w))
        waiter_join(p, w, primary);
}

static void discover_first(struct pool *p, struct waiter *w)
{
    if (!has_place(p, w))
        return;
    p->epoch++;
    waiter_enter(p, w, WAITER_DISCOVERING);
    w->epoch = p->epoch;
    emit_discover(p, w, question_deadline(p, w, DISCOVER_NS));
}

/* A blank box, or a place in the queue. */
static void serve_new(struct pool *p, struct waiter *w)
{
    struct profile *f = &p->profiles[w->acquire.profile];
    struct slot *s = w->acquire.is_special ? NULL : lease_find_blank(p, w->acquire.profile);

    if (!w->is_counted && !w->acquire.is_special) { /* blank boxes are for other acquires */
        admit_count_arrival(p, f);
        w->is_counted = true;
    }
    if (mode_of(p, f) == POOL_RUNNING && f->waiting[LINE_BLANK] == 0 && s != NULL) {
        lease_begin(p, s, w, lease_source(s, w));
        return;
    }
    if (!may_wait(p, w))
        return;
    w->was_queued = true;
    waiter_enter(p, w, w->retry_ns > p->now_ns ? WAITER_PAUSED : WAITER_QUEUED);
}

/* Its thread's box has ended. When it came, nothing had to be known of a snapshot with the files of the id; now a new box
 * without them would be wrong. */
static bool must_ask_again(const struct waiter *w)
{
    return w->was_bound && w->acquire.thread[0] != '\0' && !w->acquire.is_restored;
}

static void ask_again(struct pool *p, struct waiter *w)
{
    w->acquire.commit_ns = w->commit_ns;
    emit_again(p, w);
    waiter_end(p, w);
}

void acquire_dispatch(struct pool *p, struct waiter *w)
{
    struct slot *s = bind_find(p, w->acquire.sandbox_id);
    struct waiter *primary;
    const struct profile *f;

    if (s != NULL) {
        serve_bound(p, w, s);
        return;
    }
    if (w->is_kept_unknown) {
        waiter_refuse(p, w, &kept);
        return;
    }
    if (must_ask_again(w)) {
        ask_again(p, w);
        return;
    }
    if (w->acquire.is_spent) {
        waiter_refuse(p, w, &spent);
        return;
    }
    primary = waiter_find_thread(p, w->acquire.sandbox_id);
    if (primary != NULL) {
        join_thread(p, w, primary);
        return;
    }
    f = &p->profiles[w->acquire.profile];
    if (w->acquire.profile >= p->profile_count || f->conf.is_retired) {
        refuse(p, w, SP_NOT_FOUND, "profile removed");
    } else if (mode_of(p, f) == POOL_DRAINING || !p->is_store_up) {
        struct refusal r = acquire_refusal(p, w);

        waiter_refuse(p, w, &r);
    } else if (f->conf.want_discover && !w->is_discovered && w->acquire.thread[0] != '\0') {
        /* a random id cannot exist already */
        if (has_quota(p, w))
            discover_first(p, w);
    } else if (has_quota(p, w)) {
        serve_new(p, w);
    }
}

void acquire_step(struct pool *p, const struct pool_event *ev)
{
    struct waiter *w = waiter_new(p, ev);

    if (w == NULL) {
        p->refusals++;
        emit_refusal(p, ev->req, &queue_full, 0);
        return;
    }
    if (w->acquire.profile >= POOL_PROFILES_MAX || w->acquire.sandbox_id[0] == '\0') {
        refuse(p, w, SP_INVALID_FIELD, "no such profile");
        return;
    }
    acquire_dispatch(p, w);
}

void acquire_redo(struct pool *p)
{
    for (struct list_node *n = list_first(&p->redo); n != NULL; n = list_first(&p->redo)) {
        struct waiter *w = waiter_of(n);

        waiter_enter(p, w, WAITER_NEW);
        acquire_dispatch(p, w);
    }
}
