/* plain_walk.h - for plain.c, where the kernel has no openat2(2). */
#ifndef AGENT_CORE_PLAIN_WALK_H
#define AGENT_CORE_PLAIN_WALK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"

/* As openat(2), but a link in a directory for which `is_process` is true is not followed: EPERM. */
MUST_CHECK int plain_walk_open(int dir, const char *path, int flags, mode_t mode,
                               bool (*is_process)(int fd));

#endif
