/* conn.c - one connection: read, parse, dispatch, write, next. conn_run() is the only place that
 * moves it forward and update() the only one after which it waits for something; everything else
 * notes a fact and calls or defers conn_run(). */
#include "http/conn.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

/* --- the end --- */

/* What became of the last answer that wants to know. */
static void report_taken(struct conn *c, int result)
{
    void (*on_taken)(void *, int) = c->on_taken;

    c->on_taken = NULL;
    if (on_taken != NULL)
        on_taken(c->taken_ctx, result);
}

static void on_handle_closed(void *ctx)
{
    struct conn *c = ctx;
    struct http_server *s = c->server;

    rt_undefer(&s->loop->rt, &c->task);
    report_taken(c, SP_OK); /* we closed it: nothing says that the answer was not read */
    if (c->ex != NULL) {
        exchange_lost(c->ex);
        exchange_release(c->ex);
    }
    conn_drop_flight(c);
    secure_close(c);
    buf_fini(&c->ahead);
    callers_forget(c);
    list_remove(c->is_refused ? &s->refusing : &s->conns, &c->link);
    free(c);
    server_check_closed(s);
}

void conn_close(struct conn *c)
{
    if (c->phase == CONN_CLOSED)
        return;
    secure_end(c);
    if (c->phase == CONN_CLOSED) /* it was broken */
        return;
    c->phase = CONN_CLOSED;
    if (c->ex != NULL)
        turns_leave(c->ex);
    callers_remove(c);
    rt_timer_cancel(&c->server->loop->rt, &c->timer);
    loop_close_handle(&c->u.handle, on_handle_closed, c);
    conn_defer(c); /* notifies the handler */
}

/* The answer is out but the client may still be sending: closing now would reset the connection
 * and could take the answer away from it. So say that we are done and read on for a while. */
static void start_linger(struct conn *c)
{
    int fd;

    secure_end(c);
    if (c->phase != CONN_OPEN)
        return;
    if (uv_fileno(&c->u.handle, &fd) != 0 || shutdown(fd, SHUT_WR) != 0) {
        conn_close(c);
        return;
    }
    c->phase = CONN_LINGER;
    buf_fini(&c->ahead);
}

/* --- reading --- */

bool conn_is_resting(const struct conn *c)
{
    const struct http_server *s = c->server;

    if (c->phase != CONN_OPEN || c->ex == NULL)
        return false;
    return (c->ex->input == EXCHANGE_BODY || c->ex->is_upgraded) && !c->ex->is_ended &&
           !c->ex->is_paused && effort_room(&c->effort, &s->effort, s->loop->turn) == 0;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct conn *c = container_of(handle, struct conn, u.handle);
    size_t max = held_ahead_max(c);

    (void) suggested;
    *buf = uv_buf_init(c->server->read_buf,
                       (unsigned) MAX_OF(max, c->ahead.len + 1) - (unsigned) c->ahead.len);
    if (conn_is_resting(c))
        buf->len = 0; /* on_read() gets UV_ENOBUFS, and it stays where it is */
}

/* Bytes of a body that are parsed in one step. */
static size_t body_step(const struct conn *c)
{
    const struct http_server *s = c->server;
    size_t room = effort_room(&c->effort, &s->effort, s->loop->turn);

    return c->ex->is_upgraded || c->ex->req.content_length > 0 ? room : room / EFFORT_FRAMING;
}

static void count_effort(struct conn *c, size_t raw, size_t body)
{
    uint64_t turn = c->server->loop->turn;
    size_t cost = effort_cost(raw, MIN_OF(body, raw));

    effort_add(&c->effort, turn, cost);
    effort_add(&c->server->effort, turn, cost);
}

static size_t feed_upgraded(struct conn *c, const char *data, size_t len)
{
    len = MIN_OF(len, body_step(c));
    count_effort(c, len, len);
    return upgrade_feed(c->ex, data, len);
}

/* Takes one piece of input as far as this request goes; returns the bytes used. */
static size_t feed(struct conn *c, const char *data, size_t len)
{
    struct http_exchange *ex = c->ex;
    uint64_t body_before = ex->req.body_seen;
    bool is_body = ex->input == EXCHANGE_BODY;
    enum parse_result result;
    size_t used;

    if (is_body)
        len = MIN_OF(len, body_step(c));
    if (is_body && c->wait == CONN_WAIT_BODY) {
        conn_charge_body(c, len);
        c->wait = CONN_WAIT_NONE; /* there is progress: the time is set anew */
    }
    result = parse_feed(&ex->req, data, len, &used);
    if (is_body)
        count_effort(c, used, (size_t) (ex->req.body_seen - body_before));
    if (c->server->config.keeps_requests && !ex->is_owned && !ex->is_ended)
        buf_append(&ex->raw, data, used);
    switch (result) {
    case PARSE_MORE:
        break;
    case PARSE_PAUSED:
        if (buf_failed(&ex->body))
            exchange_refuse(ex, SP_NO_MEMORY, "not enough memory for the request body", 0);
        break;
    case PARSE_HEAD:
        exchange_start(ex);
        break;
    case PARSE_DONE:
        exchange_finish_body(ex);
        break;
    case PARSE_BAD:
        exchange_refuse(ex, ex->req.error, ex->req.reason, 0);
        break;
    case PARSE_RESULT_COUNT:
        assert(false);
    }
    return used;
}

/* The answer is ended. True when it is out and the connection can go on. */
static bool settle(struct conn *c)
{
    struct http_exchange *ex = c->ex;
    void (*on_sent)(void *, int) = ex->on_sent;
    bool must_close = ex->must_close || c->server->is_stopping;
    bool must_linger = ex->must_linger && !c->is_eof;

    if (conn_is_sending(c))
        return false;
    ex->on_sent = NULL;
    if (on_sent != NULL)
        on_sent(ex->sent_ctx, SP_OK);
    report_taken(c, SP_OK); /* an answer before this one, to a client that asked ahead */
    c->on_taken = ex->on_taken;
    c->taken_ctx = ex->taken_ctx;
    ex->on_taken = NULL;
    c->ex = NULL;
    exchange_release(ex);
    conn_drop_flight(c);
    c->wait = CONN_WAIT_NONE;
    if (c->phase != CONN_OPEN)
        return false;
    if (must_close && must_linger)
        start_linger(c);
    else if (must_close)
        conn_close(c);
    return true;
}

static bool can_take_input(const struct conn *c, size_t len)
{
    if (conn_holds(c))
        return false;
    if (c->ex == NULL)
        return len > 0;
    if (c->ex->is_upgraded)
        return len > 0 && !c->ex->is_paused && !conn_is_resting(c);
    if (c->ex->input == EXCHANGE_DONE || c->ex->is_paused || conn_is_resting(c))
        return false;
    return len > 0 || c->ex->req.is_paused; /* the pause may hide the body's end */
}

/* Serves what `data` holds; returns the bytes used. */
static size_t advance(struct conn *c, const char *data, size_t len)
{
    size_t used = 0;

    while (c->phase == CONN_OPEN) {
        if (c->ex != NULL && c->ex->is_ended) {
            if (!settle(c))
                break;
            continue;
        }
        if (!can_take_input(c, len - used)) {
            if (!upgrade_step(c, used == len))
                break;
            continue;
        }
        if (c->ex == NULL) {
            if (data[used] == '\r' || data[used] == '\n') {
                used++; /* a line end between requests is no request */
                continue;
            }
            c->ex = exchange_new(c);
        }
        if (c->ex->is_upgraded)
            used += feed_upgraded(c, data + used, len - used);
        else
            used += feed(c, data + used, len - used);
    }
    return used;
}

/* No more will come, but its request came whole and is still to be begun. Who has only ended its sending side gets
 * the answer; who has closed does not wait for it. */
static bool awaits_turn(const struct conn *c)
{
    struct pollfd p = {0};

    if (c->ex == NULL || c->ex->is_owned || c->ex->on_turn == NULL)
        return false;
    return uv_fileno(&c->u.handle, &p.fd) == 0 && poll(&p, 1, 0) == 0;
}

void conn_feed(struct conn *c, const char *data, size_t len)
{
    c->is_running = true;
    if (c->ahead.len > 0 || len == 0) {
        buf_append(&c->ahead, data, len);
        len = advance(c, buf_str(&c->ahead), c->ahead.len);
        if (c->phase == CONN_OPEN)
            buf_consume(&c->ahead, len);
    } else {
        size_t used = advance(c, data, len);

        if (c->phase == CONN_OPEN)
            buf_append(&c->ahead, data + used, len - used);
    }
    if (c->ahead.len == 0 && c->ahead.data != NULL)
        buf_fini(&c->ahead);
    /* No more will come: what is not answered by now has nobody waiting for it. */
    if (c->phase == CONN_OPEN && c->is_eof && (c->ex == NULL || !c->ex->is_ended) &&
        !(c->ahead.len > 0 && conn_is_resting(c)) && !awaits_turn(c) && !conn_is_upgraded(c))
        conn_close(c);
    if (buf_failed(&c->ahead))
        conn_close(c);
    c->is_running = false;
    held_check_input(c);
    conn_update(c);
}

void conn_run(struct conn *c)
{
    rt_undefer(&c->server->loop->rt, &c->task);
    if (c->phase == CONN_CLOSED) {
        if (c->ex != NULL)
            exchange_lost(c->ex);
        return;
    }
    conn_feed(c, NULL, 0);
    if (c->session != NULL)
        secure_run(c);
}

static void on_task(struct rt_task *task)
{
    conn_run(container_of(task, struct conn, task));
}

void conn_defer(struct conn *c)
{
    if (!c->is_running || c->phase == CONN_CLOSED)
        rt_defer(&c->server->loop->rt, &c->task, on_task);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *c = container_of(stream, struct conn, u.stream);

    if (n == 0 || c->phase == CONN_CLOSED)
        return;
    if (n == UV_ENOBUFS) { /* nothing was read: it rests */
        conn_update(c);
        return;
    }
    /* A Unix socket is reset only when its peer closed with something unread. TCP may be reset by
     * a client that has read it all, so there it says nothing. */
    report_taken(c, n == UV_ECONNRESET && !c->peer.is_tcp ? SP_IO : SP_OK);
    if (n < 0) {
        c->is_eof = c->session == NULL;
        if (n != UV_EOF || c->phase == CONN_LINGER)
            conn_close(c);
        else if (c->session != NULL)
            secure_wire_eof(c);
        else
            conn_feed(c, NULL, 0);
        return;
    }
    if (c->phase == CONN_LINGER) {
        c->lingered += (size_t) n;
        if (c->lingered > CONN_LINGER_BYTES)
            conn_close(c);
        return;
    }
    if (c->session != NULL)
        secure_input(c, buf->base, (size_t) n);
    else
        conn_feed(c, buf->base, (size_t) n);
}

void conn_read_now(struct conn *c)
{
    uv_buf_t buf;
    ssize_t n;
    int fd;

    if (!c->is_reading || c->phase != CONN_OPEN || uv_fileno(&c->u.handle, &fd) != 0)
        return;
    on_alloc(&c->u.handle, CONN_READ_SIZE, &buf);
    n = recv(fd, buf.base, buf.len, MSG_DONTWAIT);
    if (n > 0)
        on_read(&c->u.stream, n, &buf); /* how it ended is left to the loop */
}

void conn_update(struct conn *c)
{
    bool want_read;

    if (c->phase == CONN_CLOSED)
        return;
    conn_set_wait(c);
    want_read = !c->is_eof && !c->is_wire_eof && c->ahead.len < held_ahead_max(c) &&
                !conn_holds(c) && !conn_is_resting(c) && !secure_has_more(c);
    if (want_read == c->is_reading)
        return;
    c->is_reading = want_read;
    if (!want_read)
        (void) uv_read_stop(&c->u.stream); /* always succeeds */
    else if (uv_read_start(&c->u.stream, on_alloc, on_read) != 0)
        conn_close(c);
}
