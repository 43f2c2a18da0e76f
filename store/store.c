/* store.c - the loop's side: submit, drain, back-pressure, open and close. Nothing here touches
 * the database while the thread runs. Completions come in the order of submission, except that a
 * write which is refused (down, too many in flight) is finished at once. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/internal.h"

#define RETRY_MIN_NS (100 * NS_PER_MS)
#define RETRY_MAX_NS (5 * NS_PER_S)

static struct store *store_free(struct store *s)
{
    schema_close(&s->db);
    queue_fini(&s->queue);
    budget_fini(&s->budgets);
    shares_fini(&s->shares[SHARES_EVENTS]);
    shares_fini(&s->shares[SHARES_USAGE]);
    stamp_close(s);
    free(s->reserve_path);
    free(s->path);
    free(s);
    return NULL;
}

static int open_db(struct store *s, struct err *err)
{
    int r = schema_open(&s->db, s->path, true, err);

    if (r == SP_OK)
        r = upkeep_at_open(s, err);
    return r == SP_OK ? stamp_at_open(s, err) : r;
}

/* Also when the disk is full. */
static int open_with_reserve(struct store *s, struct err *err)
{
    struct err first;
    int r = open_db(s, &first);

    if (r != SP_OK && reserve_is_wanted(first.sys, 0) && reserve_drop(s)) {
        schema_close(&s->db);
        return open_db(s, err);
    }
    if (r != SP_OK && err != NULL)
        *err = first;
    return r;
}

int store_open(const struct store_config *config, struct store **ret, struct err *err)
{
    struct store *s = xcalloc(1, sizeof(*s));
    int r;

    assert(config->queue_max > 0 && config->batch_max > 0 && config->wake != NULL);
    s->config = *config;
    s->path = xstrdup(config->path);
    s->config.path = s->path;
    s->is_up = true;
    s->stamp_fd = -1;
    for (size_t i = 0; i < STORE_BOOT_FILES; i++)
        s->boot_fds[i] = -1;
    s->retry_ns = RETRY_MIN_NS;
    s->retry_min_ns = RETRY_MIN_NS;
    s->retry_max_ns = RETRY_MAX_NS;
    list_init(&s->ops);
    queue_init(&s->queue, config->wake, config->ctx);
    reserve_init(s);
    budget_init(&s->budgets, config);
    shares_init(&s->shares[SHARES_EVENTS], SHARES_EVENTS);
    shares_init(&s->shares[SHARES_USAGE], SHARES_USAGE);
    r = strlen(s->path) < STORE_PATH_MAX - 16
            ? open_with_reserve(s, err)
            : err_set(err, SP_CONFIG, "the path of the database is too long");
    if (r != SP_OK) {
        (void) store_free(s);
        return r;
    }
    reserve_keep(s);
    *ret = s;
    return SP_OK;
}

/* --- a disk that does not answer --- */

static void report_state(struct store *s, bool is_up)
{
    s->is_up = is_up;
    if (s->config.on_state != NULL)
        s->config.on_state(s->config.ctx, is_up, is_up ? "" : s->reason.msg);
}

/* Since when the oldest write waits; RT_NEVER when none does. */
static uint64_t oldest_ns(const struct store *s)
{
    struct list_node *n = list_first(&s->ops);

    return n != NULL ? container_of(n, struct store_write, op.link)->begun_ns : RT_NEVER;
}

static bool is_overdue(const struct store *s)
{
    uint64_t since_ns = oldest_ns(s);

    return s->config.timeout_ns > 0 && since_ns != RT_NEVER &&
           rt_after(since_ns, s->config.timeout_ns) <= rt_now(s->config.rt);
}

/* Set for the first of the writes in flight and moved on when it fires, so that a write costs no
 * timer of its own. */
static void on_hang_timer(struct rt_timer *timer)
{
    struct store *s = container_of(timer, struct store, hang_timer);

    if (s->is_hung || list_is_empty(&s->ops))
        return;
    if (!is_overdue(s)) {
        rt_timer_set(s->config.rt, timer, rt_after(oldest_ns(s), s->config.timeout_ns),
                     on_hang_timer);
        return;
    }
    s->is_hung = true;
    if (!s->is_up)
        return; /* down already, for a better reason */
    (void) err_set(&s->reason, SP_STORE_UNAVAILABLE,
                   "'%.120s': the disk has not answered for %llu s", s->path,
                   (unsigned long long) (s->config.timeout_ns / NS_PER_S));
    report_state(s, false);
}

static void watch(struct store *s)
{
    if (s->config.timeout_ns > 0 && !heap_has(&s->hang_timer.node))
        rt_timer_set(s->config.rt, &s->hang_timer,
                     rt_after(rt_now(s->config.rt), s->config.timeout_ns), on_hang_timer);
}

int store_start(struct store *s, struct err *err)
{
    int r;

    assert(!s->is_started);
    r = writer_start(s, err);
    s->is_started = r == SP_OK;
    return r;
}

static void refuse(struct store *s, struct store_write *w, const struct err *why)
{
    (void) atomic_fetch_add_explicit(&s->failures, 1, memory_order_relaxed);
    op_finish(&w->op, why->code, why);
}

void store_submit(struct store *s, struct store_write *w, void (*on_done)(struct op *))
{
    assert(w->kind < STORE_KIND_COUNT);
    op_begin(&w->op, s->config.rt, &s->ops, RT_NEVER, NULL, on_done);
    w->at_ms = rt_stored_at(s->config.rt, rt_now(s->config.rt));
    w->begun_ns = rt_now(s->config.rt);
    budget_period(s, &w->period);
    w->failure.code = SP_OK;
    if (!s->is_up) {
        refuse(s, w, &s->reason);
    } else if (s->ops.len > s->config.queue_max) {
        struct err err;

        (void) err_set(&err, SP_STORE_UNAVAILABLE, "%u writes are waiting for the disk",
                       s->config.queue_max);
        refuse(s, w, &err);
    } else {
        watch(s);
        queue_push(&s->queue, w);
    }
}

static void finish_all(struct list *done)
{
    for (struct list_node *n = list_pop_front(done); n != NULL; n = list_pop_front(done)) {
        struct store_write *w = container_of(n, struct store_write, queue_link);

        op_finish(&w->op, w->outcome, &w->failure);
    }
}

void store_drain(struct store *s)
{
    struct list done;
    struct queue_state state;
    bool is_up;

    queue_collect(&s->queue, &done, &state);
    finish_all(&done);
    s->is_hung = s->is_hung && is_overdue(s);
    if (!s->is_hung && !list_is_empty(&s->ops))
        watch(s);
    is_up = !state.is_down && !s->is_hung;
    if (s->is_up == is_up)
        return;
    if (state.is_down)
        s->reason = state.reason;
    report_state(s, is_up);
}

bool store_is_hung(const struct store *s)
{
    return s->is_hung;
}

bool store_is_fresh(const struct store *s)
{
    return s->is_fresh;
}

bool store_is_up(const struct store *s)
{
    return s->is_up;
}

size_t store_pending(const struct store *s)
{
    return s->ops.len;
}

void store_get_stats(struct store *s, struct store_stats *ret)
{
    ret->commits = atomic_load_explicit(&s->commits, memory_order_relaxed);
    ret->power_commits = atomic_load_explicit(&s->power_commits, memory_order_relaxed);
    ret->writes = atomic_load_explicit(&s->writes, memory_order_relaxed);
    ret->failures = atomic_load_explicit(&s->failures, memory_order_relaxed);
    ret->commit_ns_max = atomic_load_explicit(&s->commit_ns_max, memory_order_relaxed);
    ret->wal_pages = atomic_load_explicit(&s->wal_pages, memory_order_relaxed);
    ret->has_reserve = atomic_load_explicit(&s->is_reserve_held, memory_order_relaxed);
}

void store_forget_slowest(struct store *s)
{
    atomic_store_explicit(&s->commit_ns_max, 0, memory_order_relaxed);
}

/* Writes that were submitted to a store that never started. */
static void fail_unwritten(struct store *s)
{
    struct list work;
    struct err err;

    (void) err_set(&err, SP_STORE_UNAVAILABLE, "the store was closed before it started");
    list_init(&work);
    queue_go_down(&s->queue, &work, &err);
}

void store_shut(struct store *s)
{
    if (s->is_started)
        writer_join(s);
    s->is_started = false;
    if (s->db.conn != NULL) {
        upkeep_checkpoint(s, reserve_has_room(s));
        reserve_leave(s);
    }
    schema_close(&s->db);
    stamp_close(s);
}

struct store *store_close(struct store *s)
{
    struct list done;
    struct queue_state state;

    if (s == NULL)
        return NULL;
    rt_timer_cancel(s->config.rt, &s->hang_timer);
    if (!s->is_started && !list_is_empty(&s->ops))
        fail_unwritten(s);
    store_shut(s);
    queue_collect(&s->queue, &done, &state);
    finish_all(&done);
    assert(list_is_empty(&s->ops));
    return store_free(s);
}
