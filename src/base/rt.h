/* rt.h - time, timers and the run queue: the only clock in the tree. libuv drives it in the
 * daemon (loop/loop.h), a fake clock drives it in tests.
 *
 * Order within one rt_run(): deferred tasks first, in the order they were deferred, those they
 * defer in turn included; then one due timer, its tasks, the next due timer, until both are empty. */
#ifndef BASE_RT_H
#define BASE_RT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"

#define RT_NEVER UINT64_MAX

struct rt_task {
    struct list_node link;
    void (*run)(struct rt_task *task);
};

struct rt_timer {
    struct heap_node node;
    void (*fire)(struct rt_timer *timer);
};

struct rt {
    uint64_t now_ns;              /* monotonic, taken once per turn; read it with rt_now() */
    bool is_stale;                /* the loop may have slept since: read the clock first */
    int64_t wall_offset_ms;       /* wall clock minus monotonic clock, in ms */
    int64_t stored_offset_ms;     /* the same for times in the store; does not move */
    uint64_t (*read_clock)(void); /* NULL: the test moves now_ns by hand */
    struct heap timers;
    struct list tasks;
};

/* With the machine's clocks. */
void rt_init(struct rt *rt);
/* With a clock that stands still until rt_advance(). */
void rt_init_fake(struct rt *rt, uint64_t now_ns, uint64_t wall_ms);
void rt_fini(struct rt *rt);

/* Reads the clocks again: at the start of a turn, and before arming a timer in a long one. */
void rt_refresh(struct rt *rt);

/* The first call after the loop slept reads the clock, so that an I/O callback never counts from
 * the time before the sleep. */
static inline uint64_t rt_now(const struct rt *rt)
{
    if (rt->is_stale)
        rt_refresh((struct rt *) (uintptr_t) rt); /* a cache: not part of what const protects */
    return rt->now_ns;
}

/* Wall clock in ms since 1970: for display and the audit trail only, never for durations. */
uint64_t rt_wall_ms(const struct rt *rt);
/* A point on the monotonic clock as wall clock ms. */
uint64_t rt_wall_at(const struct rt *rt, uint64_t at_ns);

/* A point on the monotonic clock as a time in the store, and back. It looks like wall clock ms, and is until
 * that clock is set; then it goes on as before, or a process that reads it later would find deadlines moved. */
uint64_t rt_stored_at(const struct rt *rt, uint64_t at_ns);
uint64_t rt_mono_of_stored(const struct rt *rt, uint64_t stored_ms);

/* Tests: moves the fake clock forward. */
void rt_advance(struct rt *rt, uint64_t by_ns);

/* Runs `task` soon, never from inside this call. Deferring a deferred task does nothing. */
void rt_defer(struct rt *rt, struct rt_task *task, void (*run)(struct rt_task *));
void rt_undefer(struct rt *rt, struct rt_task *task);

/* Arms or re-arms. Fires once, at or after at_ns. */
void rt_timer_set(struct rt *rt, struct rt_timer *timer, uint64_t at_ns,
                  void (*fire)(struct rt_timer *));
void rt_timer_cancel(struct rt *rt, struct rt_timer *timer);

void rt_run(struct rt *rt);
/* When the next timer is due; RT_NEVER when there is none. */
uint64_t rt_next_deadline(const struct rt *rt);

/* now + d without wrapping past RT_NEVER. */
static inline uint64_t rt_after(uint64_t now_ns, uint64_t d_ns)
{
    return d_ns > RT_NEVER - now_ns ? RT_NEVER : now_ns + d_ns;
}

#endif
