/* snapshots.c - snapshots are the backends' own: they are read at the start, made and deleted through here. */
#include "engine/snapshots.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/hibernate.h"
#include "engine/internal.h"
#include "engine/pauses.h"
#include "engine/snapshot_moves.h"
#include "engine/snapshot_side.h"

#define LOAD_NS ENGINE_LIST_TIMEOUT_NS /* one that is late is asked again after a clean listing */
#define SIDES_NS (10 * NS_PER_S)       /* a disk that takes longer does not hold up the start */
#define CAPTURE_NS (10 * 60 * NS_PER_S)
#define DROP_NS (30 * NS_PER_S)

static bool is_id(const struct map_node *node, const void *key)
{
    return container_of(node, struct engine_snapshot, node)->info.id == *(const uint64_t *) key;
}

struct engine_snapshot *engine_snapshot_find(const struct engine *e, uint64_t id)
{
    struct map_node *n = map_find(&e->snapshots, hash_u64(id), is_id, &id);
    struct engine_snapshot *s = n != NULL ? container_of(n, struct engine_snapshot, node) : NULL;

    return s != NULL && !s->is_leaving ? s : NULL;
}

/* Takes what `side` has. */
void snapshots_add(struct engine *e, const struct snapshot *info, unsigned backend,
                   struct snapshot_side *side, bool is_found)
{
    struct engine_snapshot *s;

    if (map_find(&e->snapshots, hash_u64(info->id), is_id, &info->id) != NULL)
        return;
    s = xcalloc(1, sizeof(*s));
    s->info = *info;
    s->backend = backend;
    s->is_found = is_found;
    s->order = ++e->snapshot_order;
    s->envs = TAKE_PTR(side->envs);
    s->was_unequipped = side->was_unequipped;
    s->noted_ms = side->used_ms;
    s->used_ms = MAX_OF(side->used_ms, info->created_ms);
    if (!info->is_hibernated)
        quota_add(e, info);
    map_insert(&e->snapshots, &s->node, hash_u64(info->id));
    snapshots_rank(&e->snapshot_list, s, offsetof(struct engine_snapshot, link));
    if (!info->is_hibernated)
        snapshots_rank(&e->snapshots_kept, s, offsetof(struct engine_snapshot, kept_link));
    quota_join(e, s);
    if (s->info.is_hibernated)
        hibernate_added(e, s);
}

static void forget(struct engine *e, struct engine_snapshot *s)
{
    map_remove(&e->snapshots, &s->node);
    list_remove(&e->snapshot_list, &s->link);
    list_remove(&e->snapshots_kept, &s->kept_link);
    quota_leave(e, s);
    if (s->info.is_hibernated)
        hibernate_forgotten(e, s);
    if (!s->info.is_hibernated)
        quota_remove(e, &s->info);
    free(s->envs);
    free(s);
}

void snapshots_init(struct engine *e, const struct config *config)
{
    list_init(&e->snapshot_list);
    list_init(&e->snapshots_kept);
    heap_init(&e->snapshots_unused, 0);
    map_init(&e->snapshots, config->snapshots.max);
    list_init(&e->holder_list);
    map_init(&e->holders, 64);
    list_init(&e->captures);
    list_init(&e->moves);
    e->snapshots_since_ms = (uint64_t) rt_wall_at(e->rt, rt_now(e->rt));
}

void snapshots_fini(struct engine *e)
{
    while (!list_is_empty(&e->snapshot_list))
        forget(e, container_of(list_first(&e->snapshot_list), struct engine_snapshot, link));
    map_fini(&e->snapshots);
    heap_fini(&e->snapshots_unused);
    quota_fini(e);
}

/* --- the start --- */

struct load_op {
    struct backend_snapshots request;
    struct engine *engine;
    unsigned backend;
    struct work work;
    char dir[CONFIG_PATH_MAX + 32];
    struct snapshot_side *sides; /* of each of the list */
    struct rt_timer timer;
    bool is_late; /* the start does not wait for it any more */
};

static int read_sides(struct work *w, struct err *err UNUSED)
{
    struct load_op *l = container_of(w, struct load_op, work);

    FAULT_POINT("hibernate.loading");
    for (size_t i = 0; i < l->request.count; i++)
        side_read(l->dir, l->request.list[i].id, &l->sides[i]);
    return SP_OK;
}

static void end_load(struct load_op *l)
{
    struct engine *e = l->engine;

    e->backends[l->backend].has_snapshots |= l->sides != NULL;
    for (size_t i = 0; l->sides != NULL && i < l->request.count; i++) {
        if (strcmp(l->request.list[i].instance, e->instance) == 0)
            snapshots_add(e, &l->request.list[i], l->backend, &l->sides[i], true);
        free(l->sides[i].envs);
    }
    rt_timer_cancel(e->rt, &l->timer);
    backend_snapshots_fini(&l->request);
    free(l->sides);
    e->snapshot_loads -= l->is_late ? 0 : 1;
    e->backends[l->backend].has_late_sides = false;
    free(l);
    if (e->is_recovered)
        snapshots_sweep(e);
    else
        recovery_settle(e);
    engine_op_ended(e);
}

static void on_sides(struct op *op)
{
    end_load(container_of(op, struct load_op, work.op));
}

/* The thread cannot be stopped. Until it has an answer, acquires that may concern one of these snapshots are refused. */
static void on_late_sides(struct rt_timer *timer)
{
    struct load_op *l = container_of(timer, struct load_op, timer);
    struct engine *e = l->engine;

    log_error("snapshot.sides_late", LF_STR("dir", l->dir),
              LF_STR("reason", "the disk does not answer: hibernated sandboxes have to wait"));
    l->is_late = true;
    e->backends[l->backend].has_late_sides = true;
    e->snapshot_loads--;
    if (!e->is_recovered)
        recovery_settle(e);
}

static void on_loaded(struct op *op)
{
    struct load_op *l = container_of(op, struct load_op, request.op);
    struct engine *e = l->engine;

    e->backends[l->backend].want_snapshots = op->result != SP_OK; /* after the next clean listing */
    if (op->result != SP_OK) {
        log_error("snapshot.list_failed", LF_STR("backend", e->backends[l->backend].ops->name),
                  LF_STR("reason", op->err.msg));
        end_load(l);
        return;
    }
    side_dir(e, l->dir);
    l->sides = xcalloc(l->request.count + 1, sizeof(*l->sides));
    l->work.run = read_sides;
    rt_timer_set(e->rt, &l->timer, rt_after(rt_now(e->rt), FAULT_TIME(SIDES_NS)), on_late_sides);
    work_start(e->loop, &l->work, NULL, RT_NEVER, on_sides);
}

void snapshots_load(struct engine *e, unsigned backend)
{
    struct engine_backend *b = &e->backends[backend];
    struct load_op *l;

    if (b->ops->snapshots == NULL || e->is_closing)
        return;
    b->want_snapshots = false;
    l = xcalloc(1, sizeof(*l));
    l->engine = e;
    l->backend = backend;
    e->snapshot_loads++;
    engine_op_begun(e);
    b->ops->snapshots(b->backend, &l->request, rt_after(rt_now(e->rt), LOAD_NS), on_loaded);
}

/* --- making one --- */

static void touch(struct engine *e, struct box_id box, int delta)
{
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY, .box = box, .u.activity.delta = delta};

    engine_post(e, &ev);
}

bool snapshots_is_captured(const struct engine *e, struct box_id box)
{
    for (struct list_node *n = list_first(&e->captures); n != NULL; n = list_next(&e->captures, n))
        if (container_of(n, struct engine_capture, link)->box.v == box.v)
            return true;
    return false;
}

/* Being destroyed, or gone. */
static bool is_ending(const struct pool_box *b)
{
    return b == NULL || b->state >= POOL_DOOMED;
}

/* `c` is its owner's from on_done() on. */
static void end_capture(struct engine_capture *c, int rc, const struct err *err)
{
    struct engine *e = c->engine;
    struct snapshot_side side = {.envs = TAKE_PTR(c->envs), .was_unequipped = c->was_unequipped};
    struct err lost;
    char reason[sizeof(err->msg)] = "";
    int code;

    if (rc != SP_OK && is_ending(pool_find_box(e->pool, c->box))) {
        rc = err_set(&lost, SP_SANDBOX_LOST, "the sandbox was destroyed before it was copied");
        err = &lost;
    }
    code = rc == SP_OK ? SP_OK : engine_code_for_caller(e, rc);
    if (c->request.snapshot.is_hibernated) {
        share_end(e, c->request.snapshot.principal);
    } else {
        touch(e, c->box, -1);
        quota_end(e, c->request.snapshot.principal, 0);
    }
    str_copy_cut(reason, sizeof(reason), rc != SP_OK ? err->msg : "");
    if (rc != SP_OK && side.envs != NULL)
        side_remove(e, c->request.snapshot.id);
    agent_env_fini(&c->env);
    if (rc == SP_OK) {
        snapshots_add(e, &c->request.snapshot, c->backend, &side, false);
        log_info("snapshot.made", LF_HEX("snapshot", c->request.snapshot.id),
                 LF_HEX("box", c->box.v), LF_U64("bytes", c->request.snapshot.size),
                 LF_U64("frozen_ms", c->request.frozen_ns / NS_PER_MS));
    } else if (code == SP_SANDBOX_LOST) { /* which its owner can bring about at will */
        log_info("snapshot.lost", LF_HEX("box", c->box.v), LF_STR("reason", reason));
    } else {
        log_warn("snapshot.failed", LF_HEX("box", c->box.v), LF_STR("reason", reason));
    }
    config_ref_put(c->config);
    list_remove(&e->captures, &c->link);
    pauses_captured(e, c->box);
    free(side.envs);
    c->on_done(c, code, reason);
    engine_op_ended(e);
}

static void on_captured(struct op *op)
{
    end_capture(container_of(op, struct engine_capture, request.op), op->result, &op->err);
}

void snapshots_not_captured(struct engine_capture *c, int rc, const struct err *err)
{
    end_capture(c, rc, err);
}

void snapshots_capture(struct engine_capture *c)
{
    struct engine *e = c->engine;

    e->backends[c->backend].ops->capture(e->backends[c->backend].backend, &c->request,
                                         rt_after(rt_now(e->rt), CAPTURE_NS), on_captured);
}

/* The backend has it, its answer is not processed yet. */
static void change_captured(struct engine *e, uint64_t id, uint64_t size, uint64_t layers)
{
    for (struct list_node *n = list_first(&e->captures); n != NULL;
         n = list_next(&e->captures, n)) {
        struct snapshot *s = &container_of(n, struct engine_capture, link)->request.snapshot;

        if (s->id == id) {
            s->size = size;
            s->layers = layers;
        }
    }
}

void snapshots_on_changed(void *ctx, uint64_t id, uint64_t size, uint64_t layers)
{
    struct engine *e = ((struct engine_backend *) ctx)->engine;
    struct map_node *n = map_find(&e->snapshots, hash_u64(id), is_id, &id);
    struct snapshot *s;

    if (n == NULL) {
        change_captured(e, id, size, layers);
        return;
    }
    s = &container_of(n, struct engine_snapshot, node)->info;
    if (!s->is_hibernated)
        quota_remove(e, s);
    s->size = size;
    s->layers = layers;
    if (!s->is_hibernated)
        quota_add(e, s);
}

void snapshots_close(struct engine *e)
{
    for (struct list_node *n = list_first(&e->captures); n != NULL;
         n = list_next(&e->captures, n)) {
        struct engine_capture *c = container_of(n, struct engine_capture, link);

        if (op_is_active(&c->env.request.op))
            op_cancel(&c->env.request.op);
    }
    moves_close(e);
}

static void on_refused(struct rt_task *task)
{
    struct engine_capture *c = container_of(task, struct engine_capture, refusal);

    c->on_done(c, c->request.op.err.code, c->request.op.err.msg);
}

static void refuse(struct engine *e, struct engine_capture *c, int code, const char *text)
{
    (void) err_set(&c->request.op.err, code, "%s", text);
    rt_defer(e->rt, &c->refusal, on_refused);
}

void engine_capture_start(struct engine *e, struct engine_capture *c, struct box_id box)
{
    const struct pool_box *b = pool_find_box(e->pool, box);
    bool is_hibernated = c->request.snapshot.is_hibernated;
    char text[160];
    struct err err;

    c->engine = e;
    c->box = box;
    if (is_ending(b)) {
        refuse(e, c, SP_SANDBOX_LOST, "the sandbox was destroyed");
        return;
    }
    if (b->state != (is_hibernated ? POOL_PARKED : POOL_LEASED)) {
        refuse(e, c, SP_NOT_LEASED, "the sandbox is not leased");
        return;
    }
    if (b->is_paused) {
        refuse(e, c, SP_BACKEND_FAILED, "the sandbox was paused meanwhile: try again");
        return;
    }
    if (e->backends[b->backend].ops->capture == NULL) {
        (void) snprintf(text, sizeof(text), "boxes of backend %s have no snapshots",
                        e->backends[b->backend].ops->name);
        refuse(e, c, SP_UNSUPPORTED, text);
        return;
    }
    if (is_hibernated && share_check(e, b->principal, &err) != SP_OK) {
        refuse(e, c, err.code, err.msg);
        return;
    }
    if (!is_hibernated && quota_check(e, b->principal, 0, &err) != SP_OK) {
        refuse(e, c, err.code, err.msg);
        return;
    }
    if (e->is_closing || e->disk.is_low) {
        refuse(e, c, e->is_closing ? SP_DRAINING : SP_POOL_EXHAUSTED,
               e->is_closing ? "the daemon is stopping" : e->disk.reason);
        return;
    }
    c->backend = b->backend;
    c->config = config_ref_get(e->config);
    c->request.profile = profiles_of_box(e, b);
    snapshots_describe(e, b, &c->request.snapshot);
    box_to_backend(e, b, &c->request.box);
    engine_op_begun(e);
    list_push_back(&e->captures, &c->link);
    if (is_hibernated) {
        share_begin(e, b->principal);
    } else {
        quota_begin(e, b->principal, 0);
        touch(e, box, +1);
    }
    capture_ask_envs(c);
}

/* --- deleting --- */

struct drop_op {
    struct backend_drop request;
    struct engine *engine;
    uint64_t id;
    void (*on_done)(void *ctx, int code, const char *reason);
    void *ctx;
};

static void on_dropped(struct op *op)
{
    struct drop_op *d = container_of(op, struct drop_op, request.op);
    struct engine *e = d->engine;
    struct map_node *n = map_find(&e->snapshots, hash_u64(d->id), is_id, &d->id);
    struct engine_snapshot *s = n != NULL ? container_of(n, struct engine_snapshot, node) : NULL;

    if (op->result == SP_OK)
        log_info("snapshot.deleted", LF_HEX("snapshot", d->id));
    if (op->result == SP_OK)
        side_remove(e, d->id);
    if (s != NULL && op->result == SP_OK)
        forget(e, s);
    else if (s != NULL)
        s->is_leaving = false;
    d->on_done(d->ctx, err_for_caller(op->result), op->err.msg);
    free(d);
    engine_op_ended(e);
}

void engine_snapshot_drop(struct engine *e, struct engine_snapshot *s,
                          void (*on_done)(void *ctx, int code, const char *reason), void *ctx)
{
    struct backend *b = e->backends[s->backend].backend;
    struct drop_op *d = xcalloc(1, sizeof(*d));

    s->is_leaving = true;
    d->engine = e;
    d->id = d->request.id = s->info.id;
    d->on_done = on_done;
    d->ctx = ctx;
    engine_op_begun(e);
    b->ops->drop(b, &d->request, rt_after(rt_now(e->rt), DROP_NS), on_dropped);
}

static void on_swept(void *ctx, int code, const char *reason)
{
    (void) ctx;
    if (code != SP_OK)
        log_warn("snapshot.not_swept", LF_STR("reason", reason));
}

void snapshots_sweep(struct engine *e)
{
    bool are_all_known = true;
    bool are_possible = false;

    for (struct list_node *n = list_first(&e->snapshot_list); n != NULL && !e->is_closing;
         n = list_next(&e->snapshot_list, n)) {
        struct engine_snapshot *s = container_of(n, struct engine_snapshot, link);

        if (s->info.is_temporary && s->is_found && !s->is_leaving)
            engine_snapshot_drop(e, s, on_swept, NULL);
    }
    hibernate_sweep(e);
    for (unsigned i = 0; i < e->backend_count; i++) {
        const struct engine_backend *b = &e->backends[i];

        if (b->ops->snapshots == NULL)
            continue;
        are_all_known =
            are_all_known && b->has_snapshots && !b->want_snapshots && !b->has_late_sides;
        are_possible = true;
    }
    if (are_possible && are_all_known && e->snapshot_loads == 0 && !e->is_closing)
        side_sweep(e);
    snapshots_keep_arm(e);
}
