/* snapshots.h - the calls of the vtable that are about snapshots, and what their files share. */
#ifndef DOCKER_SNAPSHOTS_H
#define DOCKER_SNAPSHOTS_H

#include "backends/docker/internal.h"

void docker_capture(struct backend *b, struct backend_capture *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *));
void docker_list_snapshots(struct backend *b, struct backend_snapshots *r, uint64_t deadline_ns,
                           void (*on_done)(struct op *));
void docker_drop(struct backend *b, struct backend_drop *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
/* moves.c */
void docker_export(struct backend *b, struct backend_export *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
void docker_import(struct backend *b, struct backend_import *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));

/* capture.c: what the label of its image says; false: that is too long. `base`: "" when it is not known. */
MUST_CHECK bool docker_snapshot_code(const struct snapshot *s, const char *base, struct buf *ret);

#endif
