/* flatten.h - the layers of a snapshot become one. */
#ifndef HELPER_FLATTEN_H
#define HELPER_FLATTEN_H

#include "base/buf.h"
#include "helper/plan_read.h"

/* The answer is that of `flatten`, see plan.h. */
MUST_CHECK int flatten_layers(const struct plan *p, struct buf *answer, struct err *err);

#endif
