/* process_io.c - the streams of a process on the loop. Reading is bounded per turn, so that one
 * process that writes without end does not starve the others. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/process/process.h"
#include "base/mem.h"

enum {
    READS_PER_TURN = 4,
    READS_AT_DEATH = 64,    /* more than a full pipe */
    SMALL_SIZE = 32 * 1024, /* half a pipe */
    GOOD_SIZE = 8 * 1024,   /* for one read of a stream that comes in small pieces */
};

bool process_is_open(const struct process *p, unsigned stream)
{
    return p->streams[stream].fd >= 0;
}

static void on_handle_closed(void *ctx)
{
    struct process *p = ctx;

    assert(p->handles > 0);
    p->handles--;
    process_release(p);
}

/* The descriptor may be closed at once: libuv has forgotten it when uv_close() returns. */
static void close_polled(struct process *p, uv_poll_t *poll, int *fd)
{
    if (*fd < 0)
        return;
    loop_close_handle((uv_handle_t *) poll, on_handle_closed, p);
    (void) close(*fd);
    *fd = -1;
}

static void close_stream(struct process_stream *s)
{
    rt_timer_cancel(&s->process->table->loop->rt, &s->rest);
    close_polled(s->process, &s->poll, &s->fd);
    if (s->process->is_pty)
        buf_fini(&s->process->stdin_buf);
    output_finish(&s->output);
}

void process_close_streams(struct process *p)
{
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
        close_stream(&p->streams[i]);
    close_polled(p, &p->stdin_poll, &p->stdin_fd);
}

/* Up to `max` bytes; 0 when there is nothing to read now. */
static size_t read_some(struct process_stream *s, size_t max)
{
    struct process_table *t = s->process->table;
    ssize_t n;

    if (t->read_space == NULL)
        t->read_space = xcalloc(1, OUTPUT_READ_MAX);
    n = read(s->fd, t->read_space, max);
    if (n > 0) {
        output_append(&s->output, t->read_space, (size_t) n);
        process_notify(s->process);
        return (size_t) n;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    close_stream(s); /* the end; a terminal says EIO */
    process_notify(s->process);
    process_look(s->process);
    return 0;
}

/* All that is in it, for followers or not: nobody adds to it any more, and there is room (OUTPUT_SPARE). */
void process_drain(struct process *p)
{
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++) {
        unsigned times = READS_AT_DEATH;

        while (times > 0 && p->streams[i].fd >= 0 && read_some(&p->streams[i], OUTPUT_READ_MAX) > 0)
            times--;
    }
}

static void on_stream(uv_poll_t *poll, int status, int events);
static void on_stdin(uv_poll_t *poll, int status, int events);

/* Waits for what is wanted of it now. */
static void poll_stream(struct process_stream *s)
{
    const struct process *p = s->process;
    int events = (s->is_held || s->is_resting ? 0 : UV_READABLE) |
                 (p->is_pty && p->stdin_buf.len > 0 ? UV_WRITABLE : 0);

    if (events != 0)
        (void) uv_poll_start(&s->poll, events, on_stream); /* an open handle: cannot fail */
    else
        (void) uv_poll_stop(&s->poll);
}

void process_read_on(struct process_stream *s)
{
    s->is_held = false;
    if (s->fd >= 0)
        poll_stream(s);
}

/* What is there and may be read; how much it was. */
static size_t read_room(struct process_stream *s)
{
    uint64_t room = process_room(s);
    size_t total = 0;

    for (unsigned i = 0; i < READS_PER_TURN && s->fd >= 0 && room > 0; i++) {
        size_t max = (size_t) MIN_OF(room, (uint64_t) OUTPUT_READ_MAX);
        size_t n = read_some(s, max);

        total += n;
        if (n == 0 || (n < max && !s->process->is_pty)) /* a terminal gives a line or a page */
            return total;
        room = process_room(s);
    }
    if (room == 0 && s->fd >= 0) {
        s->is_held = true;
        poll_stream(s);
        process_held(s);
    }
    return total;
}

static void on_rest(struct rt_timer *timer);

static uint64_t rest_max_ns(const struct process_stream *s, uint64_t now_ns)
{
    uint64_t part_ns = (now_ns - s->flow_ns) / PROCESS_STEADY_PART;

    if (s->pieces < PROCESS_STEADY)
        return PROCESS_REST_MAX_NS;
    return MIN_OF(MAX_OF(part_ns, PROCESS_STEADY_REST_NS), PROCESS_STEADY_REST_MAX_NS);
}

/* After a rest that gave `n` bytes: longer while little comes, so that few bytes do not cost much more than many; shorter
 * when nothing came. What a terminal shows is looked at by somebody. */
static uint64_t next_rest_ns(const struct process_stream *s, size_t n, uint64_t now_ns)
{
    if (s->process->is_pty)
        return PROCESS_REST_NS;
    if (n == 0)
        return MAX_OF(s->rest_ns / 2, PROCESS_REST_NS);
    return n < GOOD_SIZE ? MIN_OF(s->rest_ns * 2, rest_max_ns(s, now_ns)) : s->rest_ns;
}

/* How a read that gave `n` bytes, `since_ns` after the last that gave some, ends or continues a row of pieces; what came
 * in a rest came soon enough. A slow flow is read late only when it has gone on for some time: then nobody waits for one
 * piece of it. */
static void count_piece(struct process_stream *s, size_t n, uint64_t since_ns)
{
    bool is_late = !s->is_resting && since_ns > 2 * PROCESS_STEADY_REST_NS;

    if (n == 0 || n >= SMALL_SIZE || is_late || s->process->is_pty)
        s->pieces = 0;
    if (s->pieces == 0)
        s->flow_ns = rt_now(&s->process->table->loop->rt);
    if (n > 0 && s->pieces < PROCESS_STEADY)
        s->pieces++;
}

/* A program that writes many small pieces would wake the agent, the daemon and the reader for each. So after two
 * pieces in a row the next is waited for a moment; the first after silence or input never waits. */
static void read_stream(struct process_stream *s)
{
    struct rt *rt = &s->process->table->loop->rt;
    uint64_t now_ns = rt_now(rt);
    uint64_t since_ns = s->read_ns != 0 ? now_ns - s->read_ns : UINT64_MAX;
    bool was_resting = s->is_resting; /* it may be late itself */
    bool is_flowing = since_ns <= 2 * s->rest_ns || was_resting;
    size_t n = read_room(s);

    if (s->fd < 0)
        return;
    count_piece(s, n, since_ns);
    if (!is_flowing)
        s->rest_ns = PROCESS_REST_NS;
    else if (was_resting)
        s->rest_ns = MIN_OF(next_rest_ns(s, n, now_ns), rest_max_ns(s, now_ns));
    if (!was_resting && s->pieces == PROCESS_STEADY) {
        s->rest_ns = PROCESS_STEADY_REST_NS;
        is_flowing = true;
    }
    if (n > 0)
        s->read_ns = now_ns;
    s->is_resting = is_flowing && n > 0 && n < SMALL_SIZE;
    if (s->is_resting)
        rt_timer_set(rt, &s->rest, rt_after(now_ns, s->rest_ns), on_rest);
    if (s->is_resting != was_resting)
        poll_stream(s);
}

static void on_rest(struct rt_timer *timer)
{
    struct process_stream *s = container_of(timer, struct process_stream, rest);

    if (!s->is_held) {
        read_stream(s);
    } else {
        s->is_resting = false; /* who releases it polls */
    }
}

/* What comes next answers the input. */
static void end_rest(struct process *p)
{
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++) {
        struct process_stream *s = &p->streams[i];

        s->read_ns = 0;
        s->pieces = 0;
        if (!s->is_resting || s->fd < 0)
            continue;
        rt_timer_cancel(&p->table->loop->rt, &s->rest);
        s->is_resting = false;
        poll_stream(s);
    }
}

/* Writes what the other side takes; false when the rest must wait or nobody reads any more. */
static bool write_stdin(struct process *p, int fd)
{
    while (p->stdin_buf.len > 0) {
        ssize_t n = write(fd, p->stdin_buf.data, p->stdin_buf.len);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n < 0)
            return false;
        buf_consume(&p->stdin_buf, (size_t) n);
    }
    return true;
}

static void write_terminal(struct process *p)
{
    if (p->streams[0].fd < 0)
        return;
    if (!write_stdin(p, p->streams[0].fd))
        buf_reset(&p->stdin_buf);
    poll_stream(&p->streams[0]);
}

static void on_stream(uv_poll_t *poll, int status, int events)
{
    struct process_stream *s = container_of(poll, struct process_stream, poll);

    if ((events & UV_WRITABLE) != 0) {
        write_terminal(s->process);
        process_notify(s->process); /* there is room for more input */
    }
    if (status < 0 || (events & ~UV_WRITABLE) != 0)
        read_stream(s);
}

static void write_pipe(struct process *p)
{
    bool is_taken = write_stdin(p, p->stdin_fd);

    if (!is_taken || (p->stdin_buf.len == 0 && p->is_stdin_ending)) {
        close_polled(p, &p->stdin_poll, &p->stdin_fd);
        buf_fini(&p->stdin_buf);
        return;
    }
    if (p->stdin_buf.len > 0)
        (void) uv_poll_start(&p->stdin_poll, UV_WRITABLE, on_stdin); /* cannot fail: it is open */
    else
        (void) uv_poll_stop(&p->stdin_poll);
}

static void on_stdin(uv_poll_t *poll, int status, int events)
{
    struct process *p = container_of(poll, struct process, stdin_poll);

    (void) status; /* the write will say it again */
    (void) events;
    write_pipe(p);
    process_notify(p); /* there is room for more */
}

static int open_polled(struct process *p, uv_poll_t *poll, int fd, int *ret_fd, struct err *err)
{
    int r;

    if (fd < 0)
        return SP_OK;
    r = uv_poll_init(&p->table->loop->uv, poll, fd);
    if (r != 0) {
        (void) close(fd);
        return err_sys(err, SP_IO, -r, "stream of a process");
    }
    p->handles++;
    *ret_fd = fd;
    return SP_OK;
}

int process_open_streams(struct process *p, const struct spawn_result *fds, struct err *err)
{
    int of_stream[PROCESS_STREAM_COUNT] = {fds->out, fds->err};
    int rc = open_polled(p, &p->stdin_poll, fds->in, &p->stdin_fd, err);

    p->has_stdin = fds->in >= 0;

    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++) {
        struct process_stream *s = &p->streams[i];
        int r = open_polled(p, &s->poll, of_stream[i], &s->fd, err);

        if (r != SP_OK)
            rc = r;
        else if (s->fd >= 0)
            poll_stream(s);
    }
    return rc;
}

int process_write(struct process *p, const char *data, size_t len, struct err *err)
{
    int fd = p->is_pty ? p->streams[0].fd : p->stdin_fd;

    if (fd < 0 || p->is_stdin_ending)
        return err_set(err, SP_JOB_ENDED,
                       p->has_stdin || p->is_pty
                           ? "the input of the process has ended"
                           : "the process was started without input: start it with stdin: true");
    if (len > PROCESS_STDIN_MAX - p->stdin_buf.len)
        return err_set(err, SP_QUEUE_FULL, "the process does not read its input: %zu bytes wait",
                       p->stdin_buf.len);
    buf_append(&p->stdin_buf, data, len);
    if (buf_failed(&p->stdin_buf)) {
        p->stdin_buf.is_failed = false; /* nothing was appended */
        return err_set(err, SP_NO_MEMORY, "no memory for %zu bytes of input", len);
    }
    end_rest(p);
    if (p->is_pty)
        write_terminal(p);
    else
        write_pipe(p);
    return SP_OK;
}

int process_close_stdin(struct process *p, struct err *err)
{
    if (p->is_pty)
        return process_write(p, "\x04", 1, err);
    if (p->stdin_fd < 0)
        return SP_OK;
    p->is_stdin_ending = true;
    write_pipe(p);
    return SP_OK;
}

int process_resize(struct process *p, uint16_t cols, uint16_t rows, struct err *err)
{
    if (!p->is_pty || p->streams[0].fd < 0)
        return err_set(err, SP_INVALID_FIELD, "the process has no terminal");
    return spawn_resize(p->streams[0].fd, cols, rows, err);
}
