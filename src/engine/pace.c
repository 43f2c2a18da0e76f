/* pace.c - see pace.h. */
#include "engine/pace.h"

#include "base/compiler.h"
#include "base/fault.h"

#define PATIENCE_NS FAULT_TIME(PACE_PATIENCE_S *NS_PER_S)

static void on_timer(struct rt_timer *timer)
{
    struct pace *p = container_of(timer, struct pace, timer);

    p->on_over(p);
}

void pace_begin(struct pace *p, struct rt *rt, void (*on_over)(struct pace *p))
{
    *p = (struct pace){.rt = rt, .left_ns = PATIENCE_NS, .is_callers = true, .on_over = on_over};
    p->since_ns = rt_now(rt);
    pace_moved(p, 0, true);
}

void pace_moved(struct pace *p, size_t bytes, bool is_callers)
{
    uint64_t now_ns = rt_now(p->rt);
    uint64_t whole_ns = PATIENCE_NS;

    if (p->is_callers)
        p->left_ns -= MIN_OF(p->left_ns, now_ns - p->since_ns);
    p->left_ns = MIN_OF(whole_ns, p->left_ns + (uint64_t) bytes * (NS_PER_S / PACE_RATE));
    p->since_ns = now_ns;
    p->is_callers = is_callers;
    rt_timer_set(p->rt, &p->timer, rt_after(now_ns, is_callers ? p->left_ns : whole_ns), on_timer);
}

void pace_end(struct pace *p)
{
    if (p->rt != NULL)
        rt_timer_cancel(p->rt, &p->timer);
}
