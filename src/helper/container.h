/* container.h - containers of Docker or Podman. */
#ifndef HELPER_CONTAINER_H
#define HELPER_CONTAINER_H

#include "helper/plan_read.h"

/* p->pid as a descriptor, if it is the first process of p->container and runs p->program. Fills the
 * plan's ids from it. ERR_BOX_DEAD: it is not; SP_UNSUPPORTED: it runs something else. */
MUST_CHECK int container_open(struct plan *p, int *ret_pid_fd, struct err *err);

#endif
