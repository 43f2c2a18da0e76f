/* world.c - time, pending answers, and the step that performs effects and checks the pool. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"
#include "world.h"

bool world_chance(struct world *w, unsigned percent)
{
    return !w->is_calm && rand_below(&w->rand, 100) < percent;
}

uint64_t world_ms(struct world *w, uint64_t lo, uint64_t hi)
{
    return rand_between(&w->rand, lo * NS_PER_MS, hi * NS_PER_MS);
}

void world_fail(struct world *w, const char *why)
{
    fprintf(stderr, "seed %llu, step %llu: %s\n", (unsigned long long) w->seed,
            (unsigned long long) w->steps, why);
    fprintf(stderr, "replay: sim_pool --seed %llu --verbose\n", (unsigned long long) w->seed);
    exit(1);
}

struct pending *world_later(struct world *w, enum pending_kind kind, uint64_t delay_ns)
{
    for (size_t i = 0; i < WORLD_PENDING; i++) {
        struct pending *p = &w->pending[i];

        if (p->is_used)
            continue;
        memset(p, 0, sizeof(*p));
        p->is_used = true;
        p->kind = kind;
        p->at_ns = w->now_ns + delay_ns;
        w->seq++;
        p->seq = w->seq;
        return p;
    }
    world_fail(w, "too many answers on their way");
}

size_t world_pending(const struct world *w)
{
    size_t count = 0;

    for (size_t i = 0; i < WORLD_PENDING; i++)
        count += w->pending[i].is_used ? 1 : 0;
    return count;
}

bool world_is_checked(const struct world *w, uint64_t box)
{
    for (size_t i = 0; i < WORLD_PENDING; i++)
        if (w->pending[i].is_used && w->pending[i].ev.kind == POOL_EV_CHECKED &&
            w->pending[i].ev.box.v == box)
            return true;
    return false;
}

static void show_effect(const struct world *w, const struct pool_fx *fx)
{
    char text[TRACE_MAX];

    if (!w->is_verbose)
        return;
    trace_effect(text, fx);
    printf("      %s\n", text);
}

static void show_event(const struct world *w, const struct pool_event *ev)
{
    char text[TRACE_MAX];

    if (!w->is_verbose)
        return;
    trace_event(text, ev);
    printf("%6llu %12.3fms %s\n", (unsigned long long) w->steps, (double) w->now_ns / 1e6, text);
    fflush(stdout);
}

static void perform(struct world *w, const struct pool_fx *fx)
{
    show_effect(w, fx);
    switch (fx->kind) {
    case POOL_FX_STORE:
        rows_submit(w, fx);
        break;
    case POOL_FX_CREATE:
    case POOL_FX_PROBE:
    case POOL_FX_CHECK:
    case POOL_FX_ASK_USE:
    case POOL_FX_DISCOVER:
    case POOL_FX_DESTROY:
    case POOL_FX_BIND:
    case POOL_FX_FREEZE:
        backend_perform(w, fx);
        break;
    case POOL_FX_HIBERNATE:
        hibernate_perform(w, fx);
        break;
    case POOL_FX_REPLY:
        clients_reply(w, fx);
        break;
    case POOL_FX_AGAIN:
        hibernate_again(w, fx);
        break;
    case POOL_FX_EVENT:
        clients_fact(w, fx);
        hibernate_fact(w, fx);
        break;
    case POOL_FX_COUNT:
        world_fail(w, "an effect of no kind");
    }
}

/* Whatever callers do, a profile has no more blank boxes than its target, its waiters, and boxes
 * that were being made for callers who have left. */
static void check_blank(struct world *w)
{
    struct pool_stats stats;

    pool_get_stats(w->pool, &stats);
    for (unsigned i = 0; i < stats.profile_count; i++) {
        struct pool_profile_view v;

        pool_get_profile(w->pool, w->now_ns, i, &v);
        if (v.by_state[POOL_BLANK] > WORLD_WARM_MAX + v.waiting + 2 * WORLD_CREATE_MAX)
            world_fail(w, "a profile has many more blank boxes than needed");
    }
}

void world_check(struct world *w)
{
    const char *why = pool_check(w->pool);
    size_t running = 0;

    if (why != NULL)
        world_fail(w, why);
    for (size_t i = 0; i < w->box_count; i++) {
        const struct world_box *b = &w->boxes[i];
        const struct pool_box *known = pool_find_box(w->pool, b->seen.id);

        running += b->is_running && !b->is_exempt ? 1 : 0;
        if (b->is_special && known != NULL && known->state == POOL_BLANK)
            world_fail(w, "a box made for one caller is blank");
        if (b->is_special && known != NULL && known->sandbox_id[0] != '\0' &&
            strcmp(known->sandbox_id, b->owner) != 0)
            world_fail(w, "a box made for one caller is somebody else's");
        if (b->is_running && b->is_reported && known == NULL)
            world_fail(w, "a box runs that was reported to the pool, which has forgotten it");
    }
    if (w->leased != 0)
        world_fail(w, "a box became leased and nobody got a reply");
    if (running > w->config.max_boxes)
        world_fail(w, "more boxes run than max_boxes");
    observer_look(w);
    check_blank(w);
    clients_check(w);
}

void world_step(struct world *w, const struct pool_event *ev)
{
    static struct pool_fx fx;

    show_event(w, ev);
    w->steps++;
    pool_step(w->pool, w->now_ns, ev);
    while (pool_next_fx(w->pool, &fx))
        perform(w, &fx);
    world_check(w);
    quotas_check(w, ev);
}

static struct pending *earliest(struct world *w)
{
    struct pending *best = NULL;

    for (size_t i = 0; i < WORLD_PENDING; i++) {
        struct pending *p = &w->pending[i];

        if (p->is_used && (best == NULL || p->at_ns < best->at_ns ||
                           (p->at_ns == best->at_ns && p->seq < best->seq)))
            best = p;
    }
    return best;
}

/* What the pool may conclude from the answer it is about to get. */
static void note_proof(struct world *w, const struct pool_event *ev)
{
    struct world_box *b = backend_find(w, ev->box.v);

    if (b == NULL)
        return;
    b->is_reported |= ev->kind == POOL_EV_CREATED;
    b->is_vouched |= ev->kind == POOL_EV_CREATED && ev->u.created.is_ready;
    b->is_proven |= (ev->kind == POOL_EV_CREATED && ev->u.created.is_ready) ||
                    (ev->kind == POOL_EV_PROBED && ev->u.failed.code == SP_OK);
}

/* Some listings come in parts: two of them show boxes, then a few places are looked at, then the rest. */
static void deliver_listing(struct world *w, const struct pool_event *whole)
{
    struct pool_event ev = *whole;
    size_t half = ev.u.listed.count / 2;

    if (!ev.u.listed.is_clean || w->now_ns / NS_PER_US % 2 == 0) {
        world_step(w, &ev);
        return;
    }
    ev.u.listed.is_partial = true;
    ev.u.listed.count = half;
    world_step(w, &ev);
    ev.u.listed.is_later = true;
    ev.u.listed.seen = whole->u.listed.seen + half;
    ev.u.listed.count = whole->u.listed.count - half;
    world_step(w, &ev);
    ev.u.listed.seen = NULL;
    ev.u.listed.count = 0;
    ev.u.listed.look = 5;
    world_step(w, &ev);
    ev.u.listed.is_partial = false;
    world_step(w, &ev);
}

static void deliver(struct world *w, struct pending *p)
{
    struct pool_event ev = p->ev;
    struct pool_seen *seen = p->seen;
    struct pool_box row = p->row;

    switch (p->kind) {
    case PENDING_EVENT:
        p->is_used = false;
        note_proof(w, &ev);
        away_note_word(w, &ev);
        if (ev.kind == POOL_EV_LISTED)
            deliver_listing(w, &ev);
        else if (ev.kind == POOL_EV_HIBERNATED)
            hibernate_deliver(w, &ev, &row);
        else if (ev.kind == POOL_EV_RESUMED)
            backend_thaw(w, ev.box.v);
        else if (ev.kind == POOL_EV_ACQUIRE)
            hibernate_ask_again(w, &ev);
        else if (ev.kind != POOL_EV_STORE_STATE || rows_report(w, &ev))
            world_step(w, &ev);
        free(seen);
        break;
    case PENDING_COMMIT:
        rows_commit(w, p);
        break;
    case PENDING_APPEAR:
        p->is_used = false;
        backend_appear(w, p->box);
        break;
    case PENDING_KIND_COUNT:
        world_fail(w, "a pending thing of no kind");
    }
}

void world_advance(struct world *w, uint64_t until_ns)
{
    for (unsigned spins = 0;; spins++) {
        struct pending *p = earliest(w);
        uint64_t wake_ns = pool_next_wake(w->pool);
        uint64_t next_ns = p != NULL ? MIN_OF(p->at_ns, wake_ns) : wake_ns;
        struct pool_event wake = {.kind = POOL_EV_WAKE};

        if (next_ns > until_ns)
            break;
        if (spins > 100000)
            world_fail(w, "the pool wakes up for ever");
        if (next_ns > w->now_ns)
            w->now_ns = next_ns;
        if (p != NULL && p->at_ns <= w->now_ns)
            deliver(w, p);
        else
            world_step(w, &wake);
    }
    w->now_ns = MAX_OF(w->now_ns, until_ns);
}

void world_init(struct world *w, uint64_t seed)
{
    bool is_verbose = w->is_verbose;

    memset(w, 0, sizeof(*w));
    w->is_verbose = is_verbose;
    w->seed = seed;
    w->now_ns = 1000 * NS_PER_S;
    w->is_store_up = true;
    w->is_reported_up = true;
    rand_seed(&w->rand, seed);
    clients_init(w);
    w->config.max_boxes = (unsigned) rand_between(&w->rand, 2, 12);
    w->config.max_waiters = (unsigned) rand_between(&w->rand, 2, 16);
    w->config.share_percent = (unsigned) rand_between(&w->rand, 50, 100);
    w->config.seed = rand_next(&w->rand);
    w->config.make_token = observer_make_token;
    w->config.make_token_ctx = w;
    quotas_init(w);
    operator_config(w, false);
    w->pool = pool_new(&w->config);
}

void world_fini(struct world *w)
{
    w->pool = pool_free(w->pool);
    for (size_t i = 0; i < WORLD_PENDING; i++)
        if (w->pending[i].is_used)
            free(w->pending[i].seen);
}

bool world_is_restarted(const struct world_box *real, const struct pool_box *b)
{
    char life[POOL_LIFE_MAX + 1];

    backend_put_life(real, life);
    return b->life[0] != '\0' && strcmp(b->life, life) != 0;
}
