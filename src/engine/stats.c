/* stats.c - what a box has used, as its backend counts it now. That reads a file for each of its processes, so a caller that asks
 * without end for a box full of them could take all threads: of each backend two boxes are read at once, never two of one
 * lane, in which those of one owner are; the lanes take turns. Who asks for a box that waits for its turn gets the same answer. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "engine/internal.h"

/* The backend's own end; whoever asks has a shorter one. */
#define READ_NS (30 * NS_PER_S)

enum { LANES = 64, RUNNING_MAX = 2, EXPECTED = 64 };

struct stats_queue {
    struct engine *engine;
    struct map waiting; /* readings that have not begun, by box */
    struct list lanes[LANES];
    uint64_t used; /* lanes in which somebody waits, a bit each */
    uint64_t busy; /* lanes of which one is being read */
    unsigned last; /* the lane whose turn was the last */
    unsigned running;
};

struct reading {
    struct backend_stats stats;
    struct map_node node; /* of the queue, while it waits */
    struct list_node link;
    struct stats_queue *queue;
    struct box_id box;
    unsigned lane;
    bool is_running;
    struct list asks;
};

struct ask {
    struct list_node link;
    struct rt_timer timer;
    struct reading *reading;
    void (*on_done)(void *ctx, const struct backend_counters *counters);
    void *ctx;
};

static void begin_next(struct stats_queue *q);

static bool is_box(const struct map_node *node, const void *key)
{
    const struct box_id *id = key;

    return container_of(node, struct reading, node)->box.v == id->v;
}

/* Owners that share a lane share its turns; nobody chooses what the daemon knows it by. */
static unsigned lane_of(const struct pool_box *box)
{
    return (unsigned) (hash_u64(box->principal) % LANES);
}

/* --- who asks --- */

static void answer(struct engine *e, struct ask *a, const struct backend_counters *counters)
{
    rt_timer_cancel(e->rt, &a->timer);
    a->on_done(a->ctx, counters);
    free(a);
    engine_op_ended(e);
}

static void answer_all(struct engine *e, struct list *asks, const struct backend_counters *counters)
{
    while (!list_is_empty(asks))
        answer(e, container_of(list_pop_front(asks), struct ask, link), counters);
}

/* --- one reading --- */

static void take_out(struct reading *r)
{
    struct stats_queue *q = r->queue;

    map_remove(&q->waiting, &r->node);
    list_remove(&q->lanes[r->lane], &r->link);
    if (list_is_empty(&q->lanes[r->lane]))
        q->used &= ~(1ULL << r->lane);
}

/* Time is over for one who asked. */
static void on_late(struct rt_timer *timer)
{
    struct ask *a = container_of(timer, struct ask, timer);
    struct reading *r = a->reading;
    struct engine *e = r->queue->engine;

    list_remove(&r->asks, &a->link);
    if (list_is_empty(&r->asks) && !r->is_running) {
        if (list_is_linked(&r->link))
            take_out(r);
        free(r);
    }
    answer(e, a, NULL);
}

static void on_counted(struct op *op)
{
    struct reading *r = container_of(op, struct reading, stats.op);
    struct stats_queue *q = r->queue;
    struct engine *e = q->engine;
    struct list asks;

    if (op->result != SP_OK)
        log_debug("box.not_counted", LF_HEX("box", r->box.v), LF_STR("reason", op->err.msg));
    q->running--;
    q->busy &= ~(1ULL << r->lane);
    list_move(&r->asks, &asks);
    engine_op_begun(e); /* while others are notified */
    answer_all(e, &asks, op->result == SP_OK ? &r->stats.counters : NULL);
    free(r);
    begin_next(q);
    engine_op_ended(e);
}

/* Of a box that is not there any more nobody says anything; those who asked hear of it in a turn of their own. */
static void refuse(struct reading *r)
{
    struct rt *rt = r->queue->engine->rt;

    for (struct list_node *n = list_first(&r->asks); n != NULL; n = list_next(&r->asks, n))
        rt_timer_set(rt, &container_of(n, struct ask, link)->timer, rt_now(rt), on_late);
}

static void begin(struct reading *r)
{
    struct stats_queue *q = r->queue;
    struct engine *e = q->engine;
    const struct pool_box *box = pool_find_box(e->pool, r->box);
    struct backend *backend = box != NULL ? e->backends[box->backend].backend : NULL;

    take_out(r);
    if (backend == NULL || !engine_can_count(e, box)) {
        refuse(r);
        return;
    }
    r->is_running = true;
    q->running++;
    q->busy |= 1ULL << r->lane;
    box_to_backend(e, box, &r->stats.box);
    backend->ops->stats(backend, &r->stats, rt_after(rt_now(e->rt), READ_NS), on_counted);
}

/* The lane after the last one that has somebody and is not being read; LANES: none is. */
static unsigned next_lane(const struct stats_queue *q)
{
    uint64_t ready = q->used & ~q->busy;
    unsigned from = (q->last + 1) % LANES;
    uint64_t later = ready & ~((1ULL << from) - 1);

    if (ready == 0)
        return LANES;
    return (unsigned) __builtin_ctzll(later != 0 ? later : ready);
}

static void begin_next(struct stats_queue *q)
{
    unsigned lane;

    while (q->running < RUNNING_MAX && (lane = next_lane(q)) < LANES) {
        q->last = lane;
        begin(container_of(list_first(&q->lanes[lane]), struct reading, link));
    }
}

/* --- the queue --- */

static struct stats_queue *queue_of(struct engine *e, unsigned backend)
{
    struct stats_queue *q = e->backends[backend].stats;

    if (q != NULL)
        return q;
    q = xcalloc(1, sizeof(*q));
    q->engine = e;
    map_init(&q->waiting, EXPECTED);
    for (unsigned i = 0; i < LANES; i++)
        list_init(&q->lanes[i]);
    e->backends[backend].stats = q;
    return q;
}

static struct reading *reading_of(struct stats_queue *q, const struct pool_box *box)
{
    struct map_node *n = map_find(&q->waiting, hash_u64(box->id.v), is_box, &box->id);
    struct reading *r;

    if (n != NULL)
        return container_of(n, struct reading, node);
    r = xcalloc(1, sizeof(*r));
    r->queue = q;
    r->box = box->id;
    r->lane = lane_of(box);
    list_init(&r->asks);
    map_insert(&q->waiting, &r->node, hash_u64(box->id.v));
    list_push_back(&q->lanes[r->lane], &r->link);
    q->used |= 1ULL << r->lane;
    return r;
}

bool engine_can_count(const struct engine *e, const struct pool_box *box)
{
    return e->backends[box->backend].ops->stats != NULL && !e->is_closing;
}

void stats_start(struct engine *e, const struct pool_box *box, uint64_t limit_ns,
                 void (*on_done)(void *ctx, const struct backend_counters *counters), void *ctx)
{
    struct stats_queue *q = queue_of(e, box->backend);
    struct reading *r = reading_of(q, box);
    struct ask *a = xcalloc(1, sizeof(*a));

    assert(engine_can_count(e, box));
    a->reading = r;
    a->on_done = on_done;
    a->ctx = ctx;
    list_push_back(&r->asks, &a->link);
    rt_timer_set(e->rt, &a->timer, rt_after(rt_now(e->rt), limit_ns), on_late);
    engine_op_begun(e);
    begin_next(q);
}

void engine_count_box(struct engine *e, struct box_id id,
                      void (*on_done)(void *ctx, const struct backend_counters *counters),
                      void *ctx)
{
    const struct pool_box *box = pool_find_box(e->pool, id);

    assert(box != NULL);
    stats_start(e, box, ENGINE_STATS_NS, on_done, ctx);
}

void stats_close(struct engine *e)
{
    for (unsigned i = 0; i < e->backend_count; i++) {
        struct stats_queue *q = TAKE_PTR(e->backends[i].stats);

        if (q != NULL)
            map_fini(&q->waiting);
        free(q);
    }
}
