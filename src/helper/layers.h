/* layers.h - the disks of a snapshot, mounted in a namespace of our own, where nobody runs anything: to be read file by file. */
#ifndef HELPER_LAYERS_H
#define HELPER_LAYERS_H

#include "helper/attrs.h"
#include "helper/merge.h"
#include "helper/plan_read.h"

/* Enters a mount namespace of its own, covers the stage and mounts p->layers there. */
MUST_CHECK int layers_open(const struct plan *p, struct merge_layer ret[PLAN_LAYERS_MAX],
                           size_t *ret_count, struct err *err);
void layers_close(struct merge_layer *layers, size_t count);
/* Mounts a disk from disk_make() at `target` and makes the directory of its files, which *ret_top is. */
MUST_CHECK int layers_mount_new(const char *target, int disk, int *ret_top, struct err *err);
/* The end of it: an error when not all that was written there has reached the disk. Closes *top. */
MUST_CHECK int layers_unmount_new(const char *target, int *top, struct err *err);

/* What all layers use together: at most what one that has all of it needs. */
MUST_CHECK int layers_measure(const struct merge_layer *layers, size_t count, uint64_t *ret_bytes,
                              uint64_t *ret_inodes, struct err *err);
/* How large a disk for so much is to be. */
uint64_t layers_disk_size(uint64_t bytes, uint64_t inodes);
/* So many bytes more where p->to is to be, and p->reserve stays free. */
MUST_CHECK int layers_check_space(const struct plan *p, uint64_t bytes, struct err *err);

#endif
