/* pack.h - a snapshot leaves this machine: its layers, merged, as one file of base/bundle.h. */
#ifndef HELPER_PACK_H
#define HELPER_PACK_H

#include "base/buf.h"
#include "helper/plan_read.h"

/* Writes the file to the descriptor `fd`. */
MUST_CHECK int pack_snapshot(const struct plan *p, int fd, struct buf *answer, struct err *err);

#endif
