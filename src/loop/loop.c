/* loop.c - one turn of the loop: poll, I/O callbacks, check, close callbacks, timers, prepare.
 *
 * Tasks deferred by an I/O callback run in check, those deferred by a close callback in prepare,
 * which is the last thing before the poll: so nothing sleeps while there is work. A turn ends with
 * prepare, and the clock is stale from then on. */
#include "loop/loop.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/log.h"
#include "base/mem.h"

#define SLOW_TURN_NS (50 * NS_PER_MS)
#define LOG_RETRY_NS (100 * NS_PER_MS)

struct close_ctx {
    void (*on_closed)(void *ctx);
    void *ctx;
};

static void on_timer(uv_timer_t *timer)
{
    struct loop *l = container_of(timer, struct loop, timer);

    l->armed_ns = RT_NEVER; /* it only wakes the loop: prepare runs what is due */
}

static void on_log_retry(struct rt_timer *timer)
{
    (void) timer; /* the flush at the end of this turn is the retry */
}

static void flush_log(struct loop *l)
{
    if (heap_has(&l->log_retry.node) || log_flush())
        return;
    rt_timer_set(&l->rt, &l->log_retry, rt_after(rt_now(&l->rt), LOG_RETRY_NS), on_log_retry);
}

/* Sets the one timer of libuv to the next deadline, rounded up to its milliseconds. libuv counts
 * from its own cached time, which must not be older than the turn's work. */
static void arm(struct loop *l)
{
    uint64_t at_ns = rt_next_deadline(&l->rt);
    uint64_t at_ms;
    uint64_t now_ms;
    int r;

    if (at_ns == l->armed_ns && at_ns > l->rt.now_ns)
        return;
    l->armed_ns = at_ns;
    if (at_ns == RT_NEVER) {
        (void) uv_timer_stop(&l->timer); /* cannot fail */
        return;
    }
    at_ms = at_ns / NS_PER_MS + (at_ns % NS_PER_MS != 0);
    now_ms = uv_now(&l->uv);
    if (at_ns <= l->rt.now_ns) /* became due during the turn: do not round that up to a sleep */
        at_ms = now_ms;
    r = uv_timer_start(&l->timer, on_timer, at_ms > now_ms ? at_ms - now_ms : 0, 0);
    assert(r == 0);
}

static void check_duration(struct loop *l)
{
    uint64_t took_ns = l->rt.now_ns - l->turn_start_ns;

    if (l->rt.now_ns < l->turn_start_ns || took_ns < SLOW_TURN_NS)
        return;
    l->slow_turns++;
    log_warn("loop.slow", LF_U64("ms", took_ns / NS_PER_MS));
}

static bool has_due_work(const struct loop *l)
{
    return !list_is_empty(&l->rt.tasks) || rt_next_deadline(&l->rt) <= l->rt.now_ns;
}

/* The clock is read a second time only when something ran, so an idle pass costs one reading. */
static void run_queue(struct loop *l)
{
    rt_refresh(&l->rt);
    if (!has_due_work(l))
        return;
    rt_run(&l->rt);
    rt_refresh(&l->rt);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct loop *l = container_of(prepare, struct loop, prepare);

    run_queue(l);
    check_duration(l);
    flush_log(l);
    if (l->rt.now_ns / NS_PER_MS > uv_now(&l->uv))
        uv_update_time(&l->uv);
    arm(l);
    l->turn++;
    l->rt.is_stale = true;
}

static void on_check(uv_check_t *check)
{
    struct loop *l = container_of(check, struct loop, check);

    /* libuv took the time when the poll returned; the callbacks since then are part of the turn. */
    l->turn_start_ns = uv_now(&l->uv) * NS_PER_MS;
    run_queue(l);
}

int loop_init(struct loop *l, struct err *err)
{
    int r = uv_loop_init(&l->uv);

    if (r != 0)
        return err_sys(err, SP_IO, -r, "event loop");
    rt_init(&l->rt);
    l->armed_ns = RT_NEVER;
    l->turn_start_ns = rt_now(&l->rt);
    l->log_retry = (struct rt_timer){0};
    l->slow_turns = 0;
    l->turn = 1;
    l->is_stopping = false;
    /* None of these can fail: they only link the handle. */
    (void) uv_prepare_init(&l->uv, &l->prepare);
    (void) uv_prepare_start(&l->prepare, on_prepare);
    (void) uv_check_init(&l->uv, &l->check);
    (void) uv_check_start(&l->check, on_check);
    (void) uv_timer_init(&l->uv, &l->timer);
    /* prepare keeps the loop alive; whether there is work is asked in has_work(). */
    uv_unref((uv_handle_t *) &l->check);
    uv_unref((uv_handle_t *) &l->timer);
    return SP_OK;
}

static void start_turn(struct loop *l)
{
    rt_refresh(&l->rt);
    l->turn_start_ns = l->rt.now_ns;
}

static bool has_work(struct loop *l)
{
    size_t own_timers = heap_has(&l->log_retry.node) ? 1 : 0;
    bool is_alive;

    uv_unref((uv_handle_t *) &l->prepare);
    is_alive = uv_loop_alive(&l->uv) != 0;
    uv_ref((uv_handle_t *) &l->prepare);
    return is_alive || !list_is_empty(&l->rt.tasks) || l->rt.timers.len > own_timers;
}

void loop_run(struct loop *l)
{
    start_turn(l);
    do {
        (void) uv_run(&l->uv, UV_RUN_DEFAULT);
    } while (!l->is_stopping);
    l->is_stopping = false;
    flush_log(l); /* the turn that stopped had no end */
}

bool loop_run_once(struct loop *l)
{
    start_turn(l);
    (void) uv_run(&l->uv, UV_RUN_NOWAIT);
    flush_log(l);
    return has_work(l);
}

void loop_stop(struct loop *l)
{
    l->is_stopping = true;
    uv_stop(&l->uv);
}

static void assert_is_closing(uv_handle_t *handle, void *ctx)
{
    const struct loop *l = ctx;
    const void *own[] = {&l->prepare, &l->check, &l->timer};

    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (own[i] == handle)
            return;
    if (uv_is_closing(handle))
        return;
    (void) fprintf(stderr, "loop: a handle of type %s was left open\n",
                   uv_handle_type_name(handle->type));
    abort();
}

void loop_fini(struct loop *l)
{
    int r;

    uv_walk(&l->uv, assert_is_closing, l);
    uv_unref((uv_handle_t *) &l->prepare);
    while (uv_loop_alive(&l->uv))
        (void) uv_run(&l->uv, UV_RUN_NOWAIT);
    rt_run(&l->rt); /* what the last close callbacks deferred */
    loop_close_handle((uv_handle_t *) &l->prepare, NULL, NULL);
    loop_close_handle((uv_handle_t *) &l->check, NULL, NULL);
    loop_close_handle((uv_handle_t *) &l->timer, NULL, NULL);
    (void) uv_run(&l->uv, UV_RUN_DEFAULT);
    r = uv_loop_close(&l->uv);
    assert(r == 0);
    rt_fini(&l->rt);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct close_ctx *close_ctx = handle->data;
    struct close_ctx copy = *close_ctx;

    free(close_ctx);
    copy.on_closed(copy.ctx); /* may free the handle */
}

void loop_close_handle(uv_handle_t *handle, void (*on_closed)(void *ctx), void *ctx)
{
    struct close_ctx *close_ctx;

    assert(!uv_is_closing(handle));
    if (on_closed == NULL) {
        uv_close(handle, NULL);
        return;
    }
    close_ctx = xcalloc(1, sizeof(*close_ctx));
    close_ctx->on_closed = on_closed;
    close_ctx->ctx = ctx;
    handle->data = close_ctx;
    uv_close(handle, on_handle_closed);
}
