/* relay.h - the way into a box from the host's network. A box's listening socket, and so every connection
 * that comes from it, lies in the network namespace of the host and could be connected to anything there:
 * so none of them is ever in a box, nor in a process that does anything else. A relay has them: a
 * process of its own, outside the box, in an empty network namespace, without privileges, with the few
 * system calls of relay_filter.c. For each connection it makes a pair of Unix sockets, keeps one and sends
 * the other through a socket, the channel, whose other end is the box's. It ends when nobody has that
 * other end any more, and holds the box's lock until then.
 *
 * Where a runtime hands no descriptor into the box the other end is that of a connector (connector.h). */
#ifndef HELPER_RELAY_H
#define HELPER_RELAY_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct relay_process {
    pid_t pid;
    int report; /* where it says that it works; -1: it has */
};

struct relay_place {
    const char *dir; /* of the box */
    uint32_t id;     /* the user of the host that it becomes; 0: it stays who we are */
    bool want_local; /* listens at HELPER_LOCAL_SOCKET, too */
};

/* Starts `sandpool-helper relay <box dir> <id>`, which outlives us. When `lock` is the reading end of a FIFO, it also ends when somebody has opened that
 * for writing. */
MUST_CHECK int relay_begin(const struct relay_place *at, int listen, int lock,
                           struct relay_process *ret, struct err *err);
/* Waits until it serves; gives the box's end of the channel, which is open in nobody else. Failure
 * leaves no process. */
MUST_CHECK int relay_await(struct relay_process *r, int *ret_channel, struct err *err);

/* Is that process. Returns when it cannot begin. */
void relay_run(const char *id);

#endif
