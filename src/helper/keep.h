/* keep.h - what a durable box has written, when the box has ended. */
#ifndef HELPER_KEEP_H
#define HELPER_KEEP_H

#include "base/buf.h"
#include "helper/box_dir.h"
#include "helper/plan_read.h"

/* Makes p->to, which must not exist, a second name of <p->dir>/disk. Leaves the host's mount namespace for good. */
MUST_CHECK int keep_disk(const struct plan *p, struct buf *answer, struct err *err);

/* At the end of `run`: the files of a durable box, and the names that lead to them, are on the disk of the host. */
MUST_CHECK int keep_sync(const struct plan *p, const struct box_dir *d, struct err *err);

#endif
