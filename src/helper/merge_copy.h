/* merge_copy.h - the functions of a struct merge_sink that makes all of it anew; its ctx is a struct tree_writer. */
#ifndef HELPER_MERGE_COPY_H
#define HELPER_MERGE_COPY_H

#include "helper/merge.h"

MUST_CHECK int merge_put(void *ctx, const struct merge_item *item, struct err *err);
MUST_CHECK int merge_leave(void *ctx, const struct merge_item *item, struct err *err);

#endif
