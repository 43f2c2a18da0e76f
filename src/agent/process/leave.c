/* leave.c - a graceful end of the box: all processes get a SIGTERM, and the agent waits for them.
 * The leader of a terminal gets a SIGHUP only when it is idle: everything that runs at the terminal
 * would notice its end. */
#include "agent/process/leave.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

#define LOOK_NS (20 * NS_PER_MS)

static bool has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

/* Without the kernel's list of children this is not known: then it counts as idle. */
static bool is_idle(pid_t pid)
{
    char path[64];
    char text[16];

    (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) pid, (int) pid);
    return file_read_start(AT_FDCWD, path, text, sizeof(text)) <= 0;
}

static void hang_up_idle(const struct process_table *t)
{
    for (struct list_node *n = list_first(&t->running); n != NULL; n = list_next(&t->running, n)) {
        const struct process *p = container_of(n, struct process, link);

        if (p->is_pty && !p->is_reaped && is_idle(p->pid))
            (void) kill(p->pid, SIGHUP); /* our child, not reaped yet */
    }
}

static void on_look(struct rt_timer *timer)
{
    struct leave *l = container_of(timer, struct leave, timer);

    leave_look(l);
}

void leave_look(struct leave *l)
{
    struct rt *rt;

    if (!l->is_on)
        return; /* without processes to look at, too */
    rt = &l->processes->loop->rt;
    if (has_children() && rt_now(rt) < l->until_ns) {
        hang_up_idle(l->processes);
        rt_timer_set(rt, &l->timer, rt_after(rt_now(rt), LOOK_NS), on_look);
        return;
    }
    leave_end(l);
    l->on_alone(l->ctx);
}

/* A file call that has begun should end by itself. */
static bool is_spared(pid_t pid, void *ctx)
{
    const struct process_table *t = ctx;
    const struct process *p = process_by_pid(t, pid);

    return p != NULL ? p->is_pty : helper_is_mine(&t->helpers, pid);
}

void leave_start(struct leave *l, struct process_table *t, uint64_t grace_ns)
{
    struct rt *rt = &t->loop->rt;

    l->is_on = true;
    l->processes = t;
    l->until_ns = rt_after(rt_now(rt), grace_ns);
    descendants_end_own(is_spared, t);
    rt_timer_set(rt, &l->timer, rt_now(rt), on_look);
}

void leave_end(struct leave *l)
{
    if (l->is_on)
        rt_timer_cancel(&l->processes->loop->rt, &l->timer);
    l->is_on = false;
}
