/* guard_count.h - how many sockets a box has, and whether it may have one more. Never too few: calls that were
 * let through and have not ended, and connections whose other end is still to come, count as sockets. */
#ifndef HELPER_GUARD_COUNT_H
#define HELPER_GUARD_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GUARD_UNDER_WAY_MAX 8192 /* more threads in such calls at once are refused */

enum guard_call {
    GUARD_SOCKET,
    GUARD_CONNECT, /* its other end becomes a socket when somebody listens in the box */
    GUARD_UNIX,    /* a Unix socket: not limited, but it must not come while others are counted */
    GUARD_UNIX_PAIR,
};

struct guard_count {
    int used; /* /proc/net/sockstat, protocols, snmp, tcp and tcp6 of the box's network namespace */
    int protocols;
    int opens;
    int connections[2];
    uint64_t limit;
    uint64_t room;      /* so many calls cannot go beyond `limit`: each makes one socket at most */
    uint64_t half_open; /* connections without their other end, when the kernel had counted */
    uint64_t active;    /* so many connections, */
    uint64_t passive;   /* and so many other ends */
    uint64_t sockets;   /* that the calls under way can make */
    size_t count;
    struct guard_under_way {
        int thread;
        unsigned sockets;
    } under_way[GUARD_UNDER_WAY_MAX];
};

/* In the box's network namespace. `limit` 0: nothing is counted. */
bool guard_count_open(struct guard_count *c, uint64_t limit);
/* `thread` asks for a call: what it asked for before has ended. False: there would be too many. */
bool guard_count_let(struct guard_count *c, int thread, enum guard_call call);
/* The call that was let through last does not take place. */
void guard_count_undo(struct guard_count *c, int thread);
/* The guard itself makes one, at once. */
bool guard_count_add(struct guard_count *c);

#endif
