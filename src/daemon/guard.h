/* guard.h - a thread that waits for the signals that end the process, and ends it when the loop does
 * not: a file operation on a disk that hangs can stop the loop, and with it everything that has a
 * deadline. */
#ifndef DAEMON_GUARD_H
#define DAEMON_GUARD_H

#include "base/err.h"

/* After signals_init(), for SIGTERM and SIGINT, whose handlers it leaves in place. Once per process. */
MUST_CHECK int guard_start(struct err *err);
/* From the loop, from the signal on, twice a second: it lives. When none comes for GUARD_WAIT_MS the
 * process ends with status 1. */
void guard_beat(void);

enum { GUARD_WAIT_MS = 10000, GUARD_LOOK_MS = 500 };

#endif
