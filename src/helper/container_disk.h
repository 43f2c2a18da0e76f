/* container_disk.h - a limit for what a container of Docker or Podman writes to some of its directories. */
#ifndef HELPER_CONTAINER_DISK_H
#define HELPER_CONTAINER_DISK_H

#include "base/buf.h"
#include "helper/plan_read.h"

/* p->places of the container together take at most p->disk bytes from now on. Processes that are in one of them already stay in
 * what is below: it is for a container that has just been started. After a failure the container is to be removed.
 * SP_UNSUPPORTED: this machine cannot. */
MUST_CHECK int container_disk(struct plan *p, struct buf *answer, struct err *err);
/* Mounts the disk on this device, detached; a second time it is the same file system. */
MUST_CHECK int container_disk_mount(const char *device, int *ret_fd, struct err *err);

#endif
