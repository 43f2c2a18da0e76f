/* connector.h - the other end of a relay's channel for a box whose runtime hands no descriptors inside: the
 * agent listens on a Unix socket in a directory of the box's, and a small process outside connects to it
 * for each connection that the relay sends, and passes the bytes. It has no descriptor of the host's
 * network and is in the relay's, which is empty. Relay and connector end with each other, and both with
 * the box's init; each holds the box's lock until then. */
#ifndef HELPER_CONNECTOR_H
#define HELPER_CONNECTOR_H

#include "helper/box_dir.h"
#include "helper/plan_read.h"
#include "helper/relay.h"

/* A file system of a few files at the place of the agent's socket, for the box's root only. */
MUST_CHECK int connector_make_dir(const struct plan *p, int root, struct err *err);

/* Opens it, before anybody is in the box. */
MUST_CHECK int connector_open_dir(const struct plan *p, int *ret_fd, struct err *err);

/* The agent listens there: from now on nothing in it changes, so the box's root cannot put a socket of its
 * own in its place and be sent the token of the box. */
MUST_CHECK int connector_close_dir(const struct plan *p, int dir, struct err *err);

/* Starts the process, which outlives us: `sandpool-helper connect <box dir> <id> <name>`. The box runs,
 * and *pid_of_box is its init; from then on, here and in the file "pid", it is the relay: whoever
 * watches the box watches that. */
MUST_CHECK int connector_start(const struct plan *p, const struct box_dir *d,
                               const struct relay_process *relay, int channel, int dir,
                               int *pid_of_box, struct err *err);

/* Is that process. Returns when it cannot begin. */
void connector_run(const char *id, const char *name);

#endif
