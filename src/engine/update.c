/* update.c - late binding: what an acquire asks for beside the box is applied after its lease is
 * committed and before its reply. The pool knows nothing of it: to the pool the reply is under way.
 *
 *   pool's reply -> line of its box -> backend's update -> reply to the caller
 *                                           | failed
 *                                           v
 *            fresh box: destroyed, it may be half changed; the thread's own box: stays as it is
 *
 * Updates of one box wait in line. A fresh box that was reported to another caller of its thread is no
 * longer fresh. */
#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/hibernate.h"
#include "engine/internal.h"

struct engine_update {
    struct backend_update backend;
    struct list_node link;
    struct rt_timer timer; /* while it waits in line */
    struct engine *engine;
    struct update_line *line; /* NULL: it has left the line */
    struct engine_config_ref *config;
    struct backend_extras *extras;
    struct engine_call *call; /* NULL: the caller has gone */
    struct pool_fx fx;        /* the reply that waits */
    uint64_t deadline_ns;
    bool is_running;
    bool has_kept_envs; /* its variables are those of the hibernated box */
};

struct update_line {
    struct map_node node;
    struct box_id box;
    struct list updates; /* the first one runs */
    bool is_reported;    /* this lease was reported to a caller */
};

static bool is_box(const struct map_node *node, const void *key)
{
    const struct box_id *id = key;

    return container_of(node, struct update_line, node)->box.v == id->v;
}

static struct update_line *line_find(const struct engine *e, struct box_id box)
{
    struct map_node *n = map_find(&e->updates, hash_u64(box.v), is_box, &box);

    return n != NULL ? container_of(n, struct update_line, node) : NULL;
}

static struct update_line *line_make(struct engine *e, const struct pool_fx *fx)
{
    struct update_line *line = line_find(e, fx->box);

    if (line == NULL) {
        line = xcalloc(1, sizeof(*line));
        line->box = fx->box;
        list_init(&line->updates);
        /* Of two acquires that wait for one commit the other may have been answered just now. */
        line->is_reported =
            e->reported_box.v == fx->box.v && e->reported_leased_ns == fx->snapshot.leased_ns;
        map_insert(&e->updates, &line->node, hash_u64(fx->box.v));
    }
    return line;
}

static void line_drop_empty(struct engine *e, struct update_line *line)
{
    if (!list_is_empty(&line->updates))
        return;
    map_remove(&e->updates, &line->node);
    free(line);
}

static struct engine_update *update_of(struct list_node *n)
{
    return container_of(n, struct engine_update, link);
}

static void update_free(struct engine_update *u)
{
    if (u->config != NULL)
        config_ref_put(u->config);
    free(u->extras);
    free(u);
}

/* --- how it ends --- */

static bool is_fresh(const struct engine_update *u)
{
    enum pool_source source = u->fx.u.reply.source;

    return source == POOL_SRC_WARM || source == POOL_SRC_COLD || source == POOL_SRC_RESTORED;
}

/* Whether the lease that was to be answered still stands. One that was released and is taken up again is another
 * lease, though its generation is the same: the pool has promised it to somebody else. */
bool update_is_leased(const struct engine *e, const struct pool_fx *fx)
{
    const struct pool_box *box = pool_find_box(e->pool, fx->box);

    return box != NULL && box->state == POOL_LEASED && box->epoch == fx->snapshot.epoch;
}

static bool is_leased(const struct engine_update *u)
{
    return update_is_leased(u->engine, &u->fx);
}

/* As for a reply that cannot be delivered. A box that somebody else knows of is still held. */
static void give_back(struct engine_update *u, bool is_spoiled)
{
    struct pool_event ev = {.kind = POOL_EV_UNDELIVERED,
                            .box = u->fx.box,
                            .epoch = u->fx.snapshot.epoch,
                            .u.undelivered.is_spoiled = is_spoiled};

    engine_post(u->engine, &ev);
}

/* Replies of others that share the lease may be held back elsewhere. It was reported to nobody. */
static void destroy_box(struct engine_update *u)
{
    struct engine *e = u->engine;
    const struct pool_box *box = pool_find_box(e->pool, u->fx.box);
    struct pool_event ev = {.kind = POOL_EV_DESTROY, .req = {e->next_req}, .box = u->fx.box};

    if (!is_leased(u) || box->busy > 0)
        return;
    e->next_req++; /* of nobody: the reply is dropped */
    ev.u.on.generation = u->fx.snapshot.generation;
    ev.u.on.is_operator = true;
    ev.u.on.is_quick = true;
    engine_post(e, &ev);
}

/* Ends a call and frees the update, which is in no line any more. */
static void answer(struct engine_update *u, int code, const char *reason)
{
    struct engine_call *call = TAKE_PTR(u->call);

    if (call == NULL) {
        update_free(u);
        return;
    }
    assert(!err_is_inner(code));
    call->update = NULL;
    if (code != SP_OK) {
        u->fx.u.reply.code = code;
        if (code == SP_SANDBOX_LOST && u->fx.u.reply.lost == POOL_END_NONE)
            u->fx.u.reply.lost =
                POOL_END_DIED; /* the backend reports it; the pool will be notified */
        str_copy_cut(u->fx.reason, sizeof(u->fx.reason), reason);
    }
    engine_answer(u->engine, call, &u->fx);
    update_free(u);
}

int update_lost(struct engine *e, struct pool_fx *fx, const char **ret_reason)
{
    const struct pool_box *box = pool_find_box(e->pool, fx->box);
    enum pool_end end = box != NULL ? box->end : POOL_END_NONE;

    *ret_reason = "it was released meanwhile";
    if (box != NULL && box->state < POOL_DOOMED) /* parked, or leased again */
        return SP_NOT_LEASED;
    if (end == POOL_END_NONE)
        end = pool_find_past(e->pool, fx->snapshot.sandbox_id, NULL, NULL);
    *ret_reason = "it ended meanwhile, and its thread has another one";
    if (end == POOL_END_NONE)
        return SP_NOT_LEASED;
    fx->u.reply.lost = end;
    *ret_reason = "it ended meanwhile";
    return SP_SANDBOX_LOST;
}

/* The lease ended while the extras were being applied. */
static void answer_lost(struct engine_update *u)
{
    const char *reason;
    int code = update_lost(u->engine, &u->fx, &reason);

    answer(u, code, reason);
}

/* --- in line --- */

static void start_first(struct engine *e, struct update_line *line);

static void leave_line(struct engine_update *u)
{
    list_remove(&u->line->updates, &u->link);
    rt_timer_cancel(u->engine->rt, &u->timer);
    u->line = NULL;
    u->is_running = false;
}

/* The half changed box goes, and with it everyone who waits for it. */
static void fail_all(struct engine_update *u, struct update_line *line, int code)
{
    struct engine *e = u->engine;
    struct err err = u->backend.op.err;
    struct list others;

    list_init(&others);
    while (!list_is_empty(&line->updates)) {
        struct engine_update *other = update_of(list_first(&line->updates));

        assert(other->line == line);
        leave_line(other);
        list_push_back(&others, &other->link);
    }
    line_drop_empty(e, line);
    give_back(u, true);
    for (struct list_node *n = list_first(&others); n != NULL; n = list_next(&others, n))
        give_back(update_of(n), true);
    destroy_box(u);
    answer(u, code, err.msg);
    while (!list_is_empty(&others)) {
        answer(update_of(list_pop_front(&others)), code, err.msg);
    }
}

static void succeed(struct engine_update *u, struct update_line *line)
{
    struct engine *e = u->engine;

    event_updated(e, &u->fx.snapshot, u->extras);
    templates_note(e, u->fx.box, u->extras);
    hibernate_equipped(e, &u->fx.snapshot);
    line->is_reported = line->is_reported || u->call != NULL;
    start_first(e, line);
    if (u->call == NULL) {
        give_back(u, true);
        answer(u, SP_OK, "");
    } else if (!is_leased(u)) {
        answer_lost(u);
    } else {
        answer(u, SP_OK, "");
    }
}

static void on_updated(struct op *op)
{
    struct engine_update *u = container_of(op, struct engine_update, backend.op);
    struct engine *e = u->engine;
    struct update_line *line = u->line;
    int code = engine_code_for_caller(e, op->result);

    leave_line(u);
    if (op->result == SP_OK) {
        succeed(u, line);
        engine_op_ended(e);
        return;
    }
    log_warn("box.update_failed", LF_HEX("box", u->fx.box.v),
             LF_STR("sandbox_id", u->fx.snapshot.sandbox_id), LF_STR("reason", op->err.msg));
    if (!is_leased(u)) {
        start_first(e, line);
        answer_lost(u);
    } else if (is_fresh(u) && !line->is_reported) {
        fail_all(u, line, code);
    } else {
        struct err err = op->err;

        start_first(e, line);
        give_back(u, true);
        answer(u, code, err.msg);
    }
    engine_op_ended(e);
}

static void start(struct engine_update *u)
{
    struct engine *e = u->engine;
    struct backend *backend = e->backends[u->fx.snapshot.backend].backend;

    rt_timer_cancel(e->rt, &u->timer);
    u->is_running = true;
    u->config = config_ref_get(e->config);
    u->backend.profile = profiles_of_box(e, &u->fx.snapshot);
    u->backend.extras = *u->extras;
    box_to_backend(e, &u->fx.snapshot, &u->backend.box);
    engine_op_begun(e);
    backend->ops->update(backend, &u->backend, u->deadline_ns, on_updated);
}

/* Another acquire of its thread has given the box its variables, or others. */
static bool is_done_by_others(struct engine_update *u)
{
    if (u->has_kept_envs && !hibernate_wants_envs(u->engine, &u->fx.snapshot))
        backend_extras_keep(u->extras, ~(unsigned) BACKEND_LATE_ENVS);
    return backend_extras_kinds(u->extras) == 0;
}

/* Those whose lease has ended while they waited are not applied any more. */
static void start_first(struct engine *e, struct update_line *line)
{
    struct list over;

    list_init(&over);
    while (!list_is_empty(&line->updates)) {
        struct engine_update *u = update_of(list_first(&line->updates));

        if (u->is_running)
            break;
        if (is_leased(u) && !is_done_by_others(u)) {
            start(u);
            break;
        }
        assert(u->line == line);
        leave_line(u);
        list_push_back(&over, &u->link);
    }
    line_drop_empty(e, line);
    while (!list_is_empty(&over)) {
        struct engine_update *u = update_of(list_pop_front(&over));

        if (is_leased(u))
            answer(u, SP_OK, "");
        else
            answer_lost(u);
    }
}

static void on_line_timer(struct rt_timer *timer)
{
    struct engine_update *u = container_of(timer, struct engine_update, timer);

    leave_line(u); /* another one is first: the line is not empty */
    give_back(u, false);
    answer(u, SP_TIMEOUT,
           "another acquire of this thread is still being applied (its envs, mounts or limits): "
           "try again");
}

/* --- the engine's side --- */

/* Nothing was changed: the lease is undone like any other. */
static void refuse(struct engine_update *u, int code, const char *reason)
{
    give_back(u, false);
    answer(u, code, reason);
}

static struct engine_update *update_new(struct engine *e, struct engine_call *call,
                                        const struct pool_fx *fx)
{
    struct engine_update *u = xcalloc(1, sizeof(*u));

    u->engine = e;
    u->extras = TAKE_PTR(call->extras);
    u->call = call;
    u->fx = *fx;
    if (u->extras != NULL && call->restored_with != 0 &&
        call->restored_with != fx->snapshot.made_with)
        u->extras->snapshot = NULL; /* its thread has got a box that was not made from it */
    if (u->extras != NULL && call->restored_with != 0 && !call->has_envs &&
        u->extras->env_count == 0) {
        u->extras = hibernate_add_envs(e, &fx->snapshot, u->extras);
        u->has_kept_envs = u->extras->env_count > 0;
    }
    if (u->extras != NULL && u->extras->snapshot != NULL && fx->u.reply.source == POOL_SRC_COLD)
        u->fx.u.reply.source = POOL_SRC_RESTORED;
    return u;
}

void update_refuse(struct engine *e, struct engine_call *call, const struct pool_fx *fx, int code,
                   const char *reason)
{
    refuse(update_new(e, call, fx), code, reason);
}

void update_begin(struct engine *e, struct engine_call *call, const struct pool_fx *fx)
{
    struct engine_update *u = update_new(e, call, fx);
    struct err err;

    rt_refresh(e->rt);
    u->deadline_ns = call->deadline_ns > rt_now(e->rt)
                         ? call->deadline_ns
                         : rt_after(rt_now(e->rt), ENGINE_UPDATE_LEAST_NS);
    if (call->are_envs_for_new && fx->u.reply.source != POOL_SRC_COLD)
        backend_extras_keep(u->extras, ~(unsigned) BACKEND_LATE_ENVS);
    if (!call->may_exceed &&
        engine_check_limits(e, fx->snapshot.profile, u->extras, &err) != SP_OK) {
        give_back(u, fx->snapshot.made_with != 0);
        answer(u, SP_FORBIDDEN, err.msg);
        return;
    }
    if (!special_settle(e, &fx->snapshot, u->extras)) {
        refuse(u, SP_SPEC_CONFLICT,
               "the thread has a box already, and a box of this backend takes such envs, mounts or "
               "limits only when it is made: destroy it first, or ask for what it was made with");
        return;
    }
    if (backend_extras_kinds(u->extras) == 0) {
        hibernate_equipped(e, &fx->snapshot);
        update_reported(e, fx);
        answer(u, SP_OK, "");
        return;
    }
    if (e->is_closing) {
        refuse(u, SP_DRAINING, "the daemon is stopping");
        return;
    }
    call->update = u;
    u->line = line_make(e, fx);
    list_push_back(&u->line->updates, &u->link);
    if (u->line->updates.len > 1)
        rt_timer_set(e->rt, &u->timer, u->deadline_ns, on_line_timer);
    else
        start_first(e, u->line);
}

void update_reported(struct engine *e, const struct pool_fx *fx)
{
    struct update_line *line;

    e->reported_box = fx->box;
    e->reported_leased_ns = fx->snapshot.leased_ns;
    if (e->updates.len == 0)
        return;
    line = line_find(e, fx->box);
    if (line != NULL)
        line->is_reported = true;
}

/* What runs goes on when the box is the thread's own, or others wait for it; a fresh one that nobody
 * else wants is destroyed anyway. */
void update_abandon(struct engine_call *call)
{
    struct engine_update *u = TAKE_PTR(call->update);

    u->call = NULL;
    if (u->line == NULL)
        return; /* about to be answered */
    if (!u->is_running) {
        leave_line(u);
        refuse(u, SP_CANCELLED, "");
    } else if (is_fresh(u) && !u->line->is_reported && u->line->updates.len == 1) {
        op_cancel(&u->backend.op);
    }
}

void update_cancel(struct engine *e, struct box_id box)
{
    struct update_line *line = e->updates.len > 0 ? line_find(e, box) : NULL;

    if (line != NULL)
        op_cancel(&update_of(list_first(&line->updates))->backend.op);
}

void engine_undelivered(struct engine *e, const struct engine_call *call, struct box_id box,
                        bool is_spoiled)
{
    struct pool_event ev = {.kind = POOL_EV_UNDELIVERED,
                            .box = box,
                            .epoch = call->epoch,
                            .u.undelivered.is_spoiled = is_spoiled};

    engine_post(e, &ev);
}
