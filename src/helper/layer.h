/* layer.h - a snapshot as a layer of a box's root. */
#ifndef HELPER_LAYER_H
#define HELPER_LAYER_H

#include "helper/plan_read.h"

/* Mounts the snapshot below `stage`, the plan's, read-only and with its owners as the box's. *ret_fd: its files, for an overlay.
 * `number` makes its place in the stage its own. */
MUST_CHECK int layer_mount(const struct plan *p, const struct plan_layer *l, int stage,
                           unsigned number, int *ret_fd, struct err *err);

/* The disk of a snapshot, read-only, at the directory `name` of the stage. */
MUST_CHECK int layer_mount_disk(const struct plan *p, const struct plan_layer *l, const char *name,
                                struct err *err);

#endif
