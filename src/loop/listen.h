/* listen.h - a TCP socket of this machine alone, for a box that is reached whatever network it has. */
#ifndef LOOP_LISTEN_H
#define LOOP_LISTEN_H

#include "base/err.h"

/* Listens on 127.0.0.1, at a port that the kernel chooses; does not block. */
MUST_CHECK int listen_loopback(int *ret_fd, unsigned *ret_port, struct err *err);

#endif
