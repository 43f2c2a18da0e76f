/* plain.h - opens a path that another user may have named or changed.
 *
 * The kernel's magic links (/proc/<pid>/fd, exe, cwd, root, ...) lead to what a process has open,
 * not to a name, and the other files below /proc/<pid> show the inside of a process. Neither is a
 * file, and the process that opens them would be the agent or one of its helpers: both are refused
 * with EPERM. Nothing blocks: a FIFO or a terminal is opened at once or not at all. */
#ifndef AGENT_CORE_PLAIN_H
#define AGENT_CORE_PLAIN_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/compiler.h"

/* As openat(2), closed on exec. -1 and errno. */
MUST_CHECK int plain_open(int dir, const char *path, int flags, mode_t mode);
/* The same for a regular file only. EISDIR for a directory; ENOTSUP for a device, a FIFO or a socket,
 * which is not even opened (unless it came there a moment ago). `ret` may be NULL. */
MUST_CHECK int plain_open_file(int dir, const char *path, int flags, mode_t mode, struct stat *ret);
/* The device with this number, which waits unless `flags` have O_NONBLOCK. ENODEV when something else has its name. */
MUST_CHECK int plain_open_device(const char *path, int flags, unsigned major_id, unsigned minor_id);
/* As stat(2). 0, or -1 and errno. */
MUST_CHECK int plain_stat(int dir, const char *path, struct stat *ret);

#endif
