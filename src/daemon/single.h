/* single.h - one daemon per state directory. The lock is held by an open descriptor, so the kernel
 * gives it back however the process ends. */
#ifndef DAEMON_SINGLE_H
#define DAEMON_SINGLE_H

#include <stdint.h>

#include "base/err.h"

enum single_wait {
    SINGLE_WAIT_NOT,
    SINGLE_WAIT_SOON, /* a few seconds, for a daemon that is about to end */
    SINGLE_WAIT_LONG, /* until it is free, however long that takes */
    SINGLE_WAIT_COUNT
};

/* Makes the directory (mode 0700) when it is missing, and takes <state_dir>/lock, waiting for it as
 * `wait` says. When another daemon holds it: SP_LOCKED with that daemon's pid in the sentence. The descriptor
 * stays open for the life of the process. It may be given to another process, which then has the lock
 * too. */
MUST_CHECK int single_lock(const char *state_dir, enum single_wait wait, int *ret_fd,
                           struct err *err);
/* Writes our pid into the lock. */
void single_sign(int fd);

/* Raises the limit of open files as far as it goes; returns what it is now. */
uint64_t single_raise_file_limit(void);

#endif
