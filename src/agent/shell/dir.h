/* dir.h - the directory that a caller names for a shell. */
#ifndef AGENT_SHELL_DIR_H
#define AGENT_SHELL_DIR_H

#include "agent/core/agent.h"

enum { SHELL_DIR_MAX = 1024 };

/* Writes an absolute directory that the user can enter to dst (of SHELL_DIR_MAX): without links, or
 * as it was named. SP_INVALID_FIELD if there is no such directory. */
MUST_CHECK int shell_dir_pick(const struct agent *a, const char *dir, bool keep_links, char *dst,
                              struct err *err);

#endif
