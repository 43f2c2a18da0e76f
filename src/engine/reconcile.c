/* reconcile.c - asking the backends what runs and giving the answers to the pool, which joins
 * them with what it knows: at start, every reconcile_interval_s, when a backend says it may have
 * missed something, when an operator asks, and soon again while a listing has left something open. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"
#include "engine/sampler.h"
#include "engine/snapshots.h"

/* The join of a long listing leaves the loop to others after this many boxes that it shows, and after this many
 * places that it looks at for boxes it does not show. */
#define PART_BOXES 512
#define PART_PLACES 8192

/* One round over all backends, for callers that wait for its end. */
struct round {
    struct engine *engine;
    struct list_node link; /* all have answered, and boxes are being asked for */
    struct rt_timer timer;
    unsigned left;
    unsigned clean;
    unsigned failed;
    size_t seen;
    void (*on_done)(void *ctx, unsigned clean, unsigned failed, size_t seen);
    void *ctx;
};

struct list_op {
    struct backend_list list;
    struct engine *engine;
    unsigned backend;
    uint64_t started_ns;
    struct round *round;   /* NULL: nobody waits */
    struct list_node link; /* of those that are joined, one after the other */
    struct rt_timer timer; /* the next part */
    size_t total;
    size_t looked;
};

static void round_end(struct round *round)
{
    list_remove(&round->engine->rounds, &round->link);
    rt_timer_cancel(round->engine->rt, &round->timer);
    round->on_done(round->ctx, round->clean, round->failed, round->seen);
    free(round);
}

static void on_round_timer(struct rt_timer *timer)
{
    round_end(container_of(timer, struct round, timer));
}

void reconcile_settle(struct engine *e)
{
    struct pool_stats stats;

    pool_get_stats(e->pool, &stats);
    if (stats.asking > 0 && !e->is_closing) /* whoever closes asks nobody any more */
        return;
    while (!list_is_empty(&e->rounds))
        round_end(container_of(list_pop_front(&e->rounds), struct round, link));
}

static void round_note(struct round *round, bool is_clean, size_t seen)
{
    if (round == NULL)
        return;
    round->left--;
    round->seen += seen;
    if (is_clean)
        round->clean++;
    else
        round->failed++;
    if (round->left > 0)
        return;
    list_push_back(&round->engine->rounds, &round->link);
    rt_timer_set(round->engine->rt, &round->timer,
                 rt_after(rt_now(round->engine->rt), ENGINE_ASK_NS), on_round_timer);
    reconcile_settle(round->engine);
}

static void note_trouble(struct engine_backend *b, const char *reason)
{
    char key[48];

    str_copy_cut(key, sizeof(key), b->key);
    (void) snprintf(b->trouble, sizeof(b->trouble), "backend %s: %.100s", key, reason);
    b->trouble_ns = rt_now(b->engine->rt);
}

static void on_relist(struct rt_timer *timer)
{
    struct engine_backend *b = container_of(timer, struct engine_backend, relist_timer);
    unsigned backend = (unsigned) (b - b->engine->backends);

    if (str_is_empty(b->trouble) && pool_is_settled(b->engine->pool, backend))
        b->relist_ns = 0;
    else
        reconcile_backend(b->engine, backend);
}

/* What a listing leaves open is not left to the next periodic one: somebody may wait for a box that was
 * being made when the daemon stopped, and a box that nobody owns takes a place. Nor is one that failed:
 * until the next, nobody knows which boxes have died, and the daemon is not ready. */
static void relist_arm(struct engine *e, unsigned backend, bool is_clean)
{
    struct engine_backend *b = &e->backends[backend];

    if (e->is_closing)
        return;
    if (is_clean && pool_is_all_listed(e->pool, backend))
        b->relist_ns = 0;
    else
        b->relist_ns = MIN_OF(MAX_OF(2 * b->relist_ns, ENGINE_RELIST_MIN_NS), ENGINE_RELIST_MAX_NS);
    rt_timer_set(e->rt, &b->relist_timer,
                 b->relist_ns > 0 ? rt_after(rt_now(e->rt), b->relist_ns) : RT_NEVER, on_relist);
}

/* The last boxes first: what was joined is cut off the listing, and its memory goes back in parts, too. */
static void post_part(struct list_op *l, struct pool_event *ev)
{
    struct engine *e = l->engine;
    size_t part = MIN_OF(l->list.count, (size_t) PART_BOXES);
    size_t first = l->list.count - part;
    size_t places = pool_slot_count(e->pool) - l->looked;
    bool is_shown = first == 0;
    struct pool_seen *seen = part > 0 ? xcalloc(part, sizeof(*seen)) : NULL;
    size_t count = 0;

    /* One that cannot be distinguished from another is left out: if it has a row, its backend is asked for it. */
    for (size_t i = 0; i < part; i++)
        count += seen_from_backend(&l->list.boxes[first + i], &seen[count]) ? 1 : 0;
    ev->u.listed.is_later = l->list.count < l->total || l->looked > 0;
    ev->u.listed.is_partial = !is_shown || places > PART_PLACES;
    ev->u.listed.look = is_shown ? PART_PLACES : 0;
    ev->u.listed.seen = seen;
    ev->u.listed.count = count;
    backend_list_cut(&l->list, first);
    l->looked += MIN_OF(ev->u.listed.look, places);
    engine_post(e, ev);
    free(seen);
}

static void join_next(struct engine *e);

static void list_end(struct list_op *l, bool is_clean)
{
    struct engine *e = l->engine;
    struct engine_backend *b = &e->backends[l->backend];

    b->is_listing = false;
    relist_arm(e, l->backend, is_clean);
    round_note(l->round, is_clean, l->total);
    backend_list_fini(&l->list);
    free(l);
    if (b->want_relist && !e->is_closing) {
        b->want_relist = false;
        reconcile_backend(e, (unsigned) (b - e->backends));
    }
    engine_op_ended(e);
}

static void on_join_timer(struct rt_timer *timer)
{
    join_next(container_of(timer, struct list_op, timer)->engine);
}

/* One part of the first listing that is there. A listing whose end does not come has said nothing of boxes that it
 * does not show. */
static void join_next(struct engine *e)
{
    while (!list_is_empty(&e->joins)) {
        struct list_node *first = list_first(&e->joins);
        struct list_op *l = container_of(first, struct list_op, link);
        struct pool_event ev = {.kind = POOL_EV_LISTED};

        ev.u.listed.backend = l->backend;
        ev.u.listed.is_clean = true;
        ev.u.listed.started_ns = l->started_ns;
        if (!e->is_closing)
            post_part(l, &ev);
        if (ev.u.listed.is_partial) {
            rt_timer_set(e->rt, &l->timer, rt_after(rt_now(e->rt), NS_PER_MS), on_join_timer);
            return;
        }
        list_remove(&e->joins, &l->link);
        assert(list_first(&e->joins) != first); /* which analyzers do not see */
        list_end(l, true);
    }
}

static void note_failure(struct list_op *l, const char *reason)
{
    struct engine_backend *b = &l->engine->backends[l->backend];
    struct pool_event ev = {.kind = POOL_EV_LISTED};

    ev.u.listed.backend = l->backend;
    ev.u.listed.started_ns = l->started_ns;
    note_trouble(b, reason);
    log_warn("backend.list_failed", LF_STR("backend", b->key), LF_STR("reason", reason));
    engine_post(l->engine, &ev);
    list_end(l, false);
}

static void on_listed(struct op *op)
{
    struct list_op *l = container_of(op, struct list_op, list.op);
    struct engine *e = l->engine;
    bool is_joining = !list_is_empty(&e->joins);

    FAULT_POINT("recover.after_list");
    if (op->result != SP_OK) {
        note_failure(l, op->err.msg);
        return;
    }
    e->backends[l->backend].trouble[0] = '\0';
    if (e->backends[l->backend].want_snapshots)
        snapshots_load(e, l->backend);
    l->total = l->list.count;
    list_push_back(&e->joins, &l->link);
    if (!is_joining)
        join_next(e);
}

static void start_list(struct engine *e, unsigned backend, struct round *round)
{
    struct engine_backend *b = &e->backends[backend];
    struct list_op *l = xcalloc(1, sizeof(*l));

    rt_refresh(e->rt);
    l->engine = e;
    l->backend = backend;
    l->started_ns = rt_now(e->rt);
    l->round = round;
    b->is_listing = true;
    engine_op_begun(e);
    b->backend->ops->list(b->backend, &l->list, rt_after(l->started_ns, ENGINE_LIST_TIMEOUT_NS),
                          on_listed);
}

void reconcile_backend(struct engine *e, unsigned backend)
{
    if (e->is_closing)
        return;
    /* A listing that is under way may have missed what this one is asked for. */
    if (e->backends[backend].is_listing)
        e->backends[backend].want_relist = true;
    else
        start_list(e, backend, NULL);
}

void engine_reconcile(struct engine *e,
                      void (*on_done)(void *ctx, unsigned clean, unsigned failed, size_t seen),
                      void *ctx)
{
    struct round *round;

    if (e->backend_count == 0) {
        on_done(ctx, 0, 0, 0);
        return;
    }
    round = xcalloc(1, sizeof(*round));
    round->engine = e;
    round->left = e->backend_count;
    round->on_done = on_done;
    round->ctx = ctx;
    for (unsigned i = 0; i < e->backend_count; i++)
        start_list(e, i, round);
}

static void on_interval(struct rt_timer *timer)
{
    struct engine *e = container_of(timer, struct engine, reconcile_timer);

    for (unsigned i = 0; i < e->backend_count; i++)
        reconcile_backend(e, i);
    reconcile_arm(e);
}

void reconcile_arm(struct engine *e)
{
    uint64_t interval_ns = e->config->config->pool.reconcile_interval_s * NS_PER_S;

    rt_timer_set(e->rt, &e->reconcile_timer,
                 interval_ns > 0 && !e->is_closing ? rt_after(rt_now(e->rt), interval_ns)
                                                   : RT_NEVER,
                 on_interval);
}

/* --- start --- */

struct recovery {
    struct engine *engine;
    void (*on_ready)(void *ctx);
    void *ctx;
    bool is_joined; /* the first round is over */
    unsigned clean;
    unsigned failed;
    size_t seen;
};

/* Boxes and snapshots are known, as far as the backends have answered. */
void recovery_settle(struct engine *e)
{
    struct recovery *r = e->recovery;
    struct pool_stats stats;

    if (r == NULL || !r->is_joined || e->snapshot_loads > 0)
        return;
    e->recovery = NULL;
    pool_get_stats(e->pool, &stats);
    e->is_recovered = true;
    /* The listing was the largest thing this process will hold for long; give its memory back. */
    (void) malloc_trim(0);
    log_info("engine.recovered", LF_U64("boxes", stats.total), LF_U64("running", r->seen),
             LF_U64("backends", r->clean), LF_U64("backends_failed", r->failed));
    snapshots_sweep(e);
    usage_reprice(e);
    if (stats.total > 0) {
        usage_arm(e);
        sampler_arm(e);
    }
    reconcile_arm(e);
    r->on_ready(r->ctx);
    free(r);
}

static void on_first_round(void *ctx, unsigned clean, unsigned failed, size_t seen)
{
    struct recovery *r = ctx;

    r->is_joined = true;
    r->clean = clean;
    r->failed = failed;
    r->seen = seen;
    recovery_settle(r->engine);
}

void engine_recover(struct engine *e, void (*on_ready)(void *ctx), void *ctx)
{
    struct recovery *r = xcalloc(1, sizeof(*r));

    FAULT_POINT("recover.after_load");
    r->engine = e;
    r->on_ready = on_ready;
    r->ctx = ctx;
    e->recovery = r;
    profiles_prepare(e);
    space_look(e);
    for (unsigned i = 0; i < e->backend_count; i++) {
        e->backends[i].is_begun = true;
        snapshots_load(e, i);
    }
    engine_reconcile(e, on_first_round, r);
}
