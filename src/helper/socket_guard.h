/* socket_guard.h - a box asks for each socket of a network, and gets a bounded number of them.
 *
 * Some of the memory of a socket is charged to nobody: what a netlink socket has not read (3,000 of them
 * took 1.3 GB), the error queue of a UDP socket (8 MB for each), a TCP connection that is never accepted.
 * The kernel has no limit on the number of sockets. So the box's system call filter stops the calls that
 * make one, socket() and connect(), and asks a small process outside, the guard, which counts.
 *
 * The process is started early (guard_start), because it must keep none of the box's mounts. */
#ifndef HELPER_SOCKET_GUARD_H
#define HELPER_SOCKET_GUARD_H

#include "helper/box_dir.h"
#include "helper/plan_read.h"

struct guard {
    int process; /* a socket to the process */
    int listen;  /* where the runtime hands over the filter's questions */
    int pid;
};

#define GUARD_NONE ((struct guard){.process = -1, .listen = -1})

/* Starts the process, which outlives us: `sandpool-helper guard <box dir> <id> <sockets>`. Its number is
 * kept in the file "guard.pid". Without "guard" in the plan these three do nothing. */
MUST_CHECK int guard_start(const struct plan *p, const struct box_dir *d, struct guard *g,
                           struct err *err);
/* Before the runtime starts: the socket that the spec names. */
MUST_CHECK int guard_listen(const struct plan *p, struct guard *g, struct err *err);
/* When the box runs: the process takes over the box's questions, in the box's network namespace, and is
 * one of the box's processes from then on: what the box asks costs the box. */
MUST_CHECK int guard_serve(const struct plan *p, const struct box_dir *d, struct guard *g,
                           struct err *err);
void guard_close(struct guard *g);

/* Is that process: descriptor 3 is the socket to `run`. Becomes user `id` of the host without any
 * privilege, and ends with the last process of the box. Returns when it cannot begin. */
void guard_run(const char *id, const char *sockets);

#endif
