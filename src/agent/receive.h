/* receive.h - a descriptor from another process. */
#ifndef AGENT_RECEIVE_H
#define AGENT_RECEIVE_H

#include "base/err.h"

/* Connects to the Unix socket at `path` and takes the one descriptor that is sent there. Waits for
 * it, a few seconds at most: only while the agent starts. */
MUST_CHECK int receive_fd(const char *path, int *ret_fd, struct err *err);

#endif
