/* relay_end.c - bytes from one end of a connection to the other. */
#include "helper/relay_end.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "helper/relay_filter.h"

#define CHUNK \
    (68 * 1024) /* 64 KB, as programs and pipes have them, and what a chunk of HTTP adds */
#define TURNS 4 /* reads of one end before others have their turn */

static char chunk[CHUNK];

void relay_end_shut(struct relay_end *e)
{
    e->is_shut = true;
    e->is_full = false;
    e->other->is_read = true;
}

void relay_end_finish(struct relay_end *to)
{
    if (!to->is_shut)
        (void) shutdown(to->fd, SHUT_WR); /* one that is gone is noticed when it is read */
    to->is_shut = true;
}

/* How much it took; 0 also when it will never take any. */
static size_t give(struct relay_end *to, const char *data, size_t len)
{
    ssize_t n = send(to->fd, data, len, RELAY_SEND_FLAGS);

    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ENOMEM)
        relay_end_shut(to);
    to->is_full = !to->is_shut && (n < 0 || (size_t) n < len);
    to->has_taken = to->has_taken || n > 0;
    return n < 0 ? 0 : (size_t) n;
}

/* TCP can drop what was looked at without copying it once more. */
static ssize_t drop(const struct relay_end *from, size_t len)
{
    return recv(from->fd, chunk, len, MSG_DONTWAIT | (from->is_tcp ? MSG_TRUNC : 0));
}

bool relay_end_pump(struct relay_end *from)
{
    struct relay_end *to = from->other;

    for (int i = 0; i < TURNS && !from->is_read && !to->is_full; i++) {
        ssize_t n = recv(from->fd, chunk, sizeof(chunk), MSG_DONTWAIT | MSG_PEEK);
        size_t taken;

        if (n < 0 && from->is_box && errno == ECONNRESET)
            n = 0; /* it closed and left something unread: all it said was read before this */
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0) {
            from->is_read = true;
            relay_end_finish(to);
            return true;
        }
        taken = give(to, chunk, (size_t) n);
        if (taken > 0 && drop(from, taken) != (ssize_t) taken)
            return false;
        if (n < CHUNK)
            break; /* most likely all there was */
    }
    return true;
}

bool relay_end_drain(const struct relay_end *e)
{
    ssize_t n = 1;

    for (int i = 0; i < TURNS && n > 0; i++)
        n = drop(e, sizeof(chunk));
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

uint32_t relay_end_wanted(const struct relay_end *e)
{
    bool want_in = !e->is_read && !e->other->is_full;

    return (want_in ? (uint32_t) EPOLLIN : 0) | (e->is_full ? (uint32_t) EPOLLOUT : 0);
}
