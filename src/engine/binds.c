/* binds.c - records the owner of a box in the backend. Its labels are the second record of ownership, the one
 * that is left when the database is lost: a bind that fails is tried again until it succeeds or the box
 * is gone. One is under way per box, and always says who owns the box by then. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

#define RETRY_MIN_NS (1 * NS_PER_S)
#define RETRY_MAX_NS (60 * NS_PER_S)

struct binder {
    struct map_node node;
    struct list_node link;
    struct backend_bind bind;
    struct rt_timer timer; /* until the next try */
    struct engine *engine;
    struct box_id box;
    unsigned failures;
    bool is_running;
    bool is_stale; /* the owner has changed since this one began */
};

static void start(struct binder *b);

static bool is_box(const struct map_node *node, const void *key)
{
    const struct box_id *id = key;

    return container_of(node, struct binder, node)->box.v == id->v;
}

static struct binder *find(const struct engine *e, struct box_id box)
{
    struct map_node *n = map_find(&e->binds, hash_u64(box.v), is_box, &box);

    return n != NULL ? container_of(n, struct binder, node) : NULL;
}

static void drop(struct binder *b)
{
    struct engine *e = b->engine;

    rt_timer_cancel(e->rt, &b->timer);
    map_remove(&e->binds, &b->node);
    list_remove(&e->bind_list, &b->link);
    free(b);
}

static void on_retry(struct rt_timer *timer)
{
    start(container_of(timer, struct binder, timer));
}

/* Not all at the same moment, when many have failed together. */
static void start_later(struct binder *b)
{
    unsigned doublings = b->failures < 8 ? b->failures : 8;
    uint64_t pause_ns = MIN_OF(RETRY_MIN_NS << doublings, RETRY_MAX_NS);
    uint64_t jitter_ns = hash_u64(b->box.v + b->failures) % (pause_ns / 2);

    rt_timer_set(b->engine->rt, &b->timer, rt_after(rt_now(b->engine->rt), pause_ns - jitter_ns),
                 on_retry);
}

static void on_bound(struct op *op)
{
    struct binder *b = container_of(op, struct binder, bind.op);
    struct engine *e = b->engine;

    b->is_running = false;
    if (op->result != SP_OK && b->failures == 0)
        log_warn("box.bind_failed", LF_HEX("box", b->box.v), LF_STR("reason", op->err.msg));
    else if (op->result == SP_OK && b->failures > 0)
        log_info("box.bound", LF_HEX("box", b->box.v), LF_U64("failures", b->failures));
    b->failures = op->result == SP_OK ? 0 : b->failures + 1;
    if (e->is_closing || (op->result == SP_OK && !b->is_stale))
        drop(b);
    else if (b->is_stale)
        start(b);
    else
        start_later(b);
    engine_op_ended(e);
}

static void start(struct binder *b)
{
    struct engine *e = b->engine;
    const struct pool_box *box = pool_find_box(e->pool, b->box);
    struct backend *backend;

    if (box == NULL || box->state >= POOL_DOOMED) {
        drop(b);
        return;
    }
    if (box->state == POOL_LEASING) { /* not its owner before the commit */
        start_later(b);
        return;
    }
    backend = e->backends[box->backend].backend;
    rt_timer_cancel(e->rt, &b->timer);
    b->is_running = true;
    b->is_stale = false;
    box_to_backend(e, box, &b->bind.box);
    engine_op_begun(e);
    backend->ops->bind(backend, &b->bind, rt_after(rt_now(e->rt), ENGINE_BIND_TIMEOUT_NS),
                       on_bound);
}

void fx_bind(struct engine *e, const struct pool_fx *fx)
{
    struct binder *b = find(e, fx->box);

    if (!e->backends[fx->snapshot.backend].ops->can_bind)
        return;
    if (b == NULL) {
        b = xcalloc(1, sizeof(*b));
        b->engine = e;
        b->box = fx->box;
        map_insert(&e->binds, &b->node, hash_u64(b->box.v));
        list_push_back(&e->bind_list, &b->link);
    }
    b->is_stale = true;
    if (!b->is_running)
        start(b);
}

void binds_close(struct engine *e)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&e->bind_list); n != NULL; n = next) {
        struct binder *b = container_of(n, struct binder, link);

        next = list_next(&e->bind_list, n);
        if (!b->is_running) /* else its end drops it */
            drop(b);
    }
}
