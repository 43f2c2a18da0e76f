/* reclaim.h - memory of a box that stands still is given back to the machine. */
#ifndef HELPER_RECLAIM_H
#define HELPER_RECLAIM_H

#include "helper/plan_read.h"

/* Ends when nothing more can be had, when the box does not stand still any more, or after a few seconds. SP_UNSUPPORTED: this
 * kernel has no way to ask for it. */
MUST_CHECK int reclaim_memory(const struct plan *p, struct buf *answer, struct err *err);

#endif
