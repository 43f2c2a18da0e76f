/* guard_loop.h - the process that decides about a box's sockets. */
#ifndef HELPER_GUARD_LOOP_H
#define HELPER_GUARD_LOOP_H

#include <stdint.h>

#define GUARD_PARENT_FD 3 /* gets one byte when the process works */
/* Netlink sockets of one box at a time: each can hold as much as its receive buffer, unread. */
#define GUARD_NETLINK_MAX 32

/* `questions`: the listener of the box's system call filter. `network`: its network namespace. `sockets`:
 * how many there may be, Unix sockets not counted; 0: nobody asks for others than netlink. Returns when
 * the last process of the box is gone, or when it cannot begin. */
void guard_loop_run(int questions, int network, uint32_t id, uint64_t sockets);

#endif
