/* child.c - a child process on the loop: vfork and exec; its pidfd reports its end. Not uv_spawn():
 * that forks, which takes the longer the more memory we have, and needs SIGCHLD. */
#include "loop/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"

enum { ENV_MAX = 4, READ_SIZE = 16 * 1024 };
enum slot { SLOT_IN, SLOT_OUT, SLOT_ERR, SLOT_END, SLOT_COUNT };

/* One descriptor that the loop polls. */
struct watch {
    uv_poll_t poll;
    struct run *run;
    int fd; /* -1: closed */
};

struct run {
    struct child *child;
    struct loop *loop;
    struct watch watches[SLOT_COUNT];
    unsigned open_count; /* uv handles that are not closed yet */
    pid_t pid;
    size_t written;
    bool is_done;
};

/* What the child needs between vfork and exec: it may only make system calls there. */
struct plan {
    const char *const *argv;
    char *env[ENV_MAX];
    int fds[4]; /* what becomes 0, 1, 2 and 3; the last may be -1 */
    volatile int failed;
};

static void on_watch_closed(void *ctx)
{
    struct run *r = ctx;
    struct child *c = r->child;

    assert(r->open_count > 0);
    if (--r->open_count > 0 || !r->is_done)
        return;
    free(r);
    c->priv = NULL;
    op_finish(&c->op, c->exit_code == 0 || c->op.state != OP_CANCELING ? SP_OK : SP_CANCELLED,
              NULL);
}

static void watch_close(struct watch *w)
{
    if (w->fd < 0)
        return;
    (void) uv_poll_stop(&w->poll); /* cannot fail on an initialised handle */
    (void) close(w->fd);           /* nothing to do about it here */
    w->fd = -1;
    loop_close_handle((uv_handle_t *) &w->poll, on_watch_closed, w->run);
}

static void feed(struct watch *w)
{
    struct run *r = w->run;
    const struct child *c = r->child;

    while (r->written < c->input_len) {
        ssize_t n = write(w->fd, c->input + r->written, c->input_len - r->written);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            break; /* it does not want more */
        r->written += (size_t) n;
    }
    watch_close(w);
}

/* What comes after the limit is read and dropped, so that the child never stands still. */
static void drain(struct watch *w, struct buf *out)
{
    char piece[READ_SIZE];

    for (;;) {
        ssize_t n = read(w->fd, piece, sizeof(piece));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            break;
        if (out->len < CHILD_OUTPUT_MAX)
            buf_append(out, piece, MIN_OF((size_t) n, (size_t) CHILD_OUTPUT_MAX - out->len));
    }
    watch_close(w);
}

static void on_ended(struct run *r)
{
    struct child *c = r->child;
    siginfo_t info = {0};

    /* Where SIGCHLD is ignored the kernel has reaped it, and its exit status is lost. */
    if (waitid(P_PID, (id_t) r->pid, &info, WEXITED | WNOHANG) != 0 ? errno != ECHILD
                                                                    : info.si_pid == 0)
        return;
    c->exit_code = info.si_code == CLD_EXITED ? info.si_status : -1;
    c->signum = info.si_code == CLD_EXITED ? 0 : info.si_status;
    /* Somebody it started may keep the pipes open: what is there now is all we want. */
    if (r->watches[SLOT_OUT].fd >= 0)
        drain(&r->watches[SLOT_OUT], &c->out);
    if (r->watches[SLOT_ERR].fd >= 0)
        drain(&r->watches[SLOT_ERR], &c->err);
    r->is_done = true;
    for (int i = 0; i < SLOT_COUNT; i++)
        watch_close(&r->watches[i]);
}

static void on_event(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct watch *w = container_of(poll, struct watch, poll);
    struct run *r = w->run;

    switch ((enum slot)(w - r->watches)) {
    case SLOT_IN:
        feed(w);
        return;
    case SLOT_OUT:
        drain(w, &r->child->out);
        return;
    case SLOT_ERR:
        drain(w, &r->child->err);
        return;
    case SLOT_END:
        on_ended(r);
        return;
    case SLOT_COUNT:
        break;
    }
    assert(false && "no such watch");
}

/* The group, so that what it started goes too; it is not reaped yet, so the number is still its. */
static void on_cancel(struct op *op)
{
    const struct child *c = container_of(op, struct child, op);
    const struct run *r = c->priv;

    if (r != NULL && !r->is_done)
        (void) kill(-r->pid, SIGKILL);
}

/* --- starting --- */

void child_reset_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int signum = 1; signum < NSIG; signum++)
        (void) sigaction(signum, &action, NULL); /* some cannot be set, and are right as they are */
    (void) sigemptyset(&none);
    (void) pthread_sigmask(SIG_SETMASK, &none, NULL);
}

NORETURN static void run_child(struct plan *p)
{
    int high[4];
    int count = p->fds[3] >= 0 ? 4 : 3;

    child_reset_signals();
    (void) setpgid(0, 0);
    for (int i = 0; i < count; i++) {
        high[i] = fcntl(p->fds[i], F_DUPFD_CLOEXEC, 16); /* above what they become */
        if (high[i] < 0)
            goto failed;
    }
    for (int i = 0; i < count; i++)
        if (dup2(high[i], i) < 0)
            goto failed;
    /* libcurl opens descriptors that would be inherited. */
    if (close_range((unsigned) count, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
        goto failed;
    (void) execve(p->argv[0], (char *const *) (uintptr_t) p->argv, p->env);
failed:
    p->failed = errno;
    _exit(127);
}

static pid_t fork_child(struct plan *p)
{
    sigset_t all;
    sigset_t before;
    pid_t pid;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = vfork();
    if (pid == 0)
        run_child(p);
    if (pid > 0)
        (void) setpgid(pid, pid); /* whoever comes first */
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static void fill_env(struct plan *p)
{
    static const char *const names[] = {"PATH", "HOME", "LANG"};
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);
        size_t cap;

        if (value == NULL)
            continue;
        cap = strlen(names[i]) + strlen(value) + 2;
        p->env[count] = xcalloc(1, cap);
        (void) snprintf(p->env[count++], cap, "%s=%s", names[i], value);
    }
}

static int watch_open(struct run *r, enum slot slot, int fd, struct err *err)
{
    struct watch *w = &r->watches[slot];
    int rc = uv_poll_init(&r->loop->uv, &w->poll, fd);

    if (rc != 0) {
        (void) close(fd); /* nothing to do about it here */
        return err_sys(err, SP_IO, -rc, "watching a child process");
    }
    w->fd = fd;
    r->open_count++;
    rc = uv_poll_start(&w->poll, slot == SLOT_IN ? UV_WRITABLE : UV_READABLE, on_event);
    assert(rc == 0); /* only links the watcher */
    return SP_OK;
}

/* Their ends go into the plan, ours into `ours`. */
static int open_pipes(struct plan *p, int ours[3], struct err *err)
{
    for (int i = 0; i < 3; i++) {
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) != 0)
            return err_sys(err, SP_IO, errno, "pipe to a child process");
        ours[i] = i == 0 ? fds[1] : fds[0];
        p->fds[i] = i == 0 ? fds[0] : fds[1];
        if (fcntl(ours[i], F_SETFL, O_NONBLOCK) != 0)
            return err_sys(err, SP_IO, errno, "pipe to a child process");
    }
    return SP_OK;
}

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            (void) close(fds[i]); /* nothing to do about it here */
}

static int launch(struct run *r, struct plan *p, int ours[3], struct err *err)
{
    int end_fd;

    r->pid = fork_child(p);
    if (r->pid < 0)
        return err_sys(err, SP_IO, errno, "no new process");
    if (p->failed != 0) {
        (void) waitpid(r->pid, NULL, 0); /* it has ended: this does not wait */
        return err_sys(err, SP_IO, p->failed, "program '%.200s'", p->argv[0]);
    }
    end_fd = (int) syscall(SYS_pidfd_open, r->pid, 0);
    if (end_fd < 0 || watch_open(r, SLOT_END, end_fd, err) != SP_OK) {
        int saved = errno;

        (void) kill(-r->pid, SIGKILL);
        (void) waitpid(r->pid, NULL, 0); /* killed: soon over */
        return err_sys(err, SP_IO, saved, "watching a child process");
    }
    for (int i = 0; i < 3; i++) {
        /* One that cannot be watched is closed: the child sees the end of its input, or writes
         * to nobody. */
        (void) watch_open(r, (enum slot) i, TAKE_FD(ours[i]), err);
    }
    return SP_OK;
}

void child_start(struct loop *l, struct child *c, struct list *owner, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct plan plan = {.argv = c->argv, .fds = {-1, -1, -1, c->pass_fd}};
    struct run *r = xcalloc(1, sizeof(*r));
    int ours[3] = {-1, -1, -1};
    struct err err;
    int rc;

    op_begin(&c->op, &l->rt, owner, deadline_ns, on_cancel, on_done);
    buf_init(&c->out, CHILD_OUTPUT_MAX);
    buf_init(&c->err, CHILD_OUTPUT_MAX);
    c->exit_code = -1;
    c->signum = 0;
    r->child = c;
    r->loop = l;
    for (int i = 0; i < SLOT_COUNT; i++)
        r->watches[i] = (struct watch){.run = r, .fd = -1};
    fill_env(&plan);
    rc = open_pipes(&plan, ours, &err);
    if (rc == SP_OK)
        rc = launch(r, &plan, ours, &err);
    close_all(plan.fds, 3);
    for (size_t i = 0; plan.env[i] != NULL; i++)
        free(plan.env[i]);
    if (rc != SP_OK) {
        close_all(ours, 3);
        free(r);
        c->priv = NULL;
        op_finish(&c->op, rc, &err);
        return;
    }
    c->priv = r;
}

int child_explain(const struct child *c, const char *name, struct err *err)
{
    const char *text = buf_str(&c->err);
    size_t len = strcspn(text, "\r\n");

    if (c->exit_code < 0)
        return err_set(err, SP_BACKEND_FAILED, "%s was killed by signal %d", name, c->signum);
    if (len == 0)
        return err_set(err, SP_BACKEND_FAILED, "%s failed with status %d", name, c->exit_code);
    return err_set(err, SP_BACKEND_FAILED, "%.*s", (int) MIN_OF(len, (size_t) 230), text);
}

void child_fini(struct child *c)
{
    buf_fini(&c->out);
    buf_fini(&c->err);
}
