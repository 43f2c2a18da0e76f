/* netlink.h - a box asks for each netlink socket, and gets a bounded number of them.
 *
 * What the kernel has answered and nobody has read yet stays in the memory of such a socket and is
 * charged to nobody: 3,000 sockets took 1.3 GB of a machine while their box was charged 9 MB. But
 * getifaddrs() needs one, and so do node, `ip` and everything that lists network interfaces. So the
 * box's system call filter stops socket(AF_NETLINK) and asks a small process outside, which counts.
 *
 * The process is started early (netlink_start), because it must keep none of the box's mounts. */
#ifndef HANDS_NETLINK_H
#define HANDS_NETLINK_H

#include "hands/box_dir.h"
#include "hands/plan_read.h"

struct netlink {
    int process; /* a socket to the process */
    int listen;  /* where the runtime hands over the filter's questions */
};

#define NETLINK_NONE ((struct netlink){.process = -1, .listen = -1})

/* Starts the process, which outlives us: `sandpool-oci netlink <box dir> <id>`. Its number is kept in
 * the file "netlink.pid". Without "netlink" in the plan these three do nothing. */
MUST_CHECK int netlink_start(const struct plan *p, const struct box_dir *d, struct netlink *n,
                             struct err *err);
/* Before the runtime starts: the socket that the spec names. */
MUST_CHECK int netlink_listen(const struct plan *p, struct netlink *n, struct err *err);
/* When the box runs: the process takes over the box's questions, in the box's network namespace. */
MUST_CHECK int netlink_serve(const struct plan *p, const struct box_dir *d, struct netlink *n,
                             struct err *err);
void netlink_close(struct netlink *n);

/* Is that process: descriptor 3 is the socket to `run`. Becomes user `id` of the host without any
 * privilege, and ends with the last process of the box. Returns when it cannot begin. */
void netlink_run(const char *id);

#endif
