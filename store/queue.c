/* queue.c - two lists under one lock. The lock is held for a few pointer moves only; nobody is
 * woken while it is held, and only a side that has nothing to do is woken at all. */
#include "store/queue.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/compiler.h"

/* After a batch the next write is often microseconds away, and waking a sleeping thread costs more
 * than committing. Bounded, so an idle store sleeps; only when there are CPUs to spare. */
#define SPIN_NS (70 * NS_PER_US)
#define SPIN_LOOKS 16
/* Many callers at once: their writes gather while the writer sleeps, and the CPU is wanted by
 * those who make them. */
#define SPIN_BATCH_MAX 2

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return (uint64_t) ts.tv_sec * NS_PER_S + (uint64_t) ts.tv_nsec;
}

static void relax_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* One for the loop, one for the caller: spinning must not take theirs. */
static bool has_spare_cpu(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 3;
}

static void lock(struct queue *q)
{
    int rc = pthread_mutex_lock(&q->mutex);

    assert(rc == 0);
    (void) rc;
}

static void unlock(struct queue *q)
{
    int rc = pthread_mutex_unlock(&q->mutex);

    assert(rc == 0);
    (void) rc;
}

void queue_init(struct queue *q, void (*wake)(void *ctx), void *ctx)
{
    pthread_mutexattr_t mutex_attr;
    pthread_condattr_t cond_attr;
    int rc;

    *q = (struct queue){.wake = wake, .ctx = ctx};
    q->spin_ns = has_spare_cpu() ? SPIN_NS : 0;
    list_init(&q->in);
    list_init(&q->out);
    atomic_init(&q->has_news, false);
    (void) pthread_mutexattr_init(&mutex_attr); /* these cannot fail on Linux */
    (void) pthread_mutexattr_settype(&mutex_attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    rc = pthread_mutex_init(&q->mutex, &mutex_attr);
    assert(rc == 0);
    (void) pthread_mutexattr_destroy(&mutex_attr);
    (void) pthread_condattr_init(&cond_attr);
    (void) pthread_condattr_setclock(&cond_attr, CLOCK_MONOTONIC);
    rc = pthread_cond_init(&q->cond, &cond_attr);
    assert(rc == 0);
    (void) rc;
    (void) pthread_condattr_destroy(&cond_attr);
}

void queue_fini(struct queue *q)
{
    assert(list_is_empty(&q->in) && list_is_empty(&q->out));
    (void) pthread_cond_destroy(&q->cond); /* nobody waits any more */
    (void) pthread_mutex_destroy(&q->mutex);
}

/* Releases the lock and signals the writer that something has changed. */
static void unlock_and_signal(struct queue *q)
{
    bool want_signal = q->is_sleeping;

    unlock(q);
    atomic_store_explicit(&q->has_news, true, memory_order_release);
    if (want_signal)
        (void) pthread_cond_signal(&q->cond); /* cannot fail */
}

/* --- the loop --- */

static void fail_write(struct store_write *w, const struct err *reason)
{
    w->outcome = reason->code;
    w->failure = *reason;
}

void queue_push(struct queue *q, struct store_write *w)
{
    lock(q);
    if (q->is_down) {
        /* The loop has not been notified yet: its wake-up is on the way. */
        fail_write(w, &q->reason);
        list_push_back(&q->out, &w->queue_link);
        unlock(q);
        return;
    }
    list_push_back(&q->in, &w->queue_link);
    unlock_and_signal(q);
}

void queue_collect(struct queue *q, struct list *ret_done, struct queue_state *ret_state)
{
    lock(q);
    list_move(&q->out, ret_done);
    ret_state->is_down = q->is_down;
    ret_state->reason.code = SP_OK;
    if (!q->is_down) {
        unlock(q);
        return;
    }
    ret_state->reason = q->reason;
    q->is_down_reported = true;
    unlock_and_signal(q);
}

void queue_stop(struct queue *q)
{
    lock(q);
    q->is_stopping = true;
    unlock_and_signal(q);
}

/* --- the writer --- */

static void spin(const struct queue *q)
{
    uint64_t until;

    if (q->spin_ns == 0 || q->is_crowded)
        return;
    until = now_ns() + q->spin_ns;
    do {
        for (unsigned i = 0; i < SPIN_LOOKS; i++) {
            if (atomic_load_explicit(&q->has_news, memory_order_acquire))
                return;
            relax_cpu();
        }
    } while (now_ns() < until);
}

/* With the lock held: sleeps until a signal or `until_ns`; false when the time is over. */
static bool sleep_until(struct queue *q, uint64_t until_ns)
{
    int rc;

    q->is_sleeping = true;
    if (until_ns == QUEUE_FOREVER) {
        rc = pthread_cond_wait(&q->cond, &q->mutex);
    } else {
        struct timespec ts = {.tv_sec = (time_t) (until_ns / NS_PER_S),
                              .tv_nsec = (long) (until_ns % NS_PER_S)};

        rc = pthread_cond_timedwait(&q->cond, &q->mutex, &ts);
    }
    q->is_sleeping = false;
    assert(rc == 0 || rc == ETIMEDOUT);
    return rc == 0;
}

static uint64_t deadline_in(uint64_t wait_ns)
{
    return wait_ns == QUEUE_FOREVER ? QUEUE_FOREVER : now_ns() + wait_ns;
}

enum queue_turn queue_take(struct queue *q, struct list *ret_work, uint64_t wait_ns)
{
    uint64_t until_ns;
    bool is_late = false;
    bool is_stopping;

    spin(q);
    until_ns = deadline_in(wait_ns);
    lock(q);
    while (list_is_empty(&q->in) && !q->is_stopping && !is_late)
        is_late = !sleep_until(q, until_ns);
    atomic_store_explicit(&q->has_news, false, memory_order_relaxed);
    list_move(&q->in, ret_work);
    q->is_crowded = ret_work->len > SPIN_BATCH_MAX;
    is_stopping = q->is_stopping;
    unlock(q);
    if (!list_is_empty(ret_work))
        return QUEUE_WORK;
    return is_stopping ? QUEUE_STOP : QUEUE_IDLE;
}

bool queue_is_idle(struct queue *q)
{
    bool is_idle;

    lock(q);
    is_idle = list_is_empty(&q->in);
    unlock(q);
    return is_idle;
}

/* Moves all of `from` to the end of `to`. */
static void move_behind(struct list *from, struct list *to)
{
    if (list_is_empty(to)) {
        list_move(from, to);
        return;
    }
    for (struct list_node *n = list_pop_front(from); n != NULL; n = list_pop_front(from))
        list_push_back(to, n);
}

void queue_give(struct queue *q, struct list *done)
{
    bool want_wake;

    lock(q);
    /* When something lies there already, its wake-up has not been answered yet. */
    want_wake = list_is_empty(&q->out);
    move_behind(done, &q->out);
    unlock(q);
    if (want_wake)
        q->wake(q->ctx);
}

static void fail_all(struct list *writes, const struct err *reason)
{
    for (struct list_node *n = list_first(writes); n != NULL; n = list_next(writes, n))
        fail_write(container_of(n, struct store_write, queue_link), reason);
}

void queue_go_down(struct queue *q, struct list *work, const struct err *reason)
{
    fail_all(work, reason);
    lock(q);
    fail_all(&q->in, reason);
    move_behind(work, &q->out);
    move_behind(&q->in, &q->out);
    q->reason = *reason;
    q->is_down = true;
    q->is_down_reported = false;
    unlock(q);
    q->wake(q->ctx);
}

bool queue_go_up(struct queue *q)
{
    bool is_up;

    lock(q);
    while (!q->is_down_reported && !q->is_stopping)
        (void) sleep_until(q, QUEUE_FOREVER);
    is_up = q->is_down_reported;
    q->is_down = !is_up;
    unlock(q);
    if (is_up)
        q->wake(q->ctx);
    return is_up;
}

bool queue_pause(struct queue *q, uint64_t ns)
{
    uint64_t until_ns = deadline_in(ns);
    bool is_late = false;
    bool is_stopping;

    lock(q);
    while (!q->is_stopping && !is_late)
        is_late = !sleep_until(q, until_ns);
    is_stopping = q->is_stopping;
    unlock(q);
    return !is_stopping;
}
