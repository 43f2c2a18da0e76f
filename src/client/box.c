/* box.c - a call to a box's agent in steps that never wait: connect, send, receive. */
#include "client/box_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"

enum {
    /* The agent hangs up on a connection that is idle for a minute. Ours is given up well before,
     * so that no request meets its closing. */
    IDLE_MAX_MS = 20 * 1000,
};

void sp_box_close(struct sp_box *b)
{
    if (b->fd >= 0)
        (void) close(b->fd); /* nothing to do about it here */
    b->fd = -1;
    b->is_busy = false;
    b->is_connecting = false;
    b->is_body_open = false;
}

void sp_box_free(struct sp_box *b)
{
    if (b == NULL)
        return;
    sp_box_close(b);
    if (b->has_answer)
        answer_fini(&b->answer);
    buf_fini(&b->request);
    free(b->piece);
    free(b);
}

bool sp_box_is_busy(const struct sp_box *b)
{
    return b->is_busy;
}

int sp_box_fd(const struct sp_box *b)
{
    return b->fd;
}

short sp_box_events(const struct sp_box *b)
{
    if (b->is_connecting)
        return POLLOUT;
    return b->sent < b->request.len ? POLLIN | POLLOUT : POLLIN;
}

const char *sp_box_answer(const struct sp_box *b)
{
    return b->has_answer ? buf_str(&b->answer.body) : "";
}

uint64_t sp_box_offset(const struct sp_box *b)
{
    return b->has_answer ? b->answer.offset : 0;
}

static int fail(struct sp_box *b, int code, const char *what, int sys, struct sp_failure *f)
{
    sp_box_close(b);
    return client_fail(f, code, "%s the box at '%s': %s", what, b->url, strerror(sys));
}

static void set_options(const struct sp_box *b)
{
    int on = 1;
    int idle_s = 20;

    if (b->address.ss_family == AF_UNIX)
        return;
    /* small requests must not wait for each other's receipts; without it they are only slower */
    (void) setsockopt(b->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    /* a stream may be silent for hours; a machine that went away is noticed all the same */
    (void) setsockopt(b->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void) setsockopt(b->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void) setsockopt(b->fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
}

static int open_connection(struct sp_box *b, struct sp_failure *f)
{
    sp_box_close(b);
    b->fd = socket(b->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->fd < 0)
        return fail(b, SP_CONNECT_FAILED, "no socket for", errno, f);
    set_options(b);
    if (connect(b->fd, (const struct sockaddr *) &b->address, b->address_len) != 0) {
        if (errno != EINPROGRESS && errno != EINTR)
            return fail(b, SP_CONNECT_FAILED, "cannot connect to", errno, f);
        b->is_connecting = true;
    }
    return SP_OK;
}

static bool can_reuse(const struct sp_box *b)
{
    char byte;

    return b->fd >= 0 && !b->is_busy && wire_now_ms() - b->used_ms < IDLE_MAX_MS &&
           recv(b->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

static int build(struct sp_box *b, const struct sp_box_call *call, struct sp_failure *f)
{
    struct buf *out = &b->request;

    buf_reset(out);
    b->sent = 0;
    buf_printf(out, "%s %s%s HTTP/1.1\r\nHost: %s\r\n", call->method, b->prefix, call->target,
               b->authority);
    if (!str_is_empty(b->token))
        buf_printf(out, "Authorization: Bearer %s\r\n", b->token);
    if (call->is_streamed && call->length < 0)
        buf_puts(out, "Transfer-Encoding: chunked\r\n");
    else if (call->is_streamed)
        buf_printf(out, "Content-Length: %lld\r\n", (long long) call->length);
    else if (call->body != NULL || strcmp(call->method, "POST") == 0)
        buf_printf(out, "Content-Length: %zu\r\n", call->len);
    if (call->upgrade != NULL)
        buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n", call->upgrade);
    if (call->accept != NULL)
        buf_printf(out, "Accept: %s\r\n", call->accept);
    if (call->headers != NULL)
        buf_puts(out, call->headers);
    buf_puts(out, "\r\n");
    if (call->body != NULL)
        buf_append(out, call->body, call->len);
    if (buf_failed(out))
        return client_fail(f, SP_TOO_BIG, "the request is larger than %d MB",
                           CLIENT_BODY_MAX / (1024 * 1024));
    return SP_OK;
}

int sp_box_begin(struct sp_box *b, const struct sp_box_call *call, struct sp_failure *failure)
{
    int r = build(b, call, failure);

    if (r == SP_OK && !can_reuse(b))
        r = open_connection(b, failure);
    if (r != SP_OK)
        return r;
    if (b->has_answer)
        answer_fini(&b->answer);
    answer_init(&b->answer, b->address.ss_family == AF_UNIX ? "the daemon" : "the box's agent",
                strcmp(call->method, "HEAD") == 0);
    b->has_answer = true;
    b->answer.on_data = call->on_data;
    b->answer.ctx = call->ctx;
    b->answer.wants_upgrade = call->upgrade != NULL;
    b->is_chunked = call->is_streamed && call->length < 0;
    b->is_body_open = call->is_streamed;
    b->is_busy = true;
    return SP_OK;
}

/* --- a body in pieces: one is held at a time --- */

size_t sp_box_write(struct sp_box *b, const void *data, size_t len)
{
    if (!b->is_busy || !b->is_body_open || b->sent < b->request.len || len == 0)
        return 0;
    len = MIN_OF(len, (size_t) BOX_PIECE);
    buf_reset(&b->request);
    b->sent = 0;
    if (b->is_chunked)
        buf_printf(&b->request, "%zx\r\n", len);
    buf_append(&b->request, data, len);
    if (b->is_chunked)
        buf_puts(&b->request, "\r\n");
    return len;
}

void sp_box_end_body(struct sp_box *b)
{
    if (b->is_body_open && b->is_chunked)
        buf_puts(&b->request, "0\r\n\r\n"); /* behind what is not sent yet */
    b->is_body_open = false;
}

bool sp_box_is_raw(const struct sp_box *b)
{
    return b->has_answer && b->answer.is_raw;
}

size_t sp_box_answer_len(const struct sp_box *b)
{
    return b->has_answer ? b->answer.body.len : 0;
}

static int finish_connect(struct sp_box *b, struct sp_failure *f)
{
    struct pollfd p = {.fd = b->fd, .events = POLLOUT};
    int sys = 0;
    socklen_t len = sizeof(sys);

    if (poll(&p, 1, 0) <= 0)
        return SP_OK; /* not yet */
    if (getsockopt(b->fd, SOL_SOCKET, SO_ERROR, &sys, &len) != 0)
        sys = errno;
    if (sys != 0)
        return fail(b, SP_CONNECT_FAILED, "cannot connect to", sys, f);
    b->is_connecting = false;
    return SP_OK;
}

/* A peer that closes early may have answered already: that is read next, so it is no failure. */
static void send_some(struct sp_box *b)
{
    while (b->sent < b->request.len) {
        ssize_t n = send(b->fd, b->request.data + b->sent, b->request.len - b->sent, MSG_NOSIGNAL);

        if (n >= 0)
            b->sent += (size_t) n;
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            b->sent = b->request.len;
    }
}

static int receive_some(struct sp_box *b, struct sp_failure *f)
{
    ssize_t n = recv(b->fd, b->piece, BOX_PIECE, 0);
    int r;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return SP_OK;
    if (n < 0 && errno != ECONNRESET)
        return fail(b, SP_IO, "reading from", errno, f);
    r = answer_feed(&b->answer, b->piece, n < 0 ? 0 : (size_t) n, f);
    if (r != SP_OK || b->answer.is_stopped) {
        sp_box_close(b);
        return r;
    }
    if (!b->answer.is_done)
        return SP_OK;
    if (b->is_body_open || b->sent < b->request.len)
        b->answer.can_keep = false; /* it was answered before it was sent */
    b->is_body_open = false;
    b->is_busy = false;
    if (b->answer.is_raw)
        return SP_OK;
    b->used_ms = wire_now_ms();
    if (!b->answer.can_keep)
        sp_box_close(b);
    return b->answer.status / 100 == 2 ? SP_OK : client_fail_http(f, &b->answer);
}

int sp_box_step(struct sp_box *b, struct sp_failure *failure)
{
    int r = SP_OK;

    if (!b->is_busy)
        return SP_OK;
    if (b->is_connecting)
        r = finish_connect(b, failure);
    if (r != SP_OK || b->is_connecting)
        return r;
    send_some(b);
    return receive_some(b, failure);
}

int sp_box_wait(struct sp_box *b, uint64_t timeout_ms, struct sp_failure *failure)
{
    uint64_t deadline_ms = wire_now_ms() + timeout_ms;
    int r = SP_OK;

    while (r == SP_OK && b->is_busy) {
        struct pollfd p = {.fd = b->fd, .events = sp_box_events(b)};
        uint64_t now_ms = wire_now_ms();

        if (now_ms >= deadline_ms)
            return fail(b, SP_TIMEOUT, "no answer from", ETIMEDOUT, failure);
        if (poll(&p, 1, (int) MIN_OF(deadline_ms - now_ms, (uint64_t) 1000 * 1000)) > 0)
            r = sp_box_step(b, failure);
    }
    return r;
}
