/* reap.c - reaps exited children: processes that were started here, and orphans that an init
 * inherits. A leader is handled before it is reaped: until then nobody else can get its pid or its
 * group id. One that was to be killed counts as running until all that was killed with it is dead. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/oom.h"
#include "agent/process/process.h"

#define DYING_MAX_NS (2 * NS_PER_S) /* what the kernel does not let die is not waited for */
#define DYING_PAUSE_NS NS_PER_MS
#define DYING_PAUSE_MAX_NS (50 * NS_PER_MS)

static enum process_outcome judge(const struct process *p)
{
    bool is_killed = p->signum == SIGKILL || (p->signum == 0 && p->exit_code == 128 + SIGKILL);

    if (p->is_timed_out)
        return PROCESS_TIMED_OUT;
    if (p->is_killing)
        return PROCESS_KILLED;
    if (p->signum != 0 && p->signum == p->wanted_signal)
        return PROCESS_KILLED;
    if (is_killed && p->wanted_signal != SIGKILL && oom_count(p->table->oom_fd) > p->ooms_before)
        return PROCESS_OOM;
    return p->signum != 0 ? PROCESS_SIGNALLED : PROCESS_EXITED;
}

void process_conclude(struct process *p)
{
    struct process_table *t = p->table;
    struct rt *rt = &t->loop->rt;

    rt_timer_cancel(rt, &p->dying);
    descendants_forget(&p->descendants);
    process_drain(p);
    p->outcome = judge(p);
    p->ended_ns = rt_now(rt);
    list_remove(&t->running, &p->link);
    list_push_back(&t->finished, &p->link);
    process_notify(p);
}

static void look_at_dying(struct process *p)
{
    struct rt *rt = &p->table->loop->rt;

    if (rt_now(rt) >= p->dying_until_ns || !descendants_has_living(&p->descendants, p->pid)) {
        process_conclude(p);
        return;
    }
    p->dying_pause_ns = MIN_OF(2 * p->dying_pause_ns, DYING_PAUSE_MAX_NS);
}

static void on_dying(struct rt_timer *timer)
{
    struct process *p = container_of(timer, struct process, dying);
    struct rt *rt = &p->table->loop->rt;

    rt_timer_set(rt, timer, rt_after(rt_now(rt), p->dying_pause_ns), on_dying);
    look_at_dying(p);
}

/* `p` is dead and not reaped. */
static void finish(struct process *p, const siginfo_t *info)
{
    struct process_table *t = p->table;
    struct rt *rt = &t->loop->rt;
    bool is_killed = p->is_killing || p->wanted_signal == SIGKILL;

    if (is_killed)
        descendants_kill(&p->descendants, p->pid);
    p->signum = info->si_code == CLD_EXITED ? 0 : info->si_status;
    p->exit_code = info->si_code == CLD_EXITED ? info->si_status : 128 + info->si_status;
    p->is_reaped = true;
    rt_timer_cancel(rt, &p->timeout);
    rt_timer_cancel(rt, &p->grace);
    map_remove(&t->by_pid, &p->pid_node);
    if (!is_killed || t->on_closed != NULL || !descendants_has_living(&p->descendants, p->pid)) {
        process_conclude(p);
        return;
    }
    p->dying_until_ns = rt_after(rt_now(rt), DYING_MAX_NS);
    p->dying_pause_ns = DYING_PAUSE_NS;
    rt_timer_set(rt, &p->dying, rt_after(rt_now(rt), p->dying_pause_ns), on_dying);
}

void process_table_reap(struct process_table *t)
{
    for (;;) {
        siginfo_t info = {0};
        struct process *p;

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
            break;
        p = process_by_pid(t, info.si_pid);
        if (p != NULL)
            finish(p, &info);
        if (p != NULL || !helper_reaped(&t->helpers, info.si_pid)) /* or it is an orphan */
            t->ended_ns = rt_now(&t->loop->rt);
        (void) waitpid(info.si_pid, NULL, WNOHANG); /* dead: it is there */
    }
    if (t->on_closed != NULL)
        process_table_close(t, t->on_closed, t->closed_ctx);
}
