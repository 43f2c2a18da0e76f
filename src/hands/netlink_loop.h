/* netlink_loop.h - the process that makes a box's netlink sockets. */
#ifndef HANDS_NETLINK_LOOP_H
#define HANDS_NETLINK_LOOP_H

#include <stdint.h>

#define NETLINK_PARENT_FD 3 /* gets one byte when the process works */
/* Of one box at a time. Each can hold twice net.core.rmem_max of unread data. */
#define NETLINK_SOCKETS_MAX 32

/* `questions`: the listener of the box's system call filter. `network`: its network namespace. Returns
 * when the last process of the box is gone, or when it cannot begin. */
void netlink_loop_run(int questions, int network, uint32_t id);

#endif
