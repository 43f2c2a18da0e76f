/* refuse.h - the agent's own system call filter, in addition to the one it was started with. */
#ifndef AGENT_CORE_REFUSE_H
#define AGENT_CORE_REFUSE_H

#include "base/err.h"

/* From now on neither this process nor its children can load programs into the kernel. Does nothing
 * on a kernel without filters. */
int refuse_kernel_programs(struct err *err);

#endif
