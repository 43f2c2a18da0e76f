/* relay.h - the way into a box whose runtime hands no descriptors inside: the agent listens on a Unix
 * socket in a directory of the box's, and a small process outside passes bytes between that and the
 * box's listening socket. It also holds the box's lock, for as long as the box's init lives. */
#ifndef HANDS_RELAY_H
#define HANDS_RELAY_H

#include "hands/box_dir.h"
#include "hands/plan_read.h"

/* A file system of a few files at the place of the agent's socket, for the box's root only. */
MUST_CHECK int relay_make_dir(const struct plan *p, int root, struct err *err);

/* Opens it, before anybody is in the box. */
MUST_CHECK int relay_open_dir(const struct plan *p, int *ret_fd, struct err *err);

/* Starts the process, which outlives us: `sandpool-oci relay <box dir> <id> <name>`. The box runs,
 * and *pid_of_box is its init; from then on, here and in the file "pid", it is the relay. */
MUST_CHECK int relay_start(const struct plan *p, const struct box_dir *d, int dir, int *pid_of_box,
                           struct err *err);

/* Is that process: descriptors 3 to 7 are the listening socket, the lock, the directory, the pidfd of
 * the box's init, and where it says that it works. Becomes user `id` of the host, without any
 * privilege, and ends with the box. Returns when it cannot begin. */
void relay_run(const char *id, const char *name);

#endif
