/* box_transfer.c - bytes between a descriptor or memory of ours and a box, in pieces: what the slower side has not taken is
 * not read from the other. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/box_internal.h"

enum {
    STILL_MS = 120 * 1000
}; /* without a byte in either direction: the box or the daemon hangs */

int box_wait_step(struct sp_box *b, uint64_t still_ms, struct sp_failure *f)
{
    struct pollfd p = {.fd = sp_box_fd(b), .events = sp_box_events(b)};
    int n = poll(&p, 1, (int) still_ms);

    if (n > 0)
        return sp_box_step(b, f);
    if (n < 0 && errno == EINTR)
        return SP_OK;
    sp_box_close(b);
    return n == 0 ? client_fail(f, SP_TIMEOUT, "nothing came from the box for %llu seconds",
                                (unsigned long long) (still_ms / 1000))
                  : client_fail(f, SP_IO, "poll failed: %s", strerror(errno));
}

int box_finish(struct sp_box *b, struct sp_failure *f)
{
    int r = SP_OK;

    while (r == SP_OK && sp_box_is_busy(b))
        r = box_wait_step(b, STILL_MS, f);
    return r;
}

/* --- sending --- */

struct piece {
    const char *data;
    char *room; /* for what a descriptor gives; NULL: `data` is the caller's */
    size_t len;
    size_t at;
    bool has_ended;
};

/* False, with errno, when it does not become ready: a descriptor that does not block is waited for. */
static bool wait_here(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};

    if (errno == EINTR || (errno == EAGAIN && poll(&p, 1, STILL_MS) != 0))
        return true;
    if (errno == EAGAIN)
        errno = ETIMEDOUT;
    return false;
}

static int read_piece(const struct sp_transfer *t, struct piece *p, struct sp_failure *f)
{
    ssize_t n = 0;

    do {
        if (p->room != NULL)
            n = read(t->fd, p->room, BOX_PIECE);
    } while (n < 0 && wait_here(t->fd, POLLIN));
    if (n < 0)
        return client_fail(f, SP_IO, "reading failed: %s", strerror(errno));
    p->at = 0;
    p->len = (size_t) n;
    p->has_ended = n == 0;
    return SP_OK;
}

/* Gives the box what it takes now, and reads on when all of it was taken. */
static int feed(struct sp_box *b, const struct sp_transfer *t, struct piece *p,
                struct sp_failure *f)
{
    size_t taken;
    int r;

    if (p->at == p->len) {
        r = read_piece(t, p, f);
        if (r != SP_OK)
            return r;
        if (p->has_ended)
            sp_box_end_body(b);
    }
    taken = p->at < p->len ? sp_box_write(b, p->data + p->at, p->len - p->at) : 0;
    p->at += taken;
    if (taken > 0 && t->on_progress != NULL)
        t->on_progress(t->ctx, taken);
    return SP_OK;
}

int sp_box_send(struct sp_box *b, const char *target, const struct sp_transfer *t,
                struct sp_failure *failure)
{
    struct sp_box_call call = {.method = t->method != NULL ? t->method : "PUT",
                               .target = target,
                               .is_streamed = true,
                               .length = -1};
    struct piece p = {.data = t->data, .len = t->len};
    int r;

    if (t->data == NULL) {
        p.room = malloc(BOX_PIECE);
        if (p.room == NULL)
            return client_fail(failure, SP_NO_MEMORY, "no memory for a piece of the file");
        p.data = p.room;
        p.len = 0;
    }
    r = sp_box_begin(b, &call, failure);
    while (r == SP_OK && sp_box_is_busy(b)) {
        if (!p.has_ended && (sp_box_events(b) & POLLOUT) == 0)
            r = feed(b, t, &p, failure);
        if (r == SP_OK)
            r = box_wait_step(b, STILL_MS, failure);
    }
    if (r != SP_OK && sp_box_is_busy(b))
        sp_box_close(b); /* our own side failed: the box must not take the part for the whole */
    free(p.room);
    return r;
}

/* --- receiving --- */

struct receiver {
    const struct sp_transfer *transfer;
    int error; /* errno of our own side; 0: none */
};

static bool on_data(void *ctx, const char *data, size_t len)
{
    struct receiver *v = ctx;

    while (len > 0) {
        ssize_t n = write(v->transfer->fd, data, len);

        if (n < 0 && wait_here(v->transfer->fd, POLLOUT))
            continue;
        if (n < 0) {
            v->error = errno;
            return false;
        }
        data += n;
        len -= (size_t) n;
        if (v->transfer->on_progress != NULL)
            v->transfer->on_progress(v->transfer->ctx, (size_t) n);
    }
    return true;
}

int sp_box_receive(struct sp_box *b, const char *target, const struct sp_transfer *t,
                   struct sp_failure *failure)
{
    struct receiver v = {.transfer = t};
    struct sp_box_call call = {.method = "GET", .target = target, .on_data = on_data, .ctx = &v};
    int r = sp_box_begin(b, &call, failure);

    if (r == SP_OK)
        r = box_finish(b, failure);
    if (r == SP_OK && v.error != 0)
        r = client_fail(failure, SP_IO, "writing failed: %s", strerror(v.error));
    return r;
}
