/* rootfs.h - the file system of a box, in a mount namespace of our own: it is seen by the runtime
 * that we start and by nobody else, and goes when the last of us has gone. */
#ifndef HELPER_ROOTFS_H
#define HELPER_ROOTFS_H

#include "helper/box_dir.h"
#include "helper/plan_read.h"

/* Leaves the host's mount namespace for good. The root is <plan->stage>/rootfs afterwards.
 * *ret_unmapped: how many of plan->mounts show their owners as strangers. */
MUST_CHECK int rootfs_make(const struct plan *p, const struct box_dir *d, unsigned *ret_unmapped,
                           struct err *err);

#endif
