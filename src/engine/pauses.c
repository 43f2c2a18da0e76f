/* pauses.c - a box is frozen when its row says that it is paused, and thawed when somebody needs it. What is to be done
 * with one box goes through its line, one operation at a time: after each one it is decided anew from what the pool
 * says and who waits. */
#include "engine/pauses.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"
#include "engine/snapshots.h"

#define FREEZE_NS (15 * NS_PER_S) /* a process in a long system call stops behind it */
#define THAW_NS (5 * NS_PER_S)

struct pause_line {
    struct map_node node;
    struct engine *engine;
    struct box_id box;
    struct backend_freeze request;
    struct list waiters; /* struct engine_wake */
    bool is_running;     /* the request */
    bool is_frozen;      /* or may be */
    bool want_freeze;    /* its row says that it is paused */
    bool must_thaw;      /* whoever waits: it could not be frozen */
    int code;            /* why the last request failed */
    char reason[160];
    struct pool_fx *destroy; /* what comes next */
};

static bool is_box(const struct map_node *node, const void *key)
{
    const struct box_id *id = key;

    return container_of(node, struct pause_line, node)->box.v == id->v;
}

static struct pause_line *line_find(const struct engine *e, struct box_id box)
{
    struct map_node *n =
        e->pauses.len > 0 ? map_find(&e->pauses, hash_u64(box.v), is_box, &box) : NULL;

    return n != NULL ? container_of(n, struct pause_line, node) : NULL;
}

static struct pause_line *line_make(struct engine *e, struct box_id box)
{
    struct pause_line *l = xcalloc(1, sizeof(*l));

    l->engine = e;
    l->box = box;
    list_init(&l->waiters);
    map_insert(&e->pauses, &l->node, hash_u64(box.v));
    return l;
}

/* The box, unless it ends. */
static const struct pool_box *box_of(const struct pause_line *l)
{
    const struct pool_box *b = pool_find_box(l->engine->pool, l->box);

    return b != NULL && b->end == POOL_END_NONE && l->destroy == NULL ? b : NULL;
}

/* --- how it ends --- */

static void on_task(struct rt_task *task)
{
    struct engine_wake *w = container_of(task, struct engine_wake, task);

    w->on_done(w, w->code, w->reason);
}

static void notify(struct pause_line *l, struct engine_wake *w, int code, const char *reason)
{
    list_remove(&l->waiters, &w->link);
    w->code = code;
    str_copy_cut(w->reason, sizeof(w->reason), reason);
    rt_defer(l->engine->rt, &w->task, on_task);
}

/* It runs. */
static void notify_awake(struct pause_line *l)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&l->waiters); n != NULL; n = next) {
        struct engine_wake *w = container_of(n, struct engine_wake, link);

        next = list_next(&l->waiters, n);
        if (!w->is_for_pause)
            notify(l, w, SP_OK, "");
    }
}

static void end(struct pause_line *l)
{
    struct engine *e = l->engine;
    const struct pool_box *b = box_of(l);
    struct pool_fx *destroy = TAKE_PTR(l->destroy);
    struct list_node *n;

    if (b != NULL && !b->is_paused)
        notify_awake(l);
    for (n = list_first(&l->waiters); n != NULL; n = list_first(&l->waiters))
        notify(l, container_of(n, struct engine_wake, link), b != NULL ? l->code : SP_SANDBOX_LOST,
               b != NULL ? l->reason : "the sandbox ended meanwhile");
    map_remove(&e->pauses, &l->node);
    free(l);
    if (destroy != NULL && !e->is_closing)
        fx_destroy(e, destroy);
    free(destroy);
}

/* --- one operation --- */

static void next(struct pause_line *l);

static void thawed(struct pause_line *l)
{
    const struct pool_box *b = box_of(l);
    struct pool_event ev = {.kind = POOL_EV_RESUMED, .box = l->box};

    FAULT_POINT("pause.after_thaw");
    l->is_frozen = false;
    l->must_thaw = false;
    l->want_freeze = false;
    if (b != NULL && b->is_paused)
        engine_post(l->engine, &ev);
    if (box_of(l) != NULL)
        notify_awake(l);
}

static void failed(struct pause_line *l, const struct op *op)
{
    bool is_freeze = l->request.is_frozen;

    l->must_thaw = is_freeze; /* it may be frozen */
    l->code = SP_OK;
    if (box_of(l) == NULL || (is_freeze && op->result == SP_CANCELLED && !l->engine->is_closing))
        return; /* it ends, or somebody needed it: then it was paused for a moment */
    l->code = engine_code_for_caller(l->engine, op->result);
    str_copy_cut(l->reason, sizeof(l->reason), op->err.msg);
    log_warn(is_freeze ? "box.freeze_failed" : "box.thaw_failed", LF_HEX("box", l->box.v),
             LF_STR("reason", l->reason));
}

static void on_done(struct op *op)
{
    struct pause_line *l = container_of(op, struct pause_line, request.op);
    struct engine *e = l->engine;
    bool is_over = op->result != SP_OK && !l->request.is_frozen;

    l->is_running = false;
    if (op->result != SP_OK) {
        failed(l, op);
    } else if (l->request.is_frozen) {
        FAULT_POINT("pause.after_freeze");
        l->is_frozen = true;
    } else {
        thawed(l);
    }
    if (is_over)
        end(l);
    else
        next(l);
    engine_op_ended(e);
}

static void start(struct pause_line *l, const struct pool_box *b, bool is_frozen)
{
    struct engine *e = l->engine;
    struct backend *backend = e->backends[b->backend].backend;

    l->is_running = true;
    l->request =
        (struct backend_freeze){.is_frozen = is_frozen, .is_unused = b->state == POOL_PARKED};
    box_to_backend(e, b, &l->request.box);
    engine_op_begun(e);
    if (is_frozen)
        FAULT_POINT("pause.before_freeze");
    else
        FAULT_POINT("pause.before_thaw");
    backend->ops->freeze(backend, &l->request,
                         rt_after(rt_now(e->rt), is_frozen ? FREEZE_NS : THAW_NS), on_done);
}

static bool is_needed(const struct pause_line *l)
{
    for (struct list_node *n = list_first(&l->waiters); n != NULL; n = list_next(&l->waiters, n))
        if (!container_of(n, struct engine_wake, link)->is_for_pause)
            return true;
    return l->must_thaw;
}

/* While a snapshot is made of it, the box is not ours to freeze or thaw: it goes on when that ends. */
static void wait_for_snapshot(struct pause_line *l)
{
    struct pool_event ev = {.kind = POOL_EV_RESUMED, .box = l->box};

    if (!is_needed(l))
        return;
    engine_post(l->engine, &ev);
    end(l);
}

static void next(struct pause_line *l)
{
    struct engine *e = l->engine;
    const struct pool_box *b = box_of(l);

    if (b == NULL) {
        end(l);
    } else if (e->is_closing) {
        l->code = SP_DRAINING;
        str_copy_cut(l->reason, sizeof(l->reason), "the daemon is stopping");
        end(l);
    } else if (!engine_can_pause(e, b)) { /* its profile has another backend by now, which can */
        thawed(l);
        end(l);
    } else if (b->is_paused && snapshots_is_captured(e, l->box)) {
        wait_for_snapshot(l);
    } else if (b->is_paused ? is_needed(l) : l->is_frozen) {
        start(l, b, false);
    } else if (b->is_paused && l->want_freeze && !l->is_frozen) {
        start(l, b, true);
    } else {
        end(l);
    }
}

/* --- the engine's side --- */

void fx_freeze(struct engine *e, const struct pool_fx *fx)
{
    struct pause_line *l = line_find(e, fx->box);
    bool is_new = l == NULL;

    if (!fx->snapshot.is_paused && !e->backends[fx->snapshot.backend].ops->may_leave_frozen)
        return; /* no snapshot was cut short: somebody outside wants it so */
    if (is_new) {
        l = line_make(e, fx->box);
        l->is_frozen = !fx->snapshot.is_paused;
    }
    l->want_freeze = fx->snapshot.is_paused;
    if (is_new)
        next(l);
}

bool pauses_hold_destroy(struct engine *e, const struct pool_fx *fx)
{
    struct pause_line *l = line_find(e, fx->box);

    if (l == NULL)
        return false;
    if (!l->is_running) {
        end(l); /* it waits for a snapshot, which the backend ends */
        return false;
    }
    if (l->destroy == NULL)
        l->destroy = xcalloc(1, sizeof(*l->destroy));
    *l->destroy = *fx;
    op_cancel(&l->request.op);
    return true;
}

void pauses_captured(struct engine *e, struct box_id box)
{
    struct pause_line *l = line_find(e, box);

    if (l != NULL && !l->is_running)
        next(l);
}

/* --- those who wait --- */

bool engine_can_pause(const struct engine *e, const struct pool_box *box)
{
    return e->backends[box->backend].ops->freeze != NULL;
}

static void join(struct pause_line *l, struct engine_wake *w)
{
    list_push_back(&l->waiters, &w->link);
    if (!l->is_running)
        next(l);
    else if (l->request.is_frozen)
        op_cancel(&l->request.op); /* nobody waits until it stands still */
}

static void on_join_task(struct rt_task *task)
{
    struct engine_wake *w = container_of(task, struct engine_wake, task);
    struct engine *e = w->engine;
    const struct pool_box *b = pool_find_box(e->pool, w->box);
    struct pause_line *l = line_find(e, w->box);

    if (l == NULL && (b == NULL || !b->is_paused || b->end != POOL_END_NONE)) {
        on_task(task); /* whoever needs it finds out what it is */
        return;
    }
    if (l == NULL) {
        l = line_make(e, w->box);
        l->is_frozen = true;
    }
    join(l, w);
}

void engine_wake_start(struct engine *e, struct engine_wake *w, struct box_id box)
{
    w->engine = e;
    w->box = box;
    w->is_for_pause = false;
    w->code = SP_OK;
    w->reason[0] = '\0';
    rt_defer(e->rt, &w->task, on_join_task); /* what is decided at once must not come from inside */
}

void engine_pause_wait(struct engine *e, struct engine_wake *w, struct box_id box)
{
    struct pause_line *l = line_find(e, box);

    w->engine = e;
    w->box = box;
    w->is_for_pause = true;
    w->code = SP_OK;
    w->reason[0] = '\0';
    if (l != NULL && l->is_running)
        list_push_back(&l->waiters, &w->link);
    else
        rt_defer(e->rt, &w->task, l != NULL ? on_join_task : on_task);
}

void engine_wake_cancel(struct engine_wake *w)
{
    struct pause_line *l = line_find(w->engine, w->box);

    if (l != NULL && list_is_linked(&w->link))
        list_remove(&l->waiters, &w->link);
    else
        rt_undefer(w->engine->rt, &w->task);
}

/* --- acquires --- */

struct engine_held {
    struct engine_wake wake;
    struct rt_timer timer; /* the caller does not wait longer */
    struct engine_call *call;
    struct pool_fx fx;
};

static void on_awake(struct engine_wake *w, int code, const char *reason)
{
    struct engine_held *h = container_of(w, struct engine_held, wake);
    struct engine *e = w->engine;
    struct engine_call *call = h->call;

    rt_timer_cancel(e->rt, &h->timer);
    call->held = NULL;
    h->fx.snapshot.is_paused = false;
    if (!update_is_leased(e, &h->fx))
        code = update_lost(e, &h->fx, &reason);
    else if (code != SP_OK)
        engine_undelivered(e, call, h->fx.box, false);
    if (code != SP_OK) {
        free(call->extras);
        call->extras = NULL;
        h->fx.u.reply.code = code;
        str_copy_cut(h->fx.reason, sizeof(h->fx.reason), reason);
    }
    engine_reply(e, call, &h->fx);
    free(h);
    engine_op_ended(e);
}

static void on_late(struct rt_timer *timer)
{
    struct engine_held *h = container_of(timer, struct engine_held, timer);

    engine_wake_cancel(&h->wake);
    on_awake(&h->wake, SP_TIMEOUT, "the sandbox is paused and does not go on yet: try again");
}

void pauses_hold_reply(struct engine *e, struct engine_call *call, const struct pool_fx *fx)
{
    struct engine_held *h = xcalloc(1, sizeof(*h));

    h->call = call;
    h->fx = *fx;
    h->wake.on_done = on_awake;
    call->held = h;
    engine_op_begun(e);
    engine_wake_start(e, &h->wake, fx->box);
    rt_timer_set(e->rt, &h->timer,
                 MAX_OF(call->wait_ns, rt_after(rt_now(e->rt), ENGINE_UPDATE_LEAST_NS)), on_late);
}

void pauses_abandon(struct engine_call *call)
{
    struct engine_held *h = TAKE_PTR(call->held);
    struct engine *e = h->wake.engine;

    engine_wake_cancel(&h->wake);
    rt_timer_cancel(e->rt, &h->timer);
    engine_undelivered(e, call, h->fx.box, false);
    free(h);
    engine_op_ended(e);
}
