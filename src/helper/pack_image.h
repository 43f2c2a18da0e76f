/* pack_image.h - a snapshot leaves this machine as a container image, with all that its boxes are built on. */
#ifndef HELPER_PACK_IMAGE_H
#define HELPER_PACK_IMAGE_H

#include "base/buf.h"
#include "helper/plan_read.h"

/* Writes the image (image_out.h) to the descriptor `fd`. */
MUST_CHECK int pack_image(const struct plan *p, int fd, struct buf *answer, struct err *err);

#endif
