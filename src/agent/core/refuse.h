/* refuse.h - a system call filter of the agent's own, on top of the one it was started with. */
#ifndef AGENT_CORE_REFUSE_H
#define AGENT_CORE_REFUSE_H

#include "base/err.h"

/* From now on neither this process nor what it starts can load programs into the kernel. On a kernel
 * without filters nothing happens. */
int refuse_kernel_programs(struct err *err);

#endif
