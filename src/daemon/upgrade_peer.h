/* upgrade_peer.h - descriptors that a take-over watches. */
#ifndef DAEMON_UPGRADE_PEER_H
#define DAEMON_UPGRADE_PEER_H

#include <uv.h>

#include "daemon/upgrade.h"

/* A descriptor that is watched: the listening one, or the successor's. */
struct upgrade_peer {
    uv_poll_t poll;
    struct upgrade *upgrade;
    int fd;
};

/* Takes `fd` over; NULL when it cannot be watched. */
struct upgrade_peer *upgrade_watch(struct upgrade *h, int fd, uv_poll_cb on_readable);
/* Closes it; NULL is fine. */
void upgrade_unwatch(struct upgrade_peer **p);

#endif
