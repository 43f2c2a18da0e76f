/* process.c - life of the processes: start, kill, timeout, removal. The leader of a group is reaped
 * only in reap.c, after its group was handled, so that a group id is never signalled when another
 * group may have it. */
#include "agent/process/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/core/oom.h"
#include "agent/process/follow.h"
#include "agent/process/mark.h"
#include "base/mem.h"
#include "base/str.h"

#define GRACE_NS (2 * NS_PER_S)
#define STREAM_DISK_MAX (256ULL * 1024 * 1024)
#define TOTAL_DISK_MAX (1024ULL * 1024 * 1024)

const char *process_outcome_name(enum process_outcome o)
{
    static const char *const names[] = {
        [PROCESS_RUNNING] = "running",     [PROCESS_EXITED] = "exited",
        [PROCESS_SIGNALLED] = "signalled", [PROCESS_TIMED_OUT] = "timed_out",
        [PROCESS_KILLED] = "killed",       [PROCESS_OOM] = "oom",
    };

    assert(o < PROCESS_OUTCOME_COUNT);
    return names[o];
}

/* Recorded outputs must leave room for the box's programs on a small disk. */
static void limit_disk(struct output_disk *d)
{
    struct statvfs fs;
    uint64_t quarter = UINT64_MAX;

    if (statvfs(d->dir, &fs) == 0)
        quarter = (uint64_t) fs.f_blocks * fs.f_frsize / 4;
    d->total_max = MIN_OF((uint64_t) TOTAL_DISK_MAX, quarter);
    d->stream_max = MIN_OF((uint64_t) STREAM_DISK_MAX, quarter / 2);
}

void process_table_init(struct process_table *t, struct loop *l, const char *spill_dir)
{
    memset(t, 0, sizeof(*t));
    t->loop = l;
    t->first_mark = mark_first();
    t->disk.dir = spill_dir;
    limit_disk(&t->disk);
    t->grace_ns = GRACE_NS;
    t->hold_max_ns = FOLLOW_HOLD_MAX_NS;
    oom_score_open(&t->score);
    t->oom_fd = oom_open("");
    helper_table_init(&t->helpers, l, &t->score);
    map_init(&t->by_pid, 64);
    list_init(&t->running);
    list_init(&t->finished);
    records_init(&t->records);
}

static void closed_if_empty(struct process_table *t)
{
    void (*on_closed)(void *) = t->on_closed;

    if (on_closed == NULL || !list_is_empty(&t->running) || !list_is_empty(&t->finished) ||
        t->closing > 0)
        return;
    t->on_closed = NULL;
    on_closed(t->closed_ctx);
}

/* After the leader's death its group id is used only while its streams are held, most likely by
 * that group, and no other process of ours has the id. */
static bool has_holders(const struct process *p)
{
    return (process_is_open(p, PROCESS_STDOUT) || process_is_open(p, PROCESS_STDERR)) &&
           process_by_pid(p->table, p->pid) == NULL;
}

static void drop(struct process *p)
{
    struct process_table *t = p->table;

    assert(!process_is_running(p) && list_is_empty(&p->watches));
    if (t->on_closed != NULL && has_holders(p))
        descendants_signal(&p->descendants, p->pid,
                           SIGKILL); /* the agent ends: nothing may be left */
    if (p->is_job && !p->is_forgotten && t->on_closed == NULL)
        records_add(&t->records, p);
    p->is_dropped = true;
    t->closing++;
    list_remove(&t->finished, &p->link);
    process_close_streams(p);
    process_release(p);
}

void process_release(struct process *p)
{
    struct process_table *t = p->table;

    if (!p->is_dropped || p->handles > 0)
        return;
    assert(list_is_empty(&p->followers));
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
        output_fini(&p->streams[i].output);
    buf_fini(&p->stdin_buf);
    descendants_forget(&p->descendants);
    free(p->command);
    free(p->tag);
    free(p->session);
    free(p);
    t->closing--;
    closed_if_empty(t);
}

static bool is_held(const struct process *p)
{
    return process_is_open(p, PROCESS_STDOUT) || process_is_open(p, PROCESS_STDERR);
}

static size_t count_held(const struct process_table *t)
{
    size_t held = 0;

    for (struct list_node *n = list_first(&t->finished); n != NULL; n = list_next(&t->finished, n))
        held += is_held(container_of(n, struct process, link));
    return held;
}

/* Those that a program in the background still writes to do not count: it would be killed by its next
 * write. Only when there are too many of them the oldest go. */
static void drop_oldest(struct process_table *t, size_t keep)
{
    struct list_node *n = list_first(&t->finished);
    size_t held = t->on_closed == NULL && t->finished.len > keep ? count_held(t) : 0;
    size_t excess = held > PROCESS_HELD_MAX ? held - PROCESS_HELD_MAX : 0;

    keep += held - excess;
    while (n != NULL && t->finished.len > keep) {
        struct process *p = container_of(n, struct process, link);

        n = list_next(&t->finished, n);
        if (!list_is_empty(&p->watches) || (held > 0 && excess == 0 && is_held(p)))
            continue;
        if (held > 0 && is_held(p))
            excess--;
        drop(p);
    }
}

void process_look(struct process *p)
{
    if (p->is_forgotten && !p->is_dropped && list_is_empty(&p->watches) && !is_held(p))
        drop(p);
}

void process_forget(struct process *p)
{
    assert(!process_is_running(p));
    p->is_forgotten = true;
    process_look(p);
}

void process_table_close(struct process_table *t, void (*on_closed)(void *ctx), void *ctx)
{
    struct list_node *n;

    t->on_closed = on_closed;
    t->closed_ctx = ctx;
    n = list_first(&t->running);
    while (n != NULL) {
        struct process *p = container_of(n, struct process, link);

        n = list_next(&t->running, n);
        p->is_killing = true;
        if (p->is_reaped)
            process_conclude(p);
        else
            (void) kill(-p->pid, SIGKILL); /* our child, not reaped yet */
    }
    drop_oldest(t, 0);
    closed_if_empty(t);
}

void process_table_fini(struct process_table *t)
{
    helper_table_fini(&t->helpers);
    records_fini(&t->records);
    map_fini(&t->by_pid);
    output_forget(&t->disk);
    free(t->read_space);
    oom_score_close(&t->score);
    if (t->oom_fd >= 0)
        (void) close(t->oom_fd);
}

static void on_grace(struct rt_timer *timer)
{
    struct process *p = container_of(timer, struct process, grace);

    if (process_is_running(p))
        descendants_signal(&p->descendants, p->pid, SIGKILL); /* not reaped: the group is ours */
}

static void start_killing(struct process *p)
{
    struct rt *rt = &p->table->loop->rt;

    if (!process_is_running(p) || p->is_killing || p->is_reaped)
        return;
    p->is_killing = true;
    descendants_signal(&p->descendants, p->pid, SIGTERM);
    rt_timer_set(rt, &p->grace, rt_after(rt_now(rt), p->table->grace_ns), on_grace);
}

static void on_timeout(struct rt_timer *timer)
{
    struct process *p = container_of(timer, struct process, timeout);

    if (!p->is_killing)
        p->is_timed_out = true;
    start_killing(p);
}

/* The command of a job is shown to people, and a table of jobs must stay small. */
static char *copy_command(const struct process_request *r)
{
    size_t len = strlen(r->command);
    char *copy;

    if (!r->is_job || len <= PROCESS_COMMAND_MAX)
        return xstrdup(r->command);
    copy = xcalloc(1, PROCESS_COMMAND_MAX + 1);
    memcpy(copy, r->command, PROCESS_COMMAND_MAX);
    return copy;
}

static struct process *process_new(struct process_table *t, const struct process_request *r)
{
    struct process *p = xcalloc(1, sizeof(*p));

    p->table = t;
    t->last_id++;
    p->id = t->last_id;
    list_init(&p->watches);
    list_init(&p->followers);
    p->command = copy_command(r);
    p->tag = r->tag != NULL ? xstrdup(r->tag) : NULL;
    p->session = r->session != NULL ? xstrdup(r->session) : NULL;
    p->is_pty = r->spawn.want_pty;
    p->is_job = r->is_job;
    p->stdin_fd = -1;
    buf_init(&p->stdin_buf, PROCESS_STDIN_MAX);
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++) {
        p->streams[i].process = p;
        p->streams[i].fd = -1;
        output_init(&p->streams[i].output, &t->disk);
    }
    return p;
}

int process_start(struct process_table *t, const struct process_request *r, struct process **ret,
                  struct err *err)
{
    struct rt *rt = &t->loop->rt;
    struct spawn_request spawn = r->spawn;
    struct spawn_result fds;
    struct process *p;
    uint64_t ooms = oom_count(t->oom_fd);
    int rc;

    if (t->running.len >= PROCESS_RUNNING_MAX || t->on_closed != NULL)
        return err_set(err, SP_QUEUE_FULL, "%zu commands of this box run already", t->running.len);
    spawn.mark =
        t->first_mark + t->last_id; /* the next id: a failed one leaves nothing that has it */
    rc = spawn_start(&spawn, &t->score, &fds, err);
    if (rc != SP_OK)
        return rc;
    p = process_new(t, r);
    p->pid = fds.pid;
    p->descendants.mark = spawn.mark;
    p->ooms_before = ooms;
    p->started_ns = rt_now(rt);
    map_insert(&t->by_pid, &p->pid_node, hash_u64((uint64_t) p->pid));
    list_push_back(&t->running, &p->link);
    rc = process_open_streams(p, &fds, err);
    if (rc != SP_OK) {
        process_kill(p);
        return rc;
    }
    if (r->timeout_ns > 0)
        rt_timer_set(rt, &p->timeout, rt_after(rt_now(rt), r->timeout_ns), on_timeout);
    drop_oldest(t, PROCESS_KEEP_MAX);
    *ret = p;
    return SP_OK;
}

static struct process *find_in(const struct list *l, uint64_t id)
{
    /* From the newest: most calls are about that one. */
    for (struct list_node *n = list_last(l); n != NULL && n != &l->head; n = n->prev) {
        struct process *p = container_of(n, struct process, link);

        if (p->id == id)
            return p;
    }
    return NULL;
}

struct process *process_find(const struct process_table *t, uint64_t id)
{
    struct process *p = find_in(&t->running, id);

    return p != NULL ? p : find_in(&t->finished, id);
}

static bool has_pid(const struct map_node *n, const void *key)
{
    return container_of(n, struct process, pid_node)->pid == *(const pid_t *) key;
}

struct process *process_by_pid(const struct process_table *t, pid_t pid)
{
    struct map_node *n = map_find(&t->by_pid, hash_u64((uint64_t) pid), has_pid, &pid);

    return n != NULL ? container_of(n, struct process, pid_node) : NULL;
}

void process_watch(struct process *p, struct process_watch *w,
                   void (*on_change)(struct process_watch *w))
{
    w->process = p;
    w->on_change = on_change;
    list_push_back(&p->watches, &w->link);
}

void process_unwatch(struct process_watch *w)
{
    struct process *p = w->process;

    if (p == NULL)
        return;
    rt_undefer(&p->table->loop->rt, &w->task);
    list_remove(&p->watches, &w->link);
    w->process = NULL;
    if (p->table->on_closed != NULL)
        drop_oldest(p->table, 0);
    else
        process_look(p);
}

static void run_watch(struct rt_task *task)
{
    struct process_watch *w = container_of(task, struct process_watch, task);

    w->on_change(w);
}

void process_notify(struct process *p)
{
    struct list_node *n;

    for (n = list_first(&p->watches); n != NULL; n = list_next(&p->watches, n)) {
        struct process_watch *w = container_of(n, struct process_watch, link);

        rt_defer(&p->table->loop->rt, &w->task, run_watch);
    }
}

int process_signal(struct process *p, int signum, struct err *err)
{
    if (p->is_reaped && (process_is_running(p) || !has_holders(p)))
        return err_set(err, SP_JOB_ENDED, "the process has ended");
    if (signum == SIGKILL)
        descendants_signal(&p->descendants, p->pid, signum);
    else if (kill(-p->pid, signum) != 0)
        return err_sys(err, SP_JOB_ENDED, errno, "signal %d", signum);
    p->wanted_signal = signum;
    return SP_OK;
}

void process_kill(struct process *p)
{
    if (process_is_running(p))
        start_killing(p);
    else if (has_holders(p))
        descendants_signal(&p->descendants, p->pid,
                           SIGKILL); /* gone in the meantime is fine, too */
}
