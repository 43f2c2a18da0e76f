/* Turns of the loop: order of work, timers that are neither early nor late, waking from a thread,
 * signals, slow turns, a clean end. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/log.h"
#include "loop/loop.h"
#include "loop/signals.h"
#include "loop/wake.h"
#include "tests/lib/unit.h"

/* A thread that wakes the loop. Part of the fixture, because the handle must outlive the loop. */
struct waker {
    struct wake wake;
    atomic_uint sent;
    unsigned want;
    uint64_t slack_ns;
};

struct fixture {
    struct loop loop;
    struct waker waker;
    struct rt_timer limit;
    struct rt_timer timer;
    struct rt_task task;
    struct rt_task second;
    char order[32];
    size_t order_len;
    uint64_t fired_ns;
    unsigned count;
};

static uint64_t clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * NS_PER_S + (uint64_t) ts.tv_nsec;
}

static void note(struct fixture *f, char c)
{
    assert_true(f->order_len + 1 < sizeof(f->order));
    f->order[f->order_len] = c;
    f->order_len++;
    f->order[f->order_len] = '\0';
}

static void on_limit(struct rt_timer *timer)
{
    (void) timer;
    fail_msg("the test hangs");
}

static int set_up(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));

    assert_int_equal(loop_init(&f->loop, NULL), SP_OK);
    rt_timer_set(&f->loop.rt, &f->limit, rt_after(rt_now(&f->loop.rt), 10 * NS_PER_S), on_limit);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    rt_timer_cancel(&f->loop.rt, &f->limit);
    loop_fini(&f->loop); /* asserts that nothing is left */
    test_free(f);
    return 0;
}

static void stop_from_timer(struct rt_timer *timer)
{
    struct fixture *f = container_of(timer, struct fixture, timer);

    f->fired_ns = clock_ns();
    loop_stop(&f->loop);
}

static void test_timer_is_on_time(void **state)
{
    struct fixture *f = *state;

    for (uint64_t ms = 1; ms <= 40; ms += 13) {
        uint64_t at_ns = clock_ns() + ms * NS_PER_MS + 300 * NS_PER_US;

        rt_timer_set(&f->loop.rt, &f->timer, at_ns, stop_from_timer);
        loop_run(&f->loop);
        assert_true(f->fired_ns >= at_ns);
        assert_true(f->fired_ns < at_ns + 500 * NS_PER_MS); /* generous: machines are shared */
    }
}

static void stop_from_task(struct rt_task *task)
{
    struct fixture *f = container_of(task, struct fixture, task);

    loop_stop(&f->loop);
}

static void test_task_deferred_before_run(void **state)
{
    struct fixture *f = *state;

    rt_defer(&f->loop.rt, &f->task, stop_from_task);
    loop_run(&f->loop);
    assert_true(list_is_empty(&f->loop.rt.tasks));
}

static void test_stop_before_run(void **state)
{
    struct fixture *f = *state;

    loop_stop(&f->loop);
    loop_run(&f->loop); /* returns */
    rt_defer(&f->loop.rt, &f->task, stop_from_task);
    loop_run(&f->loop); /* and can run again */
}

static void note_and_stop(struct rt_task *task)
{
    struct fixture *f = container_of(task, struct fixture, second);

    note(f, 'z');
    loop_stop(&f->loop);
}

static void note_task(struct rt_task *task)
{
    struct fixture *f = container_of(task, struct fixture, task);

    note(f, 't');
    rt_defer(&f->loop.rt, &f->second, note_and_stop);
}

static void on_wake_defer(void *ctx)
{
    struct fixture *f = ctx;

    note(f, 'w');
    rt_defer(&f->loop.rt, &f->task, note_task);
}

static void test_work_of_an_io_callback_runs_in_the_same_turn(void **state)
{
    struct fixture *f = *state;
    struct wake *w = &f->waker.wake;
    bool again;

    assert_int_equal(wake_init(w, &f->loop, on_wake_defer, f, NULL), SP_OK);
    again = loop_run_once(&f->loop);
    assert_true(again); /* the wake-up handle is open */
    assert_string_equal(f->order, "");
    wake_send(w);
    (void) loop_run_once(&f->loop);
    assert_string_equal(f->order, "wtz");
    wake_close(w, NULL, NULL);
    (void) loop_run_once(&f->loop);
    (void) loop_run_once(&f->loop); /* uses up the stop */
}

static void on_closed_defer(void *ctx)
{
    struct fixture *f = ctx;

    note(f, 'c');
    rt_defer(&f->loop.rt, &f->task, note_task);
}

static void test_work_of_a_close_callback_does_not_sleep(void **state)
{
    struct fixture *f = *state;
    struct wake *w = &f->waker.wake;

    assert_int_equal(wake_init(w, &f->loop, on_wake_defer, f, NULL), SP_OK);
    wake_close(w, on_closed_defer, f);
    loop_run(&f->loop);
    assert_string_equal(f->order, "ctz");
}

static void test_run_once_reports_idle(void **state)
{
    struct fixture *f = *state;

    assert_true(loop_run_once(&f->loop)); /* the limit timer */
    rt_timer_cancel(&f->loop.rt, &f->limit);
    assert_false(loop_run_once(&f->loop));
    rt_timer_set(&f->loop.rt, &f->timer, rt_now(&f->loop.rt) + NS_PER_S, stop_from_timer);
    assert_true(loop_run_once(&f->loop));
    rt_timer_cancel(&f->loop.rt, &f->timer);
    assert_false(loop_run_once(&f->loop));
}

static void *send_many(void *arg)
{
    struct waker *k = arg;

    for (unsigned i = 0; i < k->want; i++) {
        atomic_fetch_add(&k->sent, 1);
        wake_send(&k->wake);
    }
    return NULL;
}

static void on_wake_count(void *ctx)
{
    struct fixture *f = ctx;

    f->count++;
    if (atomic_load(&f->waker.sent) == f->waker.want)
        loop_stop(&f->loop);
}

static void test_wake_from_a_thread(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;

    f->waker.want = 10000;
    assert_int_equal(wake_init(&f->waker.wake, &f->loop, on_wake_count, f, NULL), SP_OK);
    assert_int_equal(pthread_create(&thread, NULL, send_many, &f->waker), 0);
    loop_run(&f->loop);
    pthread_join(thread, NULL);
    assert_in_range(f->count, 1, f->waker.want);
    wake_close(&f->waker.wake, NULL, NULL);
}

static void *sleep_then_send(void *arg)
{
    struct waker *k = arg;
    struct timespec ts = {.tv_nsec = 500 * 1000 * 1000};

    nanosleep(&ts, NULL);
    wake_send(&k->wake);
    return NULL;
}

static void on_wake_read_clock(void *ctx)
{
    struct fixture *f = ctx;
    uint64_t now_ns = rt_now(&f->loop.rt);

    f->waker.slack_ns = clock_ns() - now_ns;
    loop_stop(&f->loop);
}

static void test_clock_is_fresh_after_a_sleep(void **state)
{
    struct fixture *f = *state;
    struct wake *w = &f->waker.wake;
    pthread_t thread;

    assert_int_equal(wake_init(w, &f->loop, on_wake_read_clock, f, NULL), SP_OK);
    assert_int_equal(pthread_create(&thread, NULL, sleep_then_send, &f->waker), 0);
    loop_run(&f->loop);
    pthread_join(thread, NULL);
    /* Less than the 500 ms slept, whatever the scheduler does to one statement. */
    assert_true(f->waker.slack_ns < 400 * NS_PER_MS);
    wake_close(w, NULL, NULL);
}

static void on_signal(void *ctx, int signum)
{
    struct fixture *f = ctx;

    note(f, signum == SIGUSR1 ? '1' : '2');
    if (f->order_len == 2)
        loop_stop(&f->loop);
}

static void test_signals(void **state)
{
    static struct signals s; /* must outlive the loop */
    struct fixture *f = *state;
    const int wanted[] = {SIGUSR1, SIGUSR2, 0};
    struct sigaction action;

    assert_int_equal(signals_init(&s, &f->loop, wanted, on_signal, f, NULL), SP_OK);
    assert_int_equal(sigaction(SIGPIPE, NULL, &action), 0);
    assert_true(action.sa_handler == SIG_IGN);
    raise(SIGUSR1);
    raise(SIGUSR2);
    loop_run(&f->loop);
    assert_non_null(strchr(f->order, '1'));
    assert_non_null(strchr(f->order, '2'));
    signals_close(&s);
}

static void test_bad_signal(void **state)
{
    static struct signals s;
    struct fixture *f = *state;
    const int wanted[] = {SIGUSR1, SIGKILL, 0};
    struct err err = {0};

    assert_int_equal(signals_init(&s, &f->loop, wanted, on_signal, f, &err), SP_IO);
    assert_true(err.sys != 0);
    assert_int_equal(s.count, 0);
}

static void be_slow(struct rt_task *task)
{
    struct timespec ts = {.tv_nsec = 70 * 1000 * 1000};

    (void) task;
    nanosleep(&ts, NULL);
}

/* A sleep of its own after the one that ended here, so that the turn between them has an end. */
static void sleep_again(struct rt_timer *timer)
{
    struct fixture *f = container_of(timer, struct fixture, timer);

    rt_timer_set(&f->loop.rt, timer, rt_now(&f->loop.rt) + 5 * NS_PER_MS, stop_from_timer);
}

static void test_slow_turn_is_reported(void **state)
{
    struct fixture *f = *state;
    char text[4096] = "";
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    log_setup(fds[1], LOG_INFO, LOG_LOGFMT);
    rt_timer_set(&f->loop.rt, &f->timer, rt_now(&f->loop.rt) + 120 * NS_PER_MS, sleep_again);
    loop_run(&f->loop); /* sleeping is not work */
    assert_int_equal(f->loop.slow_turns, 0);
    rt_defer(&f->loop.rt, &f->task, be_slow);
    (void) loop_run_once(&f->loop);
    assert_int_equal(f->loop.slow_turns, 1);
    log_setup(-1, LOG_INFO, LOG_LOGFMT);
    close(fds[1]);
    assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
    close(fds[0]);
    assert_non_null(strstr(text, "event=loop.slow ms="));
}

static void test_stuck_log_is_retried(void **state)
{
    struct fixture *f = *state;
    char text[64 * 1024];
    uint64_t turns_ns;
    int fds[2];

    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    memset(text, 'x', sizeof(text));
    while (write(fds[1], text, sizeof(text)) > 0)
        continue;
    log_setup(fds[1], LOG_INFO, LOG_LOGFMT);
    log_info("test.stuck", LF_U64("n", 1));
    rt_timer_cancel(&f->loop.rt, &f->limit);
    assert_false(loop_run_once(&f->loop)); /* a stuck sink is no work to wait for */
    assert_true(heap_has(&f->loop.log_retry.node));
    while (read(fds[0], text, sizeof(text)) > 0)
        continue;
    turns_ns = clock_ns() + 300 * NS_PER_MS;
    rt_timer_set(&f->loop.rt, &f->timer, turns_ns, stop_from_timer);
    loop_run(&f->loop);
    assert_false(heap_has(&f->loop.log_retry.node));
    assert_true(read(fds[0], text, sizeof(text)) > 0);
    log_setup(-1, LOG_INFO, LOG_LOGFMT);
    close(fds[0]);
    close(fds[1]);
}

#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(test_timer_is_on_time),
        LOOP_TEST(test_task_deferred_before_run),
        LOOP_TEST(test_stop_before_run),
        LOOP_TEST(test_work_of_an_io_callback_runs_in_the_same_turn),
        LOOP_TEST(test_work_of_a_close_callback_does_not_sleep),
        LOOP_TEST(test_run_once_reports_idle),
        LOOP_TEST(test_wake_from_a_thread),
        LOOP_TEST(test_clock_is_fresh_after_a_sleep),
        LOOP_TEST(test_signals),
        LOOP_TEST(test_bad_signal),
        LOOP_TEST(test_slow_turn_is_reported),
        LOOP_TEST(test_stuck_log_is_retried),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
