/* orphan.h - starts a program that is nobody's child of ours: whoever is above us (the service manager, process 1)
 * becomes its parent. */
#ifndef DAEMON_ORPHAN_H
#define DAEMON_ORPHAN_H

#include <sys/types.h>

#include "base/compiler.h"

/* 0, or an errno. *ret_pid_fd is the caller's to close; it is readable when the program has ended. */
MUST_CHECK int orphan_start(const char *program, char *const argv[], pid_t *ret_pid,
                            int *ret_pid_fd);

#endif
