/* machine.c - what the machine does for the engine: wake-ups of the loop, functions on threads,
 * randomness, free space. Replaces src/loop/wake.c and work.c, rand_secure() and statvfs(). */
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/mem.h"
#include "loop/wake.h"
#include "loop/work.h"
#include "walk.h"

/* The names that the linker gives to the replaced functions. */
void __wrap_rand_secure(void *dst, size_t len);
int __wrap_statvfs(const char *path, struct statvfs *ret);
int __wrap_statvfs64(const char *path, struct statvfs *ret);

/* --- wake-ups: the engine has one, for the store --- */

static struct {
    struct wake *wake;
    struct rt_timer timer;
    struct rt_task closed;
    void (*on_closed)(void *ctx);
    void *ctx;
} waker;

static void on_wake(struct rt_timer *timer UNUSED)
{
    waker.wake->on_wake(waker.wake->ctx);
}

int wake_init(struct wake *w, struct loop *l UNUSED, void (*on_wake_fn)(void *ctx), void *ctx,
              struct err *err UNUSED)
{
    if (waker.wake != NULL)
        walk_fail("a second wake-up descriptor");
    waker.wake = w;
    w->on_wake = on_wake_fn;
    w->ctx = ctx;
    return SP_OK;
}

void wake_send(struct wake *w)
{
    if (w != waker.wake)
        walk_fail("a wake-up of a closed loop");
    rt_timer_set(&walk.rt, &waker.timer, walk_now() + rand_below(&walk.rand, 300 * NS_PER_US),
                 on_wake);
}

static void on_wake_closed(struct rt_task *task UNUSED)
{
    waker.wake = NULL;
    waker.on_closed(waker.ctx);
}

void wake_close(struct wake *w UNUSED, void (*on_closed)(void *ctx), void *ctx)
{
    rt_timer_cancel(&walk.rt, &waker.timer);
    waker.on_closed = on_closed;
    waker.ctx = ctx;
    rt_defer(&walk.loop.rt, &waker.closed, on_wake_closed);
}

/* --- threads --- */

struct job {
    struct list_node link;
    struct rt_timer timer;
    struct work *work;
    bool is_hanging; /* since the start */
};

static struct list jobs;

static void on_job(struct rt_timer *timer)
{
    struct job *j = container_of(timer, struct job, timer);
    struct work *w = j->work;
    struct err err = {0};
    int r = w->run(w, &err);

    w->priv = NULL;
    list_remove(&jobs, &j->link);
    free(j);
    op_finish(&w->op, r, &err);
}

void work_start(struct loop *l, struct work *w, struct list *owner, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    struct job *j = xcalloc(1, sizeof(*j));
    uint64_t at_ns = walk_now() + (walk_one_in(6) ? walk_ms(0, 400) : walk_ms(0, 20));
    bool is_hanging = !walk.is_serving && !walk.is_closing && walk.start_hang_ns > walk_now();

    op_begin(&w->op, &l->rt, owner, deadline_ns, NULL, on_done);
    j->work = w;
    w->priv = j;
    j->is_hanging = is_hanging;
    list_push_back(&jobs, &j->link);
    at_ns = is_hanging ? walk.start_hang_ns : at_ns;
    rt_timer_set(&walk.rt, &j->timer, walk.is_frozen ? walk_now() : MAX_OF(at_ns, walk.hang_ns),
                 on_job);
}

/* Others have the threads and the loop in between. */
void machine_turns(void)
{
    for (uint64_t left = walk_one_in(2) ? rand_below(&walk.rand, 6) : 0; left > 0; left--)
        walk_run(walk_now() + (walk_one_in(2) ? 0 : rand_below(&walk.rand, 20 * NS_PER_MS)));
}

/* Nothing hangs for a dead daemon. */
void machine_freeze(void)
{
    for (struct list_node *n = list_first(&jobs); n != NULL; n = list_next(&jobs, n))
        rt_timer_set(&walk.rt, &container_of(n, struct job, link)->timer, walk_now(), on_job);
}

void machine_go_on(void)
{
    for (struct list_node *n = list_first(&jobs); n != NULL; n = list_next(&jobs, n)) {
        struct job *j = container_of(n, struct job, link);

        if (j->is_hanging)
            rt_timer_set(&walk.rt, &j->timer, walk_now(), on_job);
    }
}

void machine_init(void)
{
    memset(&waker, 0, sizeof(waker));
    list_init(&jobs);
}

void machine_check_closed(void)
{
    if (waker.wake != NULL)
        walk_fail("the engine has closed, and its wake-up descriptor not");
    if (!list_is_empty(&jobs))
        walk_fail("the engine has closed, and something still runs on a thread");
}

/* --- randomness and space --- */

void __wrap_rand_secure(void *dst, size_t len)
{
    unsigned char *p = dst;

    for (size_t i = 0; i < len; i++)
        p[i] = (unsigned char) rand_below(&walk.secrets, 256);
}

int __wrap_statvfs(const char *path UNUSED, struct statvfs *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->f_frsize = 4096;
    ret->f_blocks = 1 << 20;
    ret->f_bavail = walk.is_space_low ? 16 : 1 << 19;
    ret->f_files = 1 << 20;
    ret->f_favail = 1 << 19;
    return 0;
}

int __wrap_statvfs64(const char *path, struct statvfs *ret)
{
    return __wrap_statvfs(path, ret);
}
