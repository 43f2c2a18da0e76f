/* output.c - bytes to the kernel. Most answers go out with one uv_try_write() and leave nothing
 * behind; what is not taken waits in the connection's flight, one uv_write() at a time. */
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/mem.h"
#include "http/conn.h"

static void fly(struct conn *c);

bool conn_is_sending(const struct conn *c)
{
    return c->flight != NULL && c->flight->is_flying;
}

size_t conn_unsent(const struct conn *c)
{
    if (!conn_is_sending(c))
        return 0;
    return uv_stream_get_write_queue_size(&c->u.stream) + c->flight->next.len;
}

uint64_t conn_taken(const struct conn *c)
{
    int fd;
    int queued = 0;

    if (uv_fileno(&c->u.handle, &fd) != 0 || ioctl(fd, SIOCOUTQ, &queued) != 0)
        queued = 0;
    return c->sent - conn_unsent(c) - (uint64_t) queued;
}

void conn_drop_flight(struct conn *c)
{
    if (c->flight == NULL)
        return;
    assert(!c->flight->is_flying);
    buf_fini(&c->flight->cur);
    buf_fini(&c->flight->next);
    free(c->flight);
    c->flight = NULL;
}

static struct flight *need_flight(struct conn *c)
{
    if (c->flight == NULL) {
        c->flight = xcalloc(1, sizeof(*c->flight));
        c->flight->conn = c;
        buf_init(&c->flight->cur, REPLY_MAX);
        buf_init(&c->flight->next, REPLY_MAX);
    }
    return c->flight;
}

/* The writer was asked to wait and may now go on. */
static void notify_drained(struct conn *c)
{
    struct http_exchange *ex = c->ex;

    if (ex == NULL || !ex->wants_drain || ex->is_ended || conn_unsent(c) >= HTTP_HIGH_WATER / 2)
        return;
    ex->wants_drain = false;
    if (ex->on_drain != NULL)
        ex->on_drain(ex);
}

static void on_written(uv_write_t *req, int status)
{
    struct flight *f = container_of(req, struct flight, req);
    struct conn *c = f->conn;

    f->is_flying = false;
    if (c->phase == CONN_CLOSED)
        return; /* dropped with the connection */
    if (status < 0) {
        conn_close(c);
        return;
    }
    buf_reset(&f->cur);
    if (f->next.len > 0) {
        struct buf empty = f->cur;

        f->cur = f->next;
        f->next = empty;
        fly(c);
    }
    notify_drained(c);
    conn_run(c);
}

/* Starts to write flight->cur. */
static void fly_from(struct conn *c, size_t offset)
{
    struct flight *f = c->flight;
    uv_buf_t buf = uv_buf_init(f->cur.data + offset, (unsigned) (f->cur.len - offset));
    int r = uv_write(&f->req, &c->u.stream, &buf, 1, on_written);

    if (r != 0) {
        conn_close(c);
        return;
    }
    f->is_flying = true;
    conn_defer(c); /* somebody has to watch the reader from now on */
}

static void fly(struct conn *c)
{
    fly_from(c, 0);
}

/* What the kernel takes now; closes a broken connection and then claims that all was taken. */
static size_t try_send(struct conn *c, const uv_buf_t *bufs, unsigned count, size_t total)
{
    int r;

    c->sent += total;
    if (conn_is_sending(c))
        return 0;
    r = uv_try_write(&c->u.stream, bufs, count);
    if (r == UV_EAGAIN)
        return 0;
    if (r < 0) {
        conn_close(c);
        return total;
    }
    return (size_t) r;
}

static void append_from(struct buf *dst, const uv_buf_t *bufs, unsigned count, size_t skip)
{
    for (unsigned i = 0; i < count; i++) {
        size_t cut = MIN_OF(skip, bufs[i].len);

        buf_append(dst, bufs[i].base + cut, bufs[i].len - cut);
        skip -= cut;
    }
}

void conn_send(struct conn *c, const uv_buf_t *bufs, unsigned count)
{
    if (c->session == NULL)
        conn_send_raw(c, bufs, count);
    else if (c->phase == CONN_OPEN)
        secure_send(c, bufs, count);
}

void conn_send_raw(struct conn *c, const uv_buf_t *bufs, unsigned count)
{
    size_t total = 0;
    size_t taken;
    struct flight *f;
    struct buf *rest;

    if (c->phase != CONN_OPEN)
        return;
    for (unsigned i = 0; i < count; i++)
        total += bufs[i].len;
    taken = try_send(c, bufs, count, total);
    if (taken == total)
        return;
    f = need_flight(c);
    rest = f->is_flying ? &f->next : &f->cur;
    append_from(rest, bufs, count, taken);
    held_count(c);
    if (buf_failed(rest))
        conn_close(c); /* a hole in the stream would be worse */
    else if (!f->is_flying)
        fly(c);
}

void conn_send_buf(struct conn *c, struct buf *out)
{
    uv_buf_t buf = uv_buf_init(out->data, (unsigned) out->len);
    size_t taken;
    struct flight *f;

    if (c->phase != CONN_OPEN)
        return;
    if (conn_is_sending(c) || c->session != NULL) {
        conn_send(c, &buf, 1);
        return;
    }
    taken = try_send(c, &buf, 1, out->len);
    if (taken == out->len)
        return;
    f = need_flight(c);
    buf_fini(&f->cur);
    f->cur = *out;
    buf_init(out, REPLY_MAX);
    held_count(c);
    fly_from(c, taken);
}
