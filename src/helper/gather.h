/* gather.h - the files of a container, put together in a directory of the engine's, from which it makes an image. */
#ifndef HELPER_GATHER_H
#define HELPER_GATHER_H

#include "base/buf.h"
#include "helper/plan_read.h"

/* The answer is that of `gather`, see plan.h. SP_UNSUPPORTED: not with these directories. */
MUST_CHECK int gather_files(struct plan *p, struct buf *answer, struct err *err);

#endif
