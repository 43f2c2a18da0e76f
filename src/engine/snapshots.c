/* snapshots.c - snapshots are the backends' own: they are read at the start, made and deleted through here. */
#include "engine/snapshots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"
#include "engine/internal.h"
#include "engine/pauses.h"

#define LOAD_NS ENGINE_LIST_TIMEOUT_NS /* one that is late is asked again after a clean listing */
#define CAPTURE_NS (10 * 60 * NS_PER_S)
#define DROP_NS (60 * NS_PER_S)

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

bool engine_snapshot_fits(struct engine *e, const struct engine_snapshot *s, unsigned profile)
{
    return profiles_backend(e, profile) == &e->backends[s->backend];
}

static const struct engine_snapshot *of_link(const struct list_node *n)
{
    return n != NULL ? container_of(n, const struct engine_snapshot, link) : NULL;
}

const struct engine_snapshot *engine_snapshot_first(const struct engine *e)
{
    return of_link(list_first(&e->snapshot_list));
}

const struct engine_snapshot *engine_snapshot_next(const struct engine *e,
                                                   const struct engine_snapshot *s)
{
    return of_link(list_next(&e->snapshot_list, &s->link));
}

/* Listings do not come in the order of their making. */
static void add(struct engine *e, const struct snapshot *info, unsigned backend, bool is_found)
{
    struct engine_snapshot *s;
    struct list_node *before;

    if (map_find(&e->snapshots, hash_u64(info->id), is_id, &info->id) != NULL)
        return;
    s = xcalloc(1, sizeof(*s));
    s->info = *info;
    s->backend = backend;
    s->is_found = is_found;
    map_insert(&e->snapshots, &s->node, hash_u64(info->id));
    before = e->snapshot_list.head.prev;
    while (before != &e->snapshot_list.head &&
           container_of(before, struct engine_snapshot, link)->info.created_ms > info->created_ms)
        before = before->prev;
    list_insert_between(&e->snapshot_list, &s->link, before, before->next);
}

static void forget(struct engine *e, struct engine_snapshot *s)
{
    map_remove(&e->snapshots, &s->node);
    list_remove(&e->snapshot_list, &s->link);
    free(s);
}

void snapshots_fini(struct engine *e)
{
    while (!list_is_empty(&e->snapshot_list))
        forget(e, container_of(list_first(&e->snapshot_list), struct engine_snapshot, link));
    map_fini(&e->snapshots);
}

/* --- the start --- */

struct load_op {
    struct backend_snapshots request;
    struct engine *engine;
    unsigned backend;
};

static void on_loaded(struct op *op)
{
    struct load_op *l = container_of(op, struct load_op, request.op);
    struct engine *e = l->engine;

    e->backends[l->backend].want_snapshots = op->result != SP_OK; /* after the next clean listing */
    if (op->result != SP_OK)
        log_error("snapshot.list_failed", LF_STR("backend", e->backends[l->backend].ops->name),
                  LF_STR("reason", op->err.msg));
    for (size_t i = 0; op->result == SP_OK && i < l->request.count; i++) {
        if (strcmp(l->request.list[i].instance, e->instance) == 0)
            add(e, &l->request.list[i], l->backend, true);
    }
    backend_snapshots_fini(&l->request);
    free(l);
    e->snapshot_loads--;
    if (e->is_recovered)
        snapshots_sweep(e);
    else
        recovery_settle(e);
    engine_op_ended(e);
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

static void on_captured(struct op *op)
{
    struct engine_capture *c = container_of(op, struct engine_capture, request.op);
    struct engine *e = c->engine;
    int code = err_for_caller(op->result);
    char reason[sizeof(op->err.msg)];

    touch(e, c->box, -1);
    str_copy_cut(reason, sizeof(reason), op->err.msg);
    if (op->result == SP_OK) {
        add(e, &c->request.snapshot, c->backend, false);
        log_info("snapshot.made", LF_HEX("snapshot", c->request.snapshot.id),
                 LF_HEX("box", c->box.v), LF_U64("bytes", c->request.snapshot.size),
                 LF_U64("frozen_ms", c->request.frozen_ns / NS_PER_MS));
    } else {
        log_warn("snapshot.failed", LF_HEX("box", c->box.v), LF_STR("reason", reason));
    }
    config_ref_put(c->config);
    list_remove(&e->captures, &c->link);
    pauses_captured(e, c->box);
    c->on_done(c, code, reason);
    engine_op_ended(e);
}

static void fill(struct engine *e, const struct pool_box *box, struct snapshot *s)
{
    rand_secure(&s->id, sizeof(s->id));
    str_copy_cut(s->instance, sizeof(s->instance), e->instance);
    str_copy_cut(s->profile, sizeof(s->profile), profiles_name(e, box->profile));
    str_copy_cut(s->sandbox_id, sizeof(s->sandbox_id), box->sandbox_id);
    str_copy_cut(s->user, sizeof(s->user), box->user);
    str_copy_cut(s->thread, sizeof(s->thread), box->thread);
    s->principal = box->principal;
    s->created_ms = (uint64_t) rt_wall_at(e->rt, rt_now(e->rt));
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
    uint64_t max = e->config->config->snapshots.max;
    char text[160];

    c->engine = e;
    c->box = box;
    if (b == NULL || b->state != POOL_LEASED) {
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
    if (e->snapshots.len >= max) {
        (void) snprintf(text, sizeof(text),
                        "there are %llu snapshots, the limit (snapshots.max): delete some",
                        (unsigned long long) max);
        refuse(e, c, SP_TOO_MANY_SNAPSHOTS, text);
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
    fill(e, b, &c->request.snapshot);
    box_to_backend(e, b, &c->request.box);
    engine_op_begun(e);
    list_push_back(&e->captures, &c->link);
    touch(e, box, +1);
    e->backends[c->backend].ops->capture(e->backends[c->backend].backend, &c->request,
                                         rt_after(rt_now(e->rt), CAPTURE_NS), on_captured);
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
    for (struct list_node *n = list_first(&e->snapshot_list); n != NULL && !e->is_closing;
         n = list_next(&e->snapshot_list, n)) {
        struct engine_snapshot *s = container_of(n, struct engine_snapshot, link);

        if (s->info.is_temporary && s->is_found && !s->is_leaving)
            engine_snapshot_drop(e, s, on_swept, NULL);
    }
}
