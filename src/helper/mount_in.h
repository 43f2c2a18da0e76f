/* mount_in.h - attaches directories of the host to a box that runs. */
#ifndef HELPER_MOUNT_IN_H
#define HELPER_MOUNT_IN_H

#include "base/buf.h"
#include "helper/plan_read.h"

/* All of p->mounts or none; the ids of a container of Docker are filled in. ERR_TAKEN: something else is mounted at one of the places. */
MUST_CHECK int mount_in(struct plan *p, struct buf *answer, struct err *err);

#endif
