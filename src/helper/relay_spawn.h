/* relay_spawn.h - what a relay and a connector share: how they are started, and what they give up. */
#ifndef HELPER_RELAY_SPAWN_H
#define HELPER_RELAY_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/err.h"

enum { RELAY_FDS_MAX = 5 };

/* In a child: this program again, with `argv` and only these descriptors, from 3 on; the last one is
 * where a failure is reported. */
NORETURN void relay_exec(const char *const *argv, const int *fds, size_t count);
/* What it said before it closed its end: "." when all is well. */
MUST_CHECK int relay_read_report(int fd, const char *who, struct err *err);

/* No user but `id` (0: as it is), no group, no capability, no new ones, no files, no children; nobody
 * looks into it. */
bool relay_drop_privileges(const char *id);
/* The same for who has become a user of a namespace already, and keeps the right to change the networks of that one. */
bool relay_keep_network(void);

#endif
