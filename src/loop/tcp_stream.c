/* tcp_stream.c - a handle of libuv with bounded memory: what the kernel does not take waits in one buffer, and one write
 * is under way at a time. */
#include "loop/tcp_stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

enum { READ_SIZE = 64 * 1024, KEEPALIVE_S = 60 };

struct tcp_stream {
    struct loop *loop;
    const struct tcp_stream_events *events; /* NULL: closed */
    void *ctx;
    union {
        uv_handle_t any;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe; /* of a socket that was open already */
    } handle;
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct rt_timer deadline;
    struct rt_task task; /* reports what went wrong inside a call */
    struct buf cur;      /* being written */
    struct buf next;     /* written after it */
    int result;          /* of the connect */
    bool is_open;
    bool is_writing;
    bool is_shutting;
    bool is_shut;
    bool is_paused;
    bool is_reading;
    bool is_ended; /* by the peer */
    bool is_broken;
};

static void on_failed(struct rt_task *task)
{
    struct tcp_stream *s = container_of(task, struct tcp_stream, task);

    if (s->is_open)
        s->events->on_broken(s->ctx);
    else
        s->events->on_open(s->ctx, s->result);
}

/* Reported soon. */
static void fail(struct tcp_stream *s, int result)
{
    if (s->is_broken || s->events == NULL)
        return;
    s->is_broken = true;
    s->result = result;
    rt_timer_cancel(&s->loop->rt, &s->deadline);
    if (s->is_reading)
        (void) uv_read_stop(&s->handle.stream); /* always succeeds */
    s->is_reading = false;
    rt_defer(&s->loop->rt, &s->task, on_failed);
}

/* --- reading --- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char space[READ_SIZE]; /* one for all: what is read is given away at once */

    (void) handle;
    (void) suggested;
    *buf = uv_buf_init(space, sizeof(space));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct tcp_stream *s = container_of(stream, struct tcp_stream, handle.stream);

    if (n == 0 || s->events == NULL || s->is_broken)
        return;
    if (n > 0) {
        s->events->on_data(s->ctx, buf->base, (size_t) n);
    } else if (n == UV_EOF) {
        s->is_ended = true;
        s->is_reading = false;
        (void) uv_read_stop(stream); /* always succeeds */
        s->events->on_end(s->ctx);
    } else {
        fail(s, SP_IO);
    }
}

static void update_reading(struct tcp_stream *s)
{
    bool want = s->is_open && !s->is_paused && !s->is_ended && !s->is_broken;

    if (want == s->is_reading)
        return;
    s->is_reading = want;
    if (!want)
        (void) uv_read_stop(&s->handle.stream); /* always succeeds */
    else if (uv_read_start(&s->handle.stream, on_alloc, on_read) != 0)
        fail(s, SP_IO);
}

void tcp_stream_pause(struct tcp_stream *s)
{
    s->is_paused = true;
    update_reading(s);
}

void tcp_stream_resume(struct tcp_stream *s)
{
    s->is_paused = false;
    update_reading(s);
}

/* --- writing --- */

static void on_shut(uv_shutdown_t *req, int status)
{
    struct tcp_stream *s = container_of(req, struct tcp_stream, shutdown);

    if (status < 0 && status != UV_ECANCELED && status != UV_ENOTCONN)
        fail(s, SP_IO);
}

static void start_write(struct tcp_stream *s);

static void on_written(uv_write_t *req, int status)
{
    struct tcp_stream *s = container_of(req, struct tcp_stream, write);

    s->is_writing = false;
    if (s->events == NULL || s->is_broken)
        return;
    if (status < 0) {
        fail(s, SP_IO);
        return;
    }
    buf_reset(&s->cur);
    start_write(s);
    if (!s->is_writing && !s->is_broken)
        s->events->on_drain(s->ctx);
}

/* What waits is written next, and when nothing does our side is ended if that is wanted. */
static void start_write(struct tcp_stream *s)
{
    struct buf empty = s->cur;
    uv_buf_t buf;

    if (s->is_writing || s->is_broken || !s->is_open)
        return;
    if (s->next.len == 0) {
        if (s->is_shutting && !s->is_shut) {
            s->is_shut = true;
            if (uv_shutdown(&s->shutdown, &s->handle.stream, on_shut) != 0)
                fail(s, SP_IO);
        }
        return;
    }
    s->cur = s->next;
    s->next = empty;
    buf = uv_buf_init(s->cur.data, (unsigned) s->cur.len);
    if (uv_write(&s->write, &s->handle.stream, &buf, 1, on_written) != 0)
        fail(s, SP_IO);
    else
        s->is_writing = true;
}

size_t tcp_stream_unsent(const struct tcp_stream *s)
{
    return s->next.len + (s->is_writing ? s->cur.len : 0);
}

/* Bytes that the kernel takes now. */
static size_t try_now(struct tcp_stream *s, const char *data, size_t len)
{
    uv_buf_t buf = uv_buf_init((char *) (uintptr_t) data, (unsigned) len);
    int r;

    if (s->is_writing || s->next.len > 0)
        return 0;
    r = uv_try_write(&s->handle.stream, &buf, 1);
    if (r == UV_EAGAIN)
        return 0;
    if (r < 0) {
        fail(s, SP_IO);
        return len;
    }
    return (size_t) r;
}

size_t tcp_stream_write(struct tcp_stream *s, const char *data, size_t len)
{
    size_t taken;

    if (!s->is_open || s->is_broken || len == 0)
        return 0;
    assert(!s->is_shutting);
    taken = try_now(s, data, len);
    buf_append(&s->next, data + taken, len - taken);
    if (buf_failed(&s->next))
        fail(s, SP_IO);
    start_write(s);
    return tcp_stream_unsent(s);
}

void tcp_stream_shut(struct tcp_stream *s)
{
    s->is_shutting = true;
    start_write(s);
}

/* --- from beginning to end --- */

static void on_connected(uv_connect_t *req, int status)
{
    struct tcp_stream *s = container_of(req, struct tcp_stream, connect);

    if (s->events == NULL || s->is_broken)
        return;
    if (status < 0) {
        fail(s, SP_CONNECT_FAILED);
        return;
    }
    rt_timer_cancel(&s->loop->rt, &s->deadline);
    s->is_open = true;
    (void) uv_tcp_nodelay(&s->handle.tcp, 1);                /* only speed */
    (void) uv_tcp_keepalive(&s->handle.tcp, 1, KEEPALIVE_S); /* a peer that vanished is noticed */
    update_reading(s);
    s->events->on_open(s->ctx, SP_OK);
}

static struct tcp_stream *make(struct loop *l, const struct tcp_stream_events *events, void *ctx)
{
    struct tcp_stream *s = xcalloc(1, sizeof(*s));

    s->loop = l;
    s->events = events;
    s->ctx = ctx;
    buf_init(&s->cur, TCP_STREAM_MAX);
    buf_init(&s->next, TCP_STREAM_MAX);
    return s;
}

int tcp_stream_take(struct loop *l, int fd, const struct tcp_stream_events *events, void *ctx,
                    struct tcp_stream **ret, struct err *err)
{
    struct tcp_stream *s = make(l, events, ctx);
    int r = uv_pipe_init(&l->uv, &s->handle.pipe, 0);

    assert(r == 0); /* it only links the handle to the loop */
    r = uv_pipe_open(&s->handle.pipe, fd);
    if (r != 0) {
        (void) close(fd); /* nothing was written */
        tcp_stream_close(s);
        return err_sys(err, SP_IO, -r, "a socket between two processes");
    }
    s->is_open = true;
    update_reading(s);
    *ret = s;
    return SP_OK;
}

static void on_deadline(struct rt_timer *timer)
{
    fail(container_of(timer, struct tcp_stream, deadline), SP_TIMEOUT);
}

struct tcp_stream *tcp_stream_open(struct loop *l, const char *address, uint16_t port,
                                   uint64_t deadline_ns, const struct tcp_stream_events *events,
                                   void *ctx)
{
    struct tcp_stream *s = make(l, events, ctx);
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } to;
    int r;

    r = uv_tcp_init(&l->uv, &s->handle.tcp);
    assert(r == 0); /* it only links the handle to the loop */
    if (strchr(address, ':') != NULL)
        r = uv_ip6_addr(address, port, &to.v6);
    else
        r = uv_ip4_addr(address, port, &to.v4);
    if (r == 0)
        r = uv_tcp_connect(&s->connect, &s->handle.tcp, &to.any, on_connected);
    if (r != 0)
        fail(s, SP_CONNECT_FAILED);
    else if (deadline_ns != RT_NEVER)
        rt_timer_set(&l->rt, &s->deadline, deadline_ns, on_deadline);
    return s;
}

static void on_closed(void *ctx)
{
    struct tcp_stream *s = ctx;

    buf_fini(&s->cur);
    buf_fini(&s->next);
    free(s);
}

void tcp_stream_close(struct tcp_stream *s)
{
    s->events = NULL;
    rt_timer_cancel(&s->loop->rt, &s->deadline);
    rt_undefer(&s->loop->rt, &s->task);
    loop_close_handle(&s->handle.any, on_closed, s);
}
