/* single.h - one daemon per state directory. The lock is held by an open descriptor, so the kernel
 * gives it back however the process ends. */
#ifndef DAEMON_SINGLE_H
#define DAEMON_SINGLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Makes the directory (mode 0700) when it is missing, and takes <state_dir>/lock. When another
 * daemon holds it: SP_LOCKED with that daemon's pid in the sentence, or, with want_wait, blocks
 * until it is free. The descriptor stays open for the life of the process. */
MUST_CHECK int single_lock(const char *state_dir, bool want_wait, int *ret_fd, struct err *err);

/* Raises the limit of open files as far as it goes; returns what it is now. */
uint64_t single_raise_file_limit(void);

#endif
