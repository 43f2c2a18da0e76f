/* network.h - the process that serves the network of a box with `network: nat`, beside the box. */
#ifndef HELPER_NETWORK_H
#define HELPER_NETWORK_H

#include "helper/box_dir.h"
#include "helper/plan_read.h"
#include "helper/proc.h"

/* Starts it and waits until the box's network can be used. Its number is in "net.pid"; on failure it may run. `tail`
 * gets what it wrote. */
MUST_CHECK int network_start(const struct plan *p, const struct box_dir *d, int box_pid,
                             struct proc_tail *tail, struct err *err);

#endif
