/* repack.h - an image that an engine saves leaves this machine as ours, and one that comes is made ready for an engine. */
#ifndef HELPER_REPACK_H
#define HELPER_REPACK_H

#include "base/buf.h"
#include "helper/plan_read.h"

/* `fd` is a Unix socket: first the descriptor comes that the result is written to, then the engine's archive. */
MUST_CHECK int repack_image(const struct plan *p, int fd, struct buf *answer, struct err *err);
/* load_image.c. Likewise: first the descriptor comes that the file is read from; the archive for the engine goes back. */
MUST_CHECK int load_image(const struct plan *p, int fd, struct buf *answer, struct err *err);

#endif
