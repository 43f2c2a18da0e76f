/* layer_check.h - a layer of an image that a stranger has made. An engine unpacks more than archives: what is compressed, and
 * files with holes, which it fills. A few KB would be as many GB on its disk; so neither is let through. */
#ifndef HELPER_LAYER_CHECK_H
#define HELPER_LAYER_CHECK_H

#include <sys/types.h>

#include "base/err.h"

/* Reads to the end of the archive, or to what is wrong with it. SP_OK: an engine finds the same in it, and no more than it is
 * long. SP_PROTOCOL says what it is instead. `read` is that of a tar_reader. */
MUST_CHECK int layer_check(ssize_t (*read)(void *ctx, void *dst, size_t cap), void *ctx,
                           struct err *err);

#endif
