/* start.h - starts the runtime in a prepared namespace and waits until the agent is ready. */
#ifndef HELPER_START_H
#define HELPER_START_H

#include "helper/box_dir.h"
#include "helper/egress.h"
#include "helper/plan_read.h"
#include "helper/proc.h"
#include "helper/relay.h"

#define START_LISTEN_FD 3  /* of ours */
#define START_CHANNEL_FD 3 /* of the agent */

/* The relay has begun, and the network is set up. `tail` gets the end of what the runtime and the agent wrote. On failure something
 * may run. */
MUST_CHECK int start_box(const struct plan *p, const struct box_dir *d, struct relay_process *relay,
                         struct egress *egress, int *ret_pid, struct proc_tail *tail,
                         struct err *err);
/* True after SIGTERM, which also comes when the parent dies. */
bool start_is_stopped(void);
/* The runtime did not fail: somebody has killed it. */
bool start_was_killed(void);
/* From here on SIGTERM is only noted, and comes when the parent dies. 0: the same parent again,
 * after something that made the kernel forget. */
MUST_CHECK int start_watch_parent(pid_t parent, struct err *err);

#endif
