/* rt.c - one clock, one timer heap, one run queue. Callbacks run from rt_run() only, so nothing
 * here is ever re-entered. */
#include "base/rt.h"

#include <time.h>

#include "base/compiler.h"

static uint64_t read_ns(clockid_t id)
{
    struct timespec ts;

    (void) clock_gettime(id, &ts); /* cannot fail for these two clocks */
    return (uint64_t) ts.tv_sec * NS_PER_S + (uint64_t) ts.tv_nsec;
}

static uint64_t read_monotonic(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

static void init_queues(struct rt *rt)
{
    heap_init(&rt->timers, 0);
    list_init(&rt->tasks);
    rt->is_stale = false;
}

void rt_init(struct rt *rt)
{
    init_queues(rt);
    rt->read_clock = read_monotonic;
    rt_refresh(rt);
    rt->stored_offset_ms = rt->wall_offset_ms;
}

void rt_init_fake(struct rt *rt, uint64_t now_ns, uint64_t wall_ms)
{
    init_queues(rt);
    rt->read_clock = NULL;
    rt->now_ns = now_ns;
    rt->wall_offset_ms = (int64_t) wall_ms - (int64_t) (now_ns / NS_PER_MS);
    rt->stored_offset_ms = rt->wall_offset_ms;
}

void rt_fini(struct rt *rt)
{
    heap_fini(&rt->timers);
}

uint64_t rt_wall_ms(const struct rt *rt)
{
    return rt_wall_at(rt, rt_now(rt));
}

uint64_t rt_wall_at(const struct rt *rt, uint64_t at_ns)
{
    return (uint64_t) ((int64_t) (at_ns / NS_PER_MS) + rt->wall_offset_ms);
}

uint64_t rt_stored_at(const struct rt *rt, uint64_t at_ns)
{
    return (uint64_t) ((int64_t) (at_ns / NS_PER_MS) + rt->stored_offset_ms);
}

uint64_t rt_mono_of_stored(const struct rt *rt, uint64_t stored_ms)
{
    int64_t mono_ms = (int64_t) stored_ms - rt->stored_offset_ms;

    return mono_ms < 0 ? 0 : (uint64_t) mono_ms * NS_PER_MS;
}

void rt_refresh(struct rt *rt)
{
    int64_t offset_ms;

    rt->is_stale = false;
    if (rt->read_clock == NULL)
        return;
    rt->now_ns = rt->read_clock();
    offset_ms =
        (int64_t) (read_ns(CLOCK_REALTIME) / NS_PER_MS) - (int64_t) (rt->now_ns / NS_PER_MS);
    /* Rounding moves it by one; only a clock that was set moves it further. Else the same moment
     * would be shown as two different times. */
    if (offset_ms > rt->wall_offset_ms + 1 || offset_ms < rt->wall_offset_ms - 1)
        rt->wall_offset_ms = offset_ms;
}

void rt_advance(struct rt *rt, uint64_t by_ns)
{
    assert(rt->read_clock == NULL);
    rt->now_ns += by_ns;
}

void rt_defer(struct rt *rt, struct rt_task *task, void (*run)(struct rt_task *))
{
    task->run = run;
    if (!list_is_linked(&task->link))
        list_push_back(&rt->tasks, &task->link);
}

void rt_undefer(struct rt *rt, struct rt_task *task)
{
    list_remove(&rt->tasks, &task->link);
}

void rt_timer_set(struct rt *rt, struct rt_timer *timer, uint64_t at_ns,
                  void (*fire)(struct rt_timer *))
{
    timer->fire = fire;
    if (at_ns == RT_NEVER)
        heap_remove(&rt->timers, &timer->node);
    else
        heap_set(&rt->timers, &timer->node, at_ns);
}

void rt_timer_cancel(struct rt *rt, struct rt_timer *timer)
{
    heap_remove(&rt->timers, &timer->node);
}

static void run_tasks(struct rt *rt)
{
    while (!list_is_empty(&rt->tasks)) {
        struct list_node *n = list_pop_front(&rt->tasks);
        struct rt_task *task = container_of(n, struct rt_task, link);

        task->run(task);
    }
}

void rt_run(struct rt *rt)
{
    for (;;) {
        struct heap_node *top;
        struct rt_timer *timer;

        run_tasks(rt);
        top = heap_top(&rt->timers);
        if (top == NULL || top->key > rt->now_ns)
            return;
        heap_remove(&rt->timers, top);
        timer = container_of(top, struct rt_timer, node);
        timer->fire(timer);
    }
}

uint64_t rt_next_deadline(const struct rt *rt)
{
    const struct heap_node *top = heap_top(&rt->timers);

    return top != NULL ? top->key : RT_NEVER;
}
