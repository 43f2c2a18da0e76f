/* engine.c - events in, effects out. pool_step() is called here and nowhere else; an event raised
 * while one is being processed waits in a short queue, so nothing is ever re-entered. How an engine is made is in
 * life.c, how it ends in close.c. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/hibernate.h"
#include "engine/internal.h"
#include "engine/pauses.h"
#include "engine/rebase.h"
#include "engine/snapshots.h"

static void on_wake_timer(struct rt_timer *timer);
static void perform(struct engine *e, const struct pool_fx *fx);

static void queue_push(struct engine *e, const struct pool_event *ev)
{
    if (e->queue_len == e->queue_cap) {
        e->queue_cap = e->queue_cap > 0 ? e->queue_cap * 2 : ENGINE_EVENTS_MAX;
        e->queue = xrealloc(e->queue, e->queue_cap * sizeof(*e->queue));
    }
    e->queue[e->queue_len] = *ev;
    e->queue_len++;
}

static void step(struct engine *e, const struct pool_event *ev)
{
    struct pool_fx fx;
    struct pool_event marked;

    if (ev->kind == POOL_EV_ACQUIRE && e->has_rebase)
        rebase_note(e, ev);
    if (ev->kind == POOL_EV_ACQUIRE && hibernate_concerns(e, &ev->u.acquire)) {
        marked = *ev;
        if (!hibernate_mark(e, &marked))
            return;
        ev = &marked;
    }
    if (engine_has_budgets(e) && (ev->kind == POOL_EV_ACQUIRE || ev->kind == POOL_EV_RENEW)) {
        if (ev != &marked)
            marked = *ev;
        budget_judge(e, &marked);
        ev = &marked;
    }
    pool_step(e->pool, rt_now(e->rt), ev);
    while (pool_next_fx(e->pool, &fx))
        perform(e, &fx);
}

void engine_post(struct engine *e, const struct pool_event *ev)
{
    if (e->is_stepping) {
        queue_push(e, ev);
        return;
    }
    /* The clock of this turn may date from before the poll: deadlines start from the present. */
    rt_refresh(e->rt);
    e->is_stepping = true;
    step(e, ev);
    for (size_t i = 0; i < e->queue_len; i++) {
        struct pool_event next = e->queue[i]; /* the queue may move while it is processed */

        step(e, &next);
    }
    e->queue_len = 0;
    e->is_stepping = false;
    if (!list_is_empty(&e->rounds))
        reconcile_settle(e);
    health_touch(e);
    rt_timer_set(e->rt, &e->wake_timer, e->is_closing ? RT_NEVER : pool_next_wake(e->pool),
                 on_wake_timer);
    if (!e->trend.is_running)
        trend_wake(e);
}

static void on_wake_timer(struct rt_timer *timer)
{
    struct engine *e = container_of(timer, struct engine, wake_timer);
    struct pool_event ev = {.kind = POOL_EV_WAKE};

    engine_post(e, &ev);
}

/* --- calls --- */

static bool is_req(const struct map_node *node, const void *key)
{
    const struct req_id *id = key;

    return container_of(node, struct engine_call, node)->req.v == id->v;
}

struct engine_call *engine_call_find(struct engine *e, struct req_id req)
{
    struct map_node *n = map_find(&e->calls, req.v, is_req, &req);

    return n != NULL ? container_of(n, struct engine_call, node) : NULL;
}

static void call_unlink(struct engine *e, struct engine_call *call)
{
    map_remove(&e->calls, &call->node);
    map_remove(&e->pending, &call->pending_node);
    list_remove(&e->acquires, &call->link);
    budget_release(e, call);
    free(TAKE_PTR(call->kept_metadata));
    free(TAKE_PTR(call->again));
}

void engine_call_end(struct engine *e, struct engine_call *call, const struct pool_fx *fx)
{
    call_unlink(e, call);
    call->on_reply(call, fx); /* the call may be gone from here on */
}

void engine_call_start(struct engine *e, struct engine_call *call, struct pool_event *ev)
{
    struct pool_fx refusal;

    if (ev->kind == POOL_EV_ACQUIRE && !templates_fit(e, &ev->u.acquire, &refusal)) {
        call->on_reply(call, &refusal); /* the call may be gone from here on */
        return;
    }
    call->req.v = e->next_req;
    e->next_req++;
    ev->req = call->req;
    map_insert(&e->calls, &call->node, call->req.v); /* as in the pool */
    if (call->metadata != NULL || call->extras != NULL)
        map_insert(&e->pending, &call->pending_node, hash_str(call->sandbox_id));
    if (ev->kind == POOL_EV_ACQUIRE) {
        special_mark(e, call, &ev->u.acquire);
        call->profile = ev->u.acquire.profile;
        call->is_acquire = true;
        call->principal = ev->u.acquire.principal;
        call->wait_ns = ev->u.acquire.deadline_ns;
        call->asked_ns = rt_now(e->rt);
        list_push_back(&e->acquires, &call->link);
    }
    if (!hibernate_destroy(e, call, ev))
        engine_post(e, ev);
}

void engine_call_abandon(struct engine *e, struct engine_call *call)
{
    struct pool_event ev = {.kind = POOL_EV_ABANDON, .req = call->req};

    if (call->update != NULL)
        update_abandon(call);
    if (call->held != NULL)
        pauses_abandon(call);
    if (!call->node.is_linked)
        return;
    call_unlink(e, call);
    engine_post(e, &ev);
}

void engine_refuse_waiting(struct engine *e)
{
    struct pool_fx fx = {.kind = POOL_FX_REPLY, .reason = "the daemon is stopping"};

    fx.u.reply.code = SP_DRAINING;
    fx.u.reply.retry_after_ns = NS_PER_S;
    for (struct list_node *n = list_first(&e->acquires); n != NULL; n = list_first(&e->acquires)) {
        struct engine_call *call = container_of(n, struct engine_call, link);

        engine_call_abandon(e, call);
        call->on_reply(call, &fx); /* the call may be gone from here on */
    }
}

void engine_reply(struct engine *e, struct engine_call *call, const struct pool_fx *fx)
{
    if (call->extras != NULL && fx->u.reply.code == SP_OK) {
        update_begin(e, call, fx);
        return;
    }
    if (fx->u.reply.source != POOL_SRC_NONE)
        update_reported(e, fx);
    engine_answer(e, call, fx);
}

static void reply(struct engine *e, const struct pool_fx *fx)
{
    struct engine_call *call = engine_call_find(e, fx->req);
    struct pool_fx explained;
    const char *why = NULL;

    if (call == NULL || rebase_again(e, call, fx))
        return; /* abandoned in the same step; or it goes on */
    if (list_is_linked(&call->link) && ready_explains(e, call->profile, fx, &explained))
        fx = &explained;
    if (fx->u.reply.code == SP_BUDGET_EXCEEDED) {
        explained = *fx;
        budget_explain(e, call, &explained);
        fx = &explained;
    }
    if (list_is_linked(&call->link) && fx->u.reply.code == SP_OK)
        why = templates_add(e, call, fx);
    call_unlink(e, call);
    call->epoch = fx->snapshot.epoch;
    if (why != NULL)
        update_refuse(e, call, fx, SP_INVALID_FIELD, why);
    else if (fx->u.reply.code == SP_OK && fx->u.reply.source != POOL_SRC_NONE &&
             fx->snapshot.is_paused)
        pauses_hold_reply(e, call, fx);
    else
        engine_reply(e, call, fx);
}

static void ask_again(struct engine *e, const struct pool_fx *fx)
{
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE, .req = fx->req, .u.acquire = *fx->u.again};

    if (engine_call_find(e, fx->req) != NULL)
        engine_post(e, &ev);
}

static bool asks_backend(enum pool_fx_kind kind)
{
    return kind == POOL_FX_CREATE || kind == POOL_FX_PROBE || kind == POOL_FX_CHECK ||
           kind == POOL_FX_ASK_USE || kind == POOL_FX_DISCOVER || kind == POOL_FX_DESTROY ||
           kind == POOL_FX_BIND || kind == POOL_FX_FREEZE || kind == POOL_FX_HIBERNATE;
}

static void perform(struct engine *e, const struct pool_fx *fx)
{
    if (e->is_closing && asks_backend(fx->kind))
        return; /* its row says what was wanted; the next start does it */
    switch (fx->kind) {
    case POOL_FX_STORE:
        fx_store(e, fx);
        break;
    case POOL_FX_CREATE:
        fx_create(e, fx);
        break;
    case POOL_FX_PROBE:
        fx_probe(e, fx);
        break;
    case POOL_FX_CHECK:
        fx_check(e, fx);
        break;
    case POOL_FX_ASK_USE:
        fx_ask_use(e, fx);
        break;
    case POOL_FX_DISCOVER:
        fx_discover(e, fx);
        break;
    case POOL_FX_DESTROY:
        if (!pauses_hold_destroy(e, fx))
            fx_destroy(e, fx);
        break;
    case POOL_FX_BIND:
        fx_bind(e, fx);
        break;
    case POOL_FX_FREEZE:
        fx_freeze(e, fx);
        break;
    case POOL_FX_HIBERNATE:
        fx_hibernate(e, fx);
        break;
    case POOL_FX_REPLY:
        reply(e, fx);
        break;
    case POOL_FX_AGAIN:
        ask_again(e, fx);
        break;
    case POOL_FX_EVENT:
        fx_event(e, fx);
        hibernate_event(e, fx);
        break;
    case POOL_FX_COUNT:
        assert(false);
        break;
    }
}

/* --- views --- */

const struct pool *engine_pool(const struct engine *e)
{
    return e->pool;
}

void engine_local(const struct engine *e, const struct pool_box *box, char *dst, size_t cap)
{
    struct backend *b = e->backends[box->backend].backend;

    if (b == NULL || b->ops->local == NULL || !b->ops->local(b, box->id.v, dst, cap))
        dst[0] = '\0';
}

const struct config *engine_config(const struct engine *e)
{
    return e->config->config;
}

struct journal *engine_journal(struct engine *e)
{
    return &e->journal;
}

struct rt *engine_rt(struct engine *e)
{
    return e->rt;
}

const char *engine_instance(const struct engine *e)
{
    return e->instance;
}

const char *engine_store_trouble(const struct engine *e)
{
    return str_is_empty(e->store_trouble) ? NULL : e->store_trouble;
}

uint64_t engine_reloads(const struct engine *e)
{
    return e->reloads;
}

bool engine_is_recovered(const struct engine *e)
{
    return e->is_recovered;
}

void engine_get_store_stats(struct engine *e, struct store_stats *ret)
{
    store_get_stats(e->store, ret);
}

void engine_forget_slowest(struct engine *e)
{
    store_forget_slowest(e->store);
}
