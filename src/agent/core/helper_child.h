/* helper_child.h - the other half of helper.c: what the new process does before its work. */
#ifndef AGENT_CORE_HELPER_CHILD_H
#define AGENT_CORE_HELPER_CHILD_H

#include "agent/core/helper.h"

NORETURN void helper_child(const struct helper_job *job, int null_fd, int fd);

#endif
