/* loop.h - libuv drives rt. One uv_prepare and one uv_check run the run queue and the due timers,
 * one uv_timer wakes the loop for the next one; nothing wakes it otherwise. Every handle of the
 * tree is closed through loop_close_handle(), so a handle once initialised cannot be freed early. */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include <uv.h>

#include "base/err.h"
#include "base/rt.h"

struct loop {
    uv_loop_t uv;
    struct rt rt;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t timer;
    uint64_t armed_ns;         /* what the uv timer is set to, RT_NEVER for nothing */
    uint64_t turn_start_ns;    /* for the slow-turn warning */
    uint64_t turn;             /* number of this turn, for bounds of the work in one */
    struct rt_timer log_retry; /* armed while the log's sink takes nothing */
    uint64_t slow_turns;
    bool is_stopping;
};

MUST_CHECK int loop_init(struct loop *l, struct err *err);
/* Runs until loop_stop(). A turn that takes longer than 50 ms is logged as loop.slow. The log is
 * flushed at the end of every turn. */
void loop_run(struct loop *l);
/* One pass that does not wait: for tests and shutdown. False when nothing is left to do. */
bool loop_run_once(struct loop *l);
void loop_stop(struct loop *l);
/* Every other handle must be closed by now; runs the loop until they are gone. Asserts that
 * uv_loop_close() returns 0. */
void loop_fini(struct loop *l);

/* uv_close() with a callback that gets `ctx`. May be called once per handle; `on_closed` may be
 * NULL. The handle's `data` belongs to this function from now on. */
void loop_close_handle(uv_handle_t *handle, void (*on_closed)(void *ctx), void *ctx);

#endif
