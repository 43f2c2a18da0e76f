/* capture.h - the disk of a running box, copied while the box stands still. */
#ifndef HELPER_CAPTURE_H
#define HELPER_CAPTURE_H

#include "base/buf.h"
#include "helper/plan_read.h"

/* Makes p->to, which must not exist, as a copy of <p->dir>/disk. Leaves the host's mount namespace for good. The box goes on
 * when this returns, however it ends. */
MUST_CHECK int capture_disk(const struct plan *p, struct buf *answer, struct err *err);

#endif
