/* shell_session.c - commands in a shell that stays open. A command is written to a file in memory,
 * and a line on a pipe makes the shell source it, so that it is neither echoed nor limited by the
 * terminal. At its end the shell prints a mark that nobody can guess, which shows that all output
 * before it has arrived, and reports status and directory on another pipe. */
#include "agent/shell/shell_session.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include "agent/process/launch.h"
#include "agent/shell/pipe.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"

#define STOP_GRACE_NS (1 * NS_PER_S)
#define SETTLE_NS (500 * NS_PER_MS)

enum { SCAN_WINDOW = 64 * 1024 };

/* High descriptors: commands like to use the low ones. They are closed for the commands. */
static const char bash_loop[] = "exec 251<&3 252<&4 253>&5 254>&1 3<&- 4<&- 5>&-\n"
                                "shopt -s expand_aliases\n"
                                "trap : INT\n"
                                "while IFS= builtin read -r -u 252 __mark; do\n"
                                "{ . /dev/fd/251; } 252<&- 253>&- 254>&-\n"
                                "__code=$?\n"
                                "builtin printf '\\036%s' \"$__mark\" >&254\n"
                                "builtin printf '%s %s\\0' \"$__code\" \"$PWD\" >&253\n"
                                "done\n";
/* A plain sh supports only one-digit descriptors. */
static const char sh_loop[] = "exec 6>&1 7<&3 8<&4 9>&5 3<&- 4<&- 5>&-\n"
                              "trap : INT\n"
                              "while IFS= command read -r __mark <&8; do\n"
                              "{ command . /dev/fd/7; } 6>&- 8<&- 9>&-\n"
                              "__code=$?\n"
                              "command printf '\\036%s' \"$__mark\" >&6\n"
                              "command printf '%s %s\\0' \"$__code\" \"$PWD\" >&9\n"
                              "done\n";

const char *shell_status_name(enum shell_status s)
{
    static const char *const names[] = {
        [SHELL_IDLE] = "completed",        [SHELL_RUNNING] = "running",
        [SHELL_COMPLETED] = "completed",   [SHELL_HARD_TIMEOUT] = "hard_timeout",
        [SHELL_TERMINATED] = "terminated",
    };

    assert(s < SHELL_STATUS_COUNT);
    return names[s];
}

static struct rt *rt_of(const struct shell_session *s)
{
    return &s->agent->loop.rt;
}

static struct output *output_of(const struct shell_session *s)
{
    return &s->process.process->streams[0].output;
}

static bool has_shell(const struct shell_session *s)
{
    return s->process.process != NULL && process_is_running(s->process.process);
}

static void run_watch(struct rt_task *task)
{
    struct shell_watch *w = container_of(task, struct shell_watch, task);

    w->on_change(w);
}

static void notify(struct shell_session *s)
{
    struct list_node *n;

    for (n = list_first(&s->watches); n != NULL; n = list_next(&s->watches, n))
        rt_defer(rt_of(s), &container_of(n, struct shell_watch, link)->task, run_watch);
}

static void close_pipes(struct shell_session *s)
{
    if (s->script_fd >= 0)
        (void) close(s->script_fd);
    if (s->go_fd >= 0)
        (void) close(s->go_fd);
    s->script_fd = -1;
    s->go_fd = -1;
    s->pipe = shell_pipe_close(s->pipe);
}

static void end_command(struct shell_session *s, enum shell_status status, int exit_code)
{
    rt_timer_cancel(rt_of(s), &s->hard);
    rt_timer_cancel(rt_of(s), &s->settle);
    s->is_reported = false;
    if (s->status != SHELL_RUNNING)
        return;
    s->until = MIN_OF(s->until, output_of(s)->end);
    s->status = s->is_stopping ? SHELL_HARD_TIMEOUT : status;
    s->exit_code = s->is_stopping ? 124 : exit_code; /* as timeout(1) returns */
    s->is_stopping = false;
    notify(s);
}

static void forget_shell(struct shell_session *s)
{
    close_pipes(s);
    process_unwatch(&s->process);
}

static void session_free(struct shell_session *s)
{
    if (!s->is_removed || !list_is_empty(&s->watches))
        return;
    rt_timer_cancel(rt_of(s), &s->hard);
    rt_timer_cancel(rt_of(s), &s->settle);
    forget_shell(s);
    free(s->command);
    free(s);
}

void shell_watch(struct shell_session *s, struct shell_watch *w,
                 void (*on_change)(struct shell_watch *w))
{
    w->session = s;
    w->on_change = on_change;
    list_push_back(&s->watches, &w->link);
}

void shell_unwatch(struct shell_watch *w)
{
    struct shell_session *s = w->session;

    if (s == NULL)
        return;
    rt_undefer(rt_of(s), &w->task);
    list_remove(&s->watches, &w->link);
    w->session = NULL;
    session_free(s);
}

/* Looks for the mark in what has come since the last look. */
static bool find_mark(struct shell_session *s)
{
    const struct output *o = output_of(s);
    char chunk[4096];

    while (s->scanned + SHELL_MARK_LEN <= o->end) {
        uint64_t at = output_seek(o, s->scanned);
        size_t n = 0;
        const char *found;

        /* Parts of the record are read one by one; some may be lost. */
        while (n < sizeof(chunk) && output_seek(o, at + n) == at + n) {
            size_t got = output_read(o, at + n, chunk + n, sizeof(chunk) - n);

            if (got == 0)
                break;
            n += got;
        }
        found = n >= SHELL_MARK_LEN ? memmem(chunk, n, s->mark, SHELL_MARK_LEN) : NULL;
        if (found != NULL) {
            s->until = at + (uint64_t) (found - chunk);
            return true;
        }
        if (n < SHELL_MARK_LEN)
            return false;
        s->scanned = at + n - (SHELL_MARK_LEN - 1);
    }
    return false;
}

static void on_settle(struct rt_timer *timer)
{
    struct shell_session *s = container_of(timer, struct shell_session, settle);

    end_command(s, SHELL_COMPLETED, s->exit_code); /* the mark was lost: the command is over */
}

static void check_end(struct shell_session *s)
{
    if (s->is_reported && find_mark(s))
        end_command(s, SHELL_COMPLETED, s->exit_code);
}

static void on_report(void *ctx, int code, const char *cwd)
{
    struct shell_session *s = ctx;
    uint64_t end;

    if (s->status != SHELL_RUNNING || s->is_reported)
        return;
    s->is_reported = true;
    s->exit_code = code;
    if (!str_copy(s->cwd, sizeof(s->cwd), cwd))
        str_copy_cut(s->cwd, sizeof(s->cwd), agent_directory(s->agent, &s->agent->user));
    process_drain(s->process.process);
    end = output_of(s)->end;
    s->scanned = MAX_OF(s->from, end - MIN_OF(end, (uint64_t) SCAN_WINDOW));
    rt_timer_set(rt_of(s), &s->settle, rt_after(rt_now(rt_of(s)), SETTLE_NS), on_settle);
    check_end(s);
}

static void on_process(struct process_watch *w)
{
    struct shell_session *s = container_of(w, struct shell_session, process);

    check_end(s);
    if (!process_is_running(w->process)) {
        close_pipes(s);
        end_command(s, SHELL_TERMINATED, w->process->exit_code);
    }
    notify(s);
}

/* Output as programs write it, input without echo. */
static void set_terminal(int fd)
{
    struct termios t;

    if (tcgetattr(fd, &t) != 0)
        return; /* then it stays as it is */
    t.c_oflag &= (tcflag_t) ~(tcflag_t) OPOST;
    t.c_lflag &= (tcflag_t) ~(tcflag_t) (ECHO | ECHONL);
    (void) tcsetattr(fd, TCSANOW, &t);
}

static int start_process(struct shell_session *s, const int *extra, struct err *err)
{
    const char *shell = launch_shell_path();
    bool is_bash = strcmp(shell, "/bin/sh") != 0;
    const char *const bash_argv[] = {shell, "--norc", "--noprofile", "-c", bash_loop, NULL};
    const char *const sh_argv[] = {shell, "-c", sh_loop, NULL};
    struct process *p = NULL;
    struct launch l;
    int r;

    launch_init(&l, s->agent);
    l.request.spawn.want_pty = true;
    l.request.spawn.cols = 200;
    l.request.spawn.argv = is_bash ? bash_argv : sh_argv;
    l.request.spawn.extra_count = SPAWN_EXTRA_MAX;
    memcpy(l.request.spawn.extra, extra, sizeof(l.request.spawn.extra));
    l.request.command = shell;
    l.want_pwd = s->keep_links;
    r = launch_set_cwd(&l, s->cwd, err);
    if (r == SP_OK)
        r = launch_set_env(&l, NULL, err);
    if (r == SP_OK)
        r = process_start(s->agent->processes, &l.request, &p, err);
    launch_fini(&l);
    if (r != SP_OK)
        return r;
    process_watch(p, &s->process, on_process);
    set_terminal(p->streams[0].fd);
    return SP_OK;
}

static int start_shell(struct shell_session *s, struct err *err)
{
    int extra[SPAWN_EXTRA_MAX] = {-1, -1, -1};
    char path[64];
    int r;

    forget_shell(s);
    s->script_fd = memfd_create("command", MFD_CLOEXEC);
    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", s->script_fd);
    extra[0] = s->script_fd >= 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    r = shell_pipe_open(s->agent, on_report, s, &s->pipe, &s->go_fd, &extra[1], err);
    if (r == SP_OK && extra[0] < 0)
        r = err_set(err, SP_IO, "no memory file for commands");
    if (r == SP_OK)
        r = start_process(s, extra, err);
    for (unsigned i = 0; i < SPAWN_EXTRA_MAX; i++)
        if (extra[i] >= 0)
            (void) close(extra[i]);
    if (r != SP_OK)
        close_pipes(s);
    return r;
}

static void on_hard(struct rt_timer *timer)
{
    struct shell_session *s = container_of(timer, struct shell_session, hard);

    if (s->is_reported)
        return; /* over, only its output is awaited */
    if (s->is_stopping) {
        process_kill(s->process.process);
        return;
    }
    s->is_stopping = true; /* first as the terminal's key does it: the shell survives that */
    if (process_signal(s->process.process, SIGINT, NULL) != SP_OK)
        process_kill(s->process.process);
    rt_timer_set(rt_of(s), &s->hard, rt_after(rt_now(rt_of(s)), STOP_GRACE_NS), on_hard);
}

static void make_mark(struct shell_session *s)
{
    uint64_t number;

    rand_secure(&number, sizeof(number));
    s->mark[0] = '\036';
    str_hex64(s->mark + 1, number);
}

int shell_session_run(struct shell_session *s, const char *command, const char *exec_dir,
                      uint64_t hard_timeout_ns, struct err *err)
{
    struct rt *rt = rt_of(s);
    char line[SHELL_MARK_LEN + 2];
    int r = SP_OK;

    if (s->status == SHELL_RUNNING)
        return err_set(err, ERR_BUSY, "the session runs a command: wait, write or kill");
    if (!has_shell(s))
        r = start_shell(s, err);
    if (r == SP_OK)
        r = shell_pipe_script(s->script_fd, exec_dir, command, err);
    if (r != SP_OK)
        return r;
    make_mark(s);
    (void) snprintf(line, sizeof(line), "%s\n", s->mark + 1);
    s->from = output_of(s)->end;
    s->until = UINT64_MAX;
    if (write(s->go_fd, line, strlen(line)) != (ssize_t) strlen(line))
        return err_set(err, SP_IO, "the shell takes no command");
    free(s->command);
    s->command = xstrdup(command);
    s->status = SHELL_RUNNING;
    s->is_reported = false;
    s->is_stopping = false;
    s->exit_code = 0;
    if (hard_timeout_ns > 0)
        rt_timer_set(rt, &s->hard, rt_after(rt_now(rt), hard_timeout_ns), on_hard);
    return SP_OK;
}

int shell_session_write(struct shell_session *s, const char *data, size_t len, struct err *err)
{
    if (!has_shell(s))
        return err_set(err, ERR_NOTHING_RUNS, "nothing runs in this session");
    return process_write(s->process.process, data, len, err);
}

void shell_session_kill(struct shell_session *s)
{
    if (has_shell(s))
        process_kill(s->process.process);
}

/* Bytes at the end of the output that are the mark or its beginning: not the command's. */
static size_t mark_at_end(const struct shell_session *s)
{
    const struct output *o = output_of(s);
    char tail[SHELL_MARK_LEN];
    size_t want = (size_t) MIN_OF(o->end - s->from, (uint64_t) SHELL_MARK_LEN);
    size_t len = 0;

    if (output_seek(o, o->end - want) != o->end - want)
        return 0; /* lost in the record */
    while (len < want && output_seek(o, o->end - want + len) == o->end - want + len) {
        size_t n = output_read(o, o->end - want + len, tail + len, want - len);

        if (n == 0)
            return 0;
        len += n;
    }
    for (size_t i = 0; len == want && i < len; i++)
        if (memcmp(tail + i, s->mark, len - i) == 0)
            return len - i;
    return 0;
}

uint64_t shell_session_end(const struct shell_session *s)
{
    if (s->process.process == NULL)
        return s->from;
    if (s->status == SHELL_RUNNING)
        return output_of(s)->end - mark_at_end(s);
    return MIN_OF(s->until, output_of(s)->end);
}

void shell_session_text(const struct shell_session *s, uint64_t from, size_t max, struct buf *dst)
{
    uint64_t end = shell_session_end(s);

    if (from < end)
        output_summary(output_of(s), from, end, max, dst);
}

/* --- the table --- */

static struct shell_session *of(struct list_node *n)
{
    return n != NULL ? container_of(n, struct shell_session, session.link) : NULL;
}

struct shell_session *shell_session_find(struct agent *a, const char *id)
{
    struct session *s = session_find(&a->shell_sessions, &a->loop.rt, id);

    return s != NULL ? of(&s->link) : NULL;
}

static bool make_room(struct agent *a)
{
    struct list *l = &a->shell_sessions;

    if (l->len < a->shell_sessions_max)
        return true;
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        struct shell_session *s = of(n);

        if (s->status == SHELL_RUNNING)
            continue;
        shell_session_remove(s);
        return true;
    }
    return false;
}

int shell_session_open(struct agent *a, const char *id, const char *cwd, struct shell_session **ret,
                       struct err *err)
{
    struct shell_session *s;
    int rc = session_check_id(id, err);

    if (rc != SP_OK)
        return rc;
    if (!make_room(a))
        return err_set(err, SP_QUEUE_FULL, "all %zu sessions run a command", a->shell_sessions.len);
    s = xcalloc(1, sizeof(*s));
    s->agent = a;
    s->script_fd = -1;
    s->go_fd = -1;
    list_init(&s->watches);
    str_copy_cut(s->cwd, sizeof(s->cwd), cwd != NULL ? cwd : agent_directory(a, &a->user));
    session_add(&s->session, &a->shell_sessions, &a->loop.rt, id);
    *ret = s;
    return SP_OK;
}

void shell_session_remove(struct shell_session *s)
{
    list_remove(&s->agent->shell_sessions, &s->session.link);
    s->is_removed = true;
    shell_session_kill(s);
    s->is_stopping = false;
    end_command(s, SHELL_TERMINATED, 128 + SIGKILL);
    session_free(s);
}

void shell_sessions_free(struct agent *a)
{
    struct list_node *n;

    while ((n = list_pop_front(&a->shell_sessions)) != NULL)
        shell_session_remove(of(n));
}
