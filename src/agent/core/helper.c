/* helper.c - the agent's side: starts a helper, talks to it over a socket, and ends it. A helper's
 * memory is freed when nobody uses it, its handle is closed and it was reaped, whichever comes
 * last. */
#include "agent/core/helper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/helper_child.h"
#include "agent/core/plain.h"
#include "base/mem.h"

#define GRACE_NS (2 * NS_PER_S)
enum { READ_SPACE = 64 * 1024, NULL_MAJOR = 1, NULL_MINOR = 3 };

struct helper {
    struct helper_table *table;
    struct list_node link;
    struct helper_job job;
    uv_pipe_t pipe;
    uv_write_t write;
    struct rt_timer grace;
    pid_t pid; /* 0: reaped */
    bool is_left;
    bool is_ended; /* it closed its side */
    bool is_closed;
};

static void free_if_done(struct helper *h)
{
    if (!h->is_left || !h->is_closed || h->pid != 0)
        return;
    rt_timer_cancel(&h->table->loop->rt, &h->grace);
    list_remove(&h->table->list, &h->link);
    free(h);
}

void helper_table_init(struct helper_table *t, struct loop *l, const struct oom_score *score)
{
    t->loop = l;
    t->score = score;
    t->grace_ns = GRACE_NS;
    t->unreaped = 0;
    t->read_space = NULL;
    list_init(&t->list);
    t->null_fd = plain_open_device("/dev/null", O_RDWR, NULL_MAJOR, NULL_MINOR);
}

void helper_table_fini(struct helper_table *t)
{
    struct list_node *n = list_first(&t->list);

    while (n != NULL) {
        struct helper *h = container_of(n, struct helper, link);

        n = list_next(&t->list, n);
        assert(h->is_left); /* the server has closed */
        if (h->pid != 0) {
            (void) kill(h->pid, SIGKILL); /* our child, not reaped */
            (void) waitpid(h->pid, NULL, WNOHANG);
        }
        h->pid = 0;
        free_if_done(h);
    }
    free(t->read_space);
    if (t->null_fd >= 0)
        (void) close(t->null_fd);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret)
{
    const struct helper *h = handle->data;

    (void) size;
    *ret = uv_buf_init(h->table->read_space, READ_SPACE);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct helper *h = stream->data;

    if (h->is_left || n == 0)
        return;
    if (n > 0) {
        h->job.on_data(h->job.ctx, buf->base, (size_t) n);
        return;
    }
    h->is_ended = true;
    (void) uv_read_stop(stream);
    h->job.on_end(h->job.ctx);
}

void helper_read(struct helper *h, bool is_on)
{
    int r = 0;

    if (h->is_ended)
        return;
    if (is_on)
        r = uv_read_start((uv_stream_t *) &h->pipe, on_alloc, on_read);
    else
        (void) uv_read_stop((uv_stream_t *) &h->pipe);
    assert(r == 0 || r == UV_EALREADY); /* it is open for reading */
}

static void on_write_done(uv_write_t *req, int status)
{
    struct helper *h = req->data;

    if (!h->is_left)
        h->job.on_written(h->job.ctx, status == 0);
}

void helper_write(struct helper *h, const char *head, size_t head_len, const char *data, size_t len)
{
    const uv_buf_t bufs[2] = {{.base = (char *) (uintptr_t) head, .len = head_len},
                              {.base = (char *) (uintptr_t) data, .len = len}};
    int r;

    h->write.data = h;
    r = uv_write(&h->write, (uv_stream_t *) &h->pipe, bufs, len > 0 ? 2 : 1, on_write_done);
    assert(r == 0); /* what the peer does is reported by the callback */
}

static void on_pipe_closed(void *ctx)
{
    struct helper *h = ctx;

    h->is_closed = true;
    free_if_done(h);
}

static void on_grace(struct rt_timer *timer)
{
    struct helper *h = container_of(timer, struct helper, grace);

    if (h->pid != 0)
        (void) kill(h->pid, SIGKILL); /* our child, not reaped */
}

void helper_leave(struct helper *h)
{
    struct rt *rt = &h->table->loop->rt;

    assert(!h->is_left);
    h->is_left = true;
    if (h->pid != 0) {
        if (!h->is_ended)
            (void) kill(h->pid, SIGTERM); /* our child, not reaped */
        rt_timer_set(rt, &h->grace, rt_after(rt_now(rt), h->table->grace_ns), on_grace);
    }
    loop_close_handle((uv_handle_t *) &h->pipe, on_pipe_closed, h);
}

bool helper_is_mine(const struct helper_table *t, pid_t pid)
{
    for (struct list_node *n = list_first(&t->list); n != NULL; n = list_next(&t->list, n))
        if (container_of(n, struct helper, link)->pid == pid)
            return true;
    return false;
}

bool helper_reaped(struct helper_table *t, pid_t pid)
{
    for (struct list_node *n = list_first(&t->list); n != NULL; n = list_next(&t->list, n)) {
        struct helper *h = container_of(n, struct helper, link);

        if (h->pid != pid)
            continue;
        h->pid = 0;
        t->unreaped--;
        free_if_done(h);
        return true;
    }
    return false;
}

static pid_t fork_child(struct helper_table *t, const struct helper_job *job, int fd)
{
    sigset_t all;
    sigset_t before;
    pid_t pid;
    int sys;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    oom_score_raise(t->score); /* it must die before the agent */
    pid = fork();
    if (pid == 0)
        helper_child(job, t->null_fd, fd);
    sys = errno;
    oom_score_lower(t->score);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = sys;
    return pid;
}

static struct helper *helper_new(struct helper_table *t, const struct helper_job *job, pid_t pid,
                                 int fd)
{
    struct helper *h = xcalloc(1, sizeof(*h));
    int r = uv_pipe_init(&t->loop->uv, &h->pipe, 0);

    assert(r == 0); /* it only fills the handle */
    h->table = t;
    h->job = *job;
    h->pid = pid;
    h->pipe.data = h;
    list_push_back(&t->list, &h->link);
    t->unreaped++;
    r = uv_pipe_open(&h->pipe, fd);
    assert(r == 0); /* a connected socket of ours */
    helper_read(h, true);
    return h;
}

struct helper *helper_start(struct helper_table *t, const struct helper_job *job)
{
    int fds[2];
    pid_t pid;
    int sys;

    if (t->null_fd < 0 || t->unreaped >= HELPERS_MAX) {
        errno = EAGAIN;
        return NULL;
    }
    if (t->read_space == NULL)
        t->read_space = xcalloc(1, READ_SPACE); /* a box without file calls has none */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return NULL;
    pid = fork_child(t, job, fds[1]);
    sys = errno;
    (void) close(fds[1]);
    if (pid > 0)
        return helper_new(t, job, pid, fds[0]);
    (void) close(fds[0]);
    errno = sys;
    return NULL;
}
