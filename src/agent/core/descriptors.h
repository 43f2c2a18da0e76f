/* descriptors.h - closes descriptors that a new process should not have. System calls only. */
#ifndef AGENT_CORE_DESCRIPTORS_H
#define AGENT_CORE_DESCRIPTORS_H

#include <stdbool.h>

/* Closes `first` and all above it, also where the kernel has no close_range(2). False: it
 * failed. */
bool descriptors_close_from(int first);

#endif
