/* handover_peer.h - descriptors that a hand-over watches. */
#ifndef DAEMON_HANDOVER_PEER_H
#define DAEMON_HANDOVER_PEER_H

#include <uv.h>

#include "daemon/handover.h"

/* A descriptor that is watched: the listening one, or the successor's. */
struct handover_peer {
    uv_poll_t poll;
    struct handover *handover;
    int fd;
};

/* Takes `fd` over; NULL when it cannot be watched. */
struct handover_peer *handover_watch(struct handover *h, int fd, uv_poll_cb on_readable);
/* Closes it; NULL is fine. */
void handover_unwatch(struct handover_peer **p);

#endif
