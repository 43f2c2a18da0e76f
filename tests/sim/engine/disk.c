/* disk.c - the model of the store, in place of store/: everything that is queued is committed together, some time later;
 * the disk fails (then all that waits fails, and the store is down until it works again) or hangs. What is committed is in
 * walk.disk and outlives the engine. rows.c has what one write does to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "rows.h"
#include "store/store.h"
#include "walk.h"

struct store {
    struct store_config config;
    struct list ops;
    struct list in;   /* submitted */
    struct list work; /* being committed */
    struct list out;  /* answered, not yet collected */
    struct rt_timer commit;
    struct rt_timer retry;
    struct rt_timer hang; /* of the loop */
    bool is_started;
    bool is_up; /* as the loop knows it */
    bool is_hung;
    bool is_down;
    bool is_down_reported;
    struct err reason;
    uint64_t writes;
    uint64_t failures;
};

static void on_commit(struct rt_timer *timer);

void disk_init(void)
{
    memset(&walk.disk, 0, sizeof(walk.disk));
}

/* --- the writer --- */

static void begin_commit(struct store *s)
{
    uint64_t at_ns = walk_now() + rand_between(&walk.rand, 50 * NS_PER_US, 3 * NS_PER_MS);

    if (!list_is_empty(&s->work) || list_is_empty(&s->in) || s->is_down)
        return;
    list_move(&s->in, &s->work);
    rt_timer_set(&walk.rt, &s->commit,
                 walk.is_frozen ? walk_now() : MAX_OF(at_ns, walk.hang_ns + 1), on_commit);
}

static void answer_all(struct store *s, struct list *from, const struct err *why)
{
    while (!list_is_empty(from)) {
        struct store_write *w = container_of(list_pop_front(from), struct store_write, queue_link);

        w->outcome = why != NULL ? why->code : SP_OK;
        if (why != NULL)
            w->failure = *why;
        rows_note(w, why == NULL);
        list_push_back(&s->out, &w->queue_link);
    }
}

static void on_retry(struct rt_timer *timer)
{
    struct store *s = container_of(timer, struct store, retry);

    if (walk.is_disk_bad || !s->is_down_reported) {
        rt_timer_set(&walk.rt, timer, walk_now() + walk_ms(100, 800), on_retry);
        return;
    }
    s->is_down = false;
    s->config.wake(s->config.ctx);
    begin_commit(s);
}

static void go_down(struct store *s)
{
    walk_say("disk: failed, %zu writes", s->work.len + s->in.len);
    s->is_down = true;
    s->is_down_reported = false;
    (void) err_set(&s->reason, SP_STORE_UNAVAILABLE, "the disk was made to fail");
    s->failures += s->work.len + s->in.len;
    answer_all(s, &s->work, &s->reason);
    answer_all(s, &s->in, &s->reason);
    rt_timer_set(&walk.rt, &s->retry, walk_now() + walk_ms(100, 800), on_retry);
}

static void apply_all(struct list *work)
{
    for (struct list_node *n = list_first(work); n != NULL; n = list_next(work, n))
        rows_apply(container_of(n, struct store_write, queue_link));
    walk.is_dirty = true;
}

static void on_commit(struct rt_timer *timer)
{
    struct store *s = container_of(timer, struct store, commit);

    if (!walk.is_frozen && walk.hang_ns > walk_now()) { /* it began to hang meanwhile */
        rt_timer_set(&walk.rt, timer, walk.hang_ns + 1, on_commit);
        return;
    }
    if (walk.is_frozen) {
        answer_all(s, &s->work, NULL);
    } else if (walk.is_disk_bad || (walk_chance(1) && walk_one_in(3))) {
        go_down(s);
    } else {
        walk_say("disk: %zu writes", s->work.len);
        apply_all(&s->work);
        s->writes += s->work.len;
        answer_all(s, &s->work, NULL);
    }
    s->config.wake(s->config.ctx);
    begin_commit(s);
}

/* The process is killed: a transaction that was being written is complete or does not exist. */
void disk_freeze(void)
{
    struct store *s = walk.store;

    if (s == NULL)
        return;
    if (!list_is_empty(&s->work) && !walk.is_disk_bad && walk.hang_ns <= walk_now() &&
        walk_one_in(2))
        apply_all(&s->work);
    if (!list_is_empty(&s->work))
        rt_timer_set(&walk.rt, &s->commit, walk_now(), on_commit);
}

void disk_hang(uint64_t for_ns)
{
    walk.hang_ns = MAX_OF(walk.hang_ns, walk_now() + for_ns);
}

void disk_set_bad(bool is_bad)
{
    walk.is_disk_bad = is_bad;
}

/* --- the loop's side: as store/store.c does it --- */

static uint64_t oldest_ns(const struct store *s)
{
    struct list_node *n = list_first(&s->ops);

    return n != NULL ? container_of(n, struct store_write, op.link)->begun_ns : RT_NEVER;
}

static bool is_overdue(const struct store *s)
{
    uint64_t since_ns = oldest_ns(s);

    return since_ns != RT_NEVER && since_ns + s->config.timeout_ns <= walk_now();
}

static void report_state(struct store *s, bool is_up)
{
    s->is_up = is_up;
    walk_say("disk: %s", is_up ? "up" : s->reason.msg);
    s->config.on_state(s->config.ctx, is_up, is_up ? "" : s->reason.msg);
}

static void on_hang_timer(struct rt_timer *timer)
{
    struct store *s = container_of(timer, struct store, hang);

    if (s->is_hung || list_is_empty(&s->ops))
        return;
    if (!is_overdue(s)) {
        rt_timer_set(s->config.rt, timer, oldest_ns(s) + s->config.timeout_ns, on_hang_timer);
        return;
    }
    s->is_hung = true;
    if (!s->is_up)
        return;
    (void) err_set(&s->reason, SP_STORE_UNAVAILABLE, "the disk has not answered for long");
    report_state(s, false);
}

static void watch(struct store *s)
{
    if (!heap_has(&s->hang.node))
        rt_timer_set(s->config.rt, &s->hang, walk_now() + s->config.timeout_ns, on_hang_timer);
}

static void refuse(struct store *s, struct store_write *w, const struct err *why)
{
    s->failures++;
    rows_note(w, false);
    op_finish(&w->op, why->code, why);
}

void store_submit(struct store *s, struct store_write *w, void (*on_done)(struct op *))
{
    struct err full;

    if (!s->is_started)
        walk_fail("a write to a store that does not run");
    op_begin(&w->op, s->config.rt, &s->ops, RT_NEVER, NULL, on_done);
    w->at_ms = rt_stored_at(s->config.rt, rt_now(s->config.rt));
    w->begun_ns = walk_now();
    w->failure.code = SP_OK;
    (void) err_set(&full, SP_STORE_UNAVAILABLE, "too many writes wait for the disk");
    if (!s->is_up) {
        refuse(s, w, &s->reason);
    } else if (s->ops.len > s->config.queue_max) {
        refuse(s, w, &full);
    } else {
        watch(s);
        list_push_back(&s->in, &w->queue_link);
        if (s->is_down) /* the loop has not been notified yet */
            answer_all(s, &s->in, &s->reason);
        begin_commit(s);
    }
}

void store_drain(struct store *s)
{
    bool is_up;

    while (!list_is_empty(&s->out)) {
        struct store_write *w =
            container_of(list_pop_front(&s->out), struct store_write, queue_link);

        op_finish(&w->op, w->outcome, &w->failure);
    }
    if (s->is_down)
        s->is_down_reported = true;
    s->is_hung = s->is_hung && is_overdue(s);
    if (!s->is_hung && !list_is_empty(&s->ops))
        watch(s);
    is_up = !s->is_down && !s->is_hung;
    if (s->is_up != is_up)
        report_state(s, is_up);
}

bool store_is_hung(const struct store *s)
{
    return s->is_hung;
}

bool store_is_fresh(const struct store *s UNUSED)
{
    return true;
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
    *ret = (struct store_stats){.writes = s->writes, .failures = s->failures};
}

void store_forget_slowest(struct store *s)
{
    (void) s;
}

/* --- open and close --- */

int store_open(const struct store_config *config, struct store **ret, struct err *err)
{
    struct store *s;

    if (walk.store != NULL)
        walk_fail("the database is opened twice");
    if (walk_chance(5))
        return err_set(err, SP_IO, "the database was made not to open");
    s = xcalloc(1, sizeof(*s));
    s->config = *config;
    s->is_up = true;
    list_init(&s->ops);
    list_init(&s->in);
    list_init(&s->work);
    list_init(&s->out);
    walk.store = s;
    *ret = s;
    return SP_OK;
}

int store_start(struct store *s, struct err *err UNUSED)
{
    s->is_started = true;
    return SP_OK;
}

void store_shut(struct store *s)
{
    if (!list_is_empty(&s->in) || !list_is_empty(&s->work))
        walk_fail("the database is closed while something is written");
    s->is_started = false;
}

struct store *store_close(struct store *s)
{
    if (s == NULL)
        return NULL;
    if (!list_is_empty(&s->ops))
        walk_fail("the database is closed before all writes were answered");
    rt_timer_cancel(s->config.rt, &s->hang);
    rt_timer_cancel(&walk.rt, &s->commit);
    rt_timer_cancel(&walk.rt, &s->retry);
    walk.store = NULL;
    free(s);
    return NULL;
}
