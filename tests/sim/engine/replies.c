/* replies.c - the answers that callers get. An acknowledged lease must be kept: it ends by its
 * owner's request, by its deadline, or because the box is really dead. Nothing is acknowledged that
 * is not on the disk. */
#include <stdio.h>
#include <string.h>

#include "../trace.h"
#include "base/str.h"
#include "walk.h"

/* --- a box was given --- */

static bool is_restarted(const struct walk_box *real, const struct pool_box *b)
{
    char life[BACKEND_LIFE_MAX + 1];

    boxes_put_life(real, life);
    return b->life[0] != '\0' && strcmp(b->life, life) != 0;
}

static void judge_row(const struct pool_fx *fx, const struct walk_client *c)
{
    const struct walk_row *row = disk_row(fx->box.v);
    const struct pool_box *b = &fx->snapshot;

    if (row == NULL || strcmp(row->state, "leased") != 0 || row->generation != b->generation ||
        strcmp(row->sandbox_id, c->sandbox_id) != 0 || strcmp(row->token, b->token) != 0)
        walk_fail("a box was promised before its lease was committed");
    if (strcmp(b->sandbox_id, c->sandbox_id) != 0 || strcmp(b->thread, c->thread) != 0)
        walk_fail("a box was given to somebody else");
}

static void judge_extras(const struct pool_fx *fx, const struct walk_request *r,
                         const struct walk_box *real)
{
    enum pool_source source = fx->u.reply.source;
    unsigned late = backends_late(real->backend);
    bool is_fresh = source == POOL_SRC_WARM || source == POOL_SRC_COLD;

    if (r->is_excessive && (r->kinds & BACKEND_LATE_LIMITS) != 0)
        walk_fail("limits above those of the profile were granted");
    if ((late & r->marked) != 0 && (real->mark != r->number || real->is_half))
        walk_fail("an acquire was answered before its extras were applied");
    if (is_fresh && real->is_half && real->shown_epoch != fx->snapshot.epoch)
        walk_fail("a box that is half changed was given");
    if (source == POOL_SRC_WARM && real->is_special)
        walk_fail("a box made for one caller was kept warm");
}

static void on_taken(struct rt_timer *timer)
{
    struct walk_request *r = container_of(timer, struct walk_request, taken);
    struct box_id box = {r->box};

    if (r->is_lost && r->box != 0) {
        walk_say("number %llu is not delivered", (unsigned long long) r->number);
        walk.undelivered++;
        engine_undelivered(walk.engine, &r->call, box, false);
    }
    callers_end(r);
}

static void plan_taken(struct walk_request *r)
{
    rt_timer_set(&walk.rt, &r->taken,
                 walk_now() + (walk_one_in(8) ? walk_ms(0, 3000) : walk_ms(0, 20)), on_taken);
}

static void note_lease(const struct pool_fx *fx, struct walk_client *c)
{
    const struct pool_box *b = &fx->snapshot;

    if (c->is_acked && c->in_doubt == 0 && (c->box != fx->box.v || c->generation != b->generation))
        walk_fail("a thread has two boxes");
    if (c->thread[0] != '\0' && c->box != fx->box.v && b->generation <= c->generation)
        walk_fail("a new box came with an old generation");
    if (c->box != fx->box.v || !c->is_acked) {
        c->busy = 0;
        c->promised_ns = 0;
    }
    c->is_acked = true;
    c->box = fx->box.v;
    c->generation = b->generation;
    c->active_ns = b->active_ns;
}

static void acquired(const struct pool_fx *fx, struct walk_request *r, struct walk_client *c)
{
    struct walk_box *real = boxes_find(fx->box.v);

    judge_row(fx, c);
    if (real == NULL)
        walk_fail("a box was given that never existed");
    judge_extras(fx, r, real);
    /* Else adopted, and nobody knows what from; or its owner has destroyed the snapshot meanwhile. */
    if (fx->snapshot.made_with != 0 && !snapshots_is_waived(c->sandbox_id))
        sides_judge(real, r);
    checks_saw(&fx->snapshot);
    r->box = fx->box.v;
    r->is_lost = walk_chance(walk.steps / 100 % 6 == 5 ? 60 : 6); /* now and then all are */
    real->shown_epoch = fx->snapshot.epoch;
    if (!r->is_lost)
        real->held_epoch = fx->snapshot.epoch;
    if (!r->is_lost)
        note_lease(fx, c);
}

/* --- other replies --- */

/* Then a box is destroyed without its row. */
static bool is_unwritable(const struct walk_row *row)
{
    struct pool_stats stats;

    pool_get_stats(engine_pool(walk.engine), &stats);
    return !stats.is_store_up || row->is_unrecorded || row->has_failed;
}

static void judge_end(const struct pool_fx *fx, const struct walk_request *r)
{
    const struct walk_row *row = disk_row(fx->box.v);
    const struct walk_box *real = boxes_find(fx->box.v);

    if (row != NULL && strcmp(row->state, "deleting") != 0 && !is_unwritable(row))
        walk_fail("an end was confirmed before it was committed");
    if (r->is_destroy && !r->is_quick && fx->snapshot.state != POOL_DESTROYING && real != NULL &&
        real->is_running && !real->is_exempt)
        walk_fail("a box was reported as gone that runs");
}

static void renewed(const struct pool_fx *fx, const struct walk_request *r, struct walk_client *c)
{
    const struct walk_row *row = disk_row(fx->box.v);

    /* It may have been released since. */
    if (row == NULL || (strcmp(row->state, "leased") != 0 && strcmp(row->state, "parked") != 0) ||
        row->generation != fx->snapshot.generation)
        walk_fail("a renewal was confirmed of a lease that is not in the store");
    if (r->number == c->last_req && fx->box.v == c->box && !callers_has_open(r->client))
        c->promised_ns = MIN_OF(r->until_ns, c->overlap_ns);
}

static void released(const struct pool_fx *fx)
{
    const struct walk_row *row = disk_row(fx->box.v);

    if (row != NULL && strcmp(row->state, "leased") == 0 && !is_unwritable(row))
        walk_fail("a release was confirmed before it was committed");
}

static void paused(const struct pool_fx *fx)
{
    const struct walk_row *row = disk_row(fx->box.v);

    if (fx->snapshot.is_paused && (row == NULL || !row->is_paused))
        walk_fail("a pause was confirmed before it was committed");
}

/* A listing has to show the box first, or it does not answer as far as the pool knows. */
static bool is_excused(const struct walk_client *c, int code)
{
    const struct walk_box *real = boxes_find(c->box);
    const struct pool_box *b = pool_find_sandbox(engine_pool(walk.engine), c->sandbox_id);

    if (real != NULL && b != NULL && b->is_paused &&
        (code == SP_BACKEND_FAILED || code == SP_TIMEOUT))
        return true; /* it could not be thawed */
    return code == SP_BACKEND_UNAVAILABLE &&
           (real == NULL || !real->is_running || real->is_stopped || real->absent > 0 ||
            real->doubt_ns + 5 * NS_PER_S > walk_now());
}

/* A box that was made from a snapshot gets its variables before the reply, like extras. */
static bool is_about_extras(const struct walk_request *r, int code)
{
    return (r->kinds != 0 || r->was_hibernated) && code != SP_STORE_UNAVAILABLE;
}

static void judge_loss(const struct pool_fx *fx)
{
    const struct walk_box *real = boxes_find(fx->box.v);

    if (fx->u.reply.lost == POOL_END_NONE)
        walk_fail("a box was reported as lost without a reason");
    if (pool_end_is_death(fx->u.reply.lost) && real != NULL && real->is_running &&
        !is_restarted(real, &fx->snapshot))
        walk_fail("a box was reported as dead that lives");
}

static void refused(const struct pool_fx *fx, const struct walk_request *r, struct walk_client *c)
{
    int code = fx->u.reply.code;
    bool is_sure = c->is_acked && c->in_doubt == 0 && !is_excused(c, code) && !r->is_odd;

    walk.replies_refused++;
    walk.by_code[-code]++;
    if (r->kind == POOL_EV_RENEW && c->last_req == r->number)
        c->last_req = r->prev; /* it has not changed the deadline */
    if (fx->reason[0] == '\0')
        walk_fail("a refusal without a reason");
    if (code == SP_SANDBOX_LOST)
        judge_loss(fx);
    if (r->kind == POOL_EV_ACQUIRE && fx->box.v != 0 &&
        (code == SP_NOT_LEASED || code == SP_SANDBOX_LOST))
        return; /* that lease ended while its box was thawed; the thread may have another one */
    if (r->is_of_snapshot)
        return;
    if (code == SP_BUDGET_EXCEEDED) {
        money_refused(r, is_sure);
        return;
    }
    if (!is_sure || code == SP_QUEUE_FULL || code == SP_DRAINING || is_about_extras(r, code) ||
        (r->kind == POOL_EV_ACQUIRE && code == SP_SPEC_CONFLICT))
        return;
    if (code != SP_STORE_UNAVAILABLE)
        walk_fail("the owner of a lease was refused");
    if (r->kind == POOL_EV_ACQUIRE)
        walk_fail("a lease was not kept while the store is down");
}

static bool holds_lease(const struct walk_client *c)
{
    const struct pool_box *b = pool_find_sandbox(engine_pool(walk.engine), c->sandbox_id);

    return b != NULL && b->id.v == c->box && b->state == POOL_LEASED;
}

static void served(const struct pool_fx *fx, struct walk_request *r, struct walk_client *c)
{
    walk.replies_ok++;
    if (r->is_odd)
        walk_fail("a wrong caller, or a stale generation, was served");
    money_served(fx, r);
    if (r->kind == POOL_EV_ACQUIRE)
        acquired(fx, r, c);
    else if (r->is_destroy)
        judge_end(fx, r);
    else if (r->kind == POOL_EV_RENEW)
        renewed(fx, r, c);
    else if (r->kind == POOL_EV_PAUSE)
        paused(fx);
    else
        released(fx);
}

void replies_take(struct engine_call *call, const struct pool_fx *fx)
{
    struct walk_request *r = container_of(call, struct walk_request, call);
    struct walk_client *c = &walk.clients[r->client];
    bool is_ok = fx->u.reply.code == SP_OK;

    if (r->is_answered)
        walk_fail("a request was answered twice");
    r->is_answered = true;
    walk_say("caller %zu gets %s, number %llu", r->client,
             is_ok ? "ok" : sp_error_info(fx->u.reply.code)->name, (unsigned long long) r->number);
    if (walk.is_frozen)
        return;
    if (r->may_end) {
        c->in_doubt--;
        /* A commit may still succeed after its caller was answered. */
        if (is_ok || (fx->u.reply.code == SP_STORE_UNAVAILABLE && !holds_lease(c)))
            c->is_acked = false;
    }
    if (is_ok)
        served(fx, r, c);
    else
        refused(fx, r, c);
    plan_taken(r);
    walk.is_dirty = true;
}

/* --- leases that end --- */

/* Its agent has reported so just before, or there is none, or it did not answer several times. */
static bool is_idle(const struct walk_box *real, uint64_t idle_ns)
{
    if (real == NULL || real->has_no_agent || !real->is_running)
        return true;
    if (real->silent_ns != 0)
        return walk_now() - real->silent_ns >= 3 * MIN_OF(idle_ns / 4, 10 * NS_PER_S);
    return (!real->is_at_work || real->worked_ns + WALK_PROBE_NS >= walk_now()) &&
           (real->worked_ns + idle_ns <= walk_now() + WALK_PROBE_NS ||
            real->worked_ns + WALK_PROBE_NS >= walk_now());
}

/* Whether the end that the pool reports is true. */
static bool is_justified(const struct pool_fx *fx, enum pool_end end, const struct walk_client *c)
{
    const struct pool_box *b = &fx->snapshot;
    const struct walk_box *real = boxes_find(fx->box.v);

    if (b->leased_ns == walk_now() && (end == POOL_END_TTL || end == POOL_END_IDLE))
        return true; /* it has been leased again in this step: its old deadlines are not known */
    switch (end) {
    case POOL_END_DIED:
    case POOL_END_NETLESS:
    case POOL_END_UNGUARDED:
    case POOL_END_KERNEL_MEMORY:
    case POOL_END_RESTARTED:
        return real == NULL || !real->is_running || is_restarted(real, b);
    case POOL_END_TTL:
        return b->expires_ns <= walk_now();
    case POOL_END_IDLE:
        return c->busy == 0 && c->active_ns + b->idle_ns <= walk_now() && is_idle(real, b->idle_ns);
    case POOL_END_RELEASED:
    case POOL_END_DESTROYED:
    case POOL_END_EVICTED:
    case POOL_END_DRAINED:
    case POOL_END_HIBERNATED:
    case POOL_END_NOT_KEPT:
        return c->in_doubt > 0; /* otherwise only of a parked box */
    case POOL_END_NONE:
    case POOL_END_AGED:
    case POOL_END_DRIFT:
    case POOL_END_SHRUNK:
    case POOL_END_CREATE_FAILED:
    case POOL_END_NOT_READY:
    case POOL_END_ORPHAN:
    case POOL_END_COUNT:
        break;
    }
    return false;
}

void replies_promise(const struct pool_fx *fx)
{
    struct walk_box *real = boxes_find(fx->box.v);

    if (fx->u.reply.code != SP_OK || fx->u.reply.source == POOL_SRC_NONE || real == NULL)
        return;
    if (fx->u.reply.source == POOL_SRC_KEPT && real->lease_epoch != fx->snapshot.epoch)
        real->held_epoch = fx->snapshot.epoch; /* since before a restart */
    real->lease_epoch = fx->snapshot.epoch;
}

void replies_fact(const struct pool_fx *fx)
{
    enum pool_end end = trace_end(fx);

    if (end == POOL_END_NONE)
        return;
    for (size_t i = 0; i < WALK_CLIENTS; i++) {
        struct walk_client *c = &walk.clients[i];

        if (!c->is_acked || c->box != fx->box.v)
            continue;
        if (!is_justified(fx, end, c))
            walk_fail("an acknowledged lease was ended for no good reason");
        c->is_acked = false;
    }
}
