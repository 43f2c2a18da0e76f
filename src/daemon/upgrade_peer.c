/* upgrade_peer.c - a poll handle and its descriptor, closed together. */
#include "daemon/upgrade_peer.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "daemon/internal.h"

struct upgrade_peer *upgrade_watch(struct upgrade *h, int fd, uv_poll_cb on_readable)
{
    struct upgrade_peer *p = xcalloc(1, sizeof(*p));
    int r = uv_poll_init(&h->daemon->loop.uv, &p->poll, fd);

    if (r != 0) { /* the descriptor cannot be watched */
        (void) close(fd);
        free(p);
        return NULL;
    }
    p->upgrade = h;
    p->fd = fd;
    r = uv_poll_start(&p->poll, UV_READABLE, on_readable);
    assert(r == 0); /* only links the watcher */
    return p;
}

void upgrade_unwatch(struct upgrade_peer **p)
{
    if (*p == NULL)
        return;
    (void) uv_poll_stop(&(*p)->poll); /* cannot fail on an initialised handle */
    (void) close((*p)->fd);           /* nothing to do about it here */
    loop_close_handle((uv_handle_t *) &(*p)->poll, free, *p);
    *p = NULL;
}
