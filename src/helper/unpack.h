/* unpack.h - a snapshot comes to this machine: a file of base/bundle.h becomes a disk. Nobody vouches for what is in the file. */
#ifndef HELPER_UNPACK_H
#define HELPER_UNPACK_H

#include "base/buf.h"
#include "helper/plan_read.h"

/* Reads the file from the descriptor `fd`, to its end. SP_PROTOCOL: it is not good. SP_SPEC_CONFLICT: it is for another base.
 * SP_BODY_TOO_LARGE: it is larger than may be, or than it says. */
MUST_CHECK int unpack_snapshot(const struct plan *p, int fd, struct buf *answer, struct err *err);

#endif
