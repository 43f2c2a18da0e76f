/* counters.h - what the kernel counts of the processes of a box: its control group, version 1 or 2, and its network.
 * These calls read files of the kernel and are for threads. */
#ifndef BACKEND_COUNTERS_H
#define BACKEND_COUNTERS_H

#include "backend/backend.h"

#define COUNTERS_CGROUP_ROOT "/sys/fs/cgroup"

enum { COUNTERS_GROUP_MAX = 4096 };

/* `text` is that of /proc/<pid>/cgroup. Finds the group of a box, in whose path `id` stands, below `root`: in version 1
 * that of `controller` (NULL: of the last that has one). *ret_top is the length of its path up to the part with the id;
 * what follows was made in the box. */
bool counters_find_group(const char *text, const char *root, const char *controller, const char *id,
                         char ret[static COUNTERS_GROUP_MAX], size_t *ret_top);

/* Of the box with this process, if it is in a control group in whose path `id` stands; else nothing is known. False: no such
 * process. */
bool counters_read(int pid, const char *id, struct backend_counters *ret);

/* Of a box whose processes have ended, as far as its control group `group` (a path below each hierarchy) still knows it:
 * processor time, and disk bytes in version 2. False: nothing is known any more. */
bool counters_read_ended(const char *group, struct backend_counters *ret);

/* --- parts of it, on texts and directories --- */

/* The group below `root`, as `text` names it. */
void counters_read_group(const char *text, const char *root, const char *id,
                         struct backend_counters *ret);
/* /proc/<pid>/net/dev: all but the loopback; not known when there is nothing else. */
void counters_take_net(const char *text, struct backend_counters *ret);
/* Lines of io.stat, which version 2 has. What goes through a loop device is counted again where its file
 * lies, by newer kernels: so of the two sums only the larger one counts. */
void counters_take_disk(const char *text, struct backend_counters *ret);

/* counters_io.c: disk bytes of the processes in the group of this directory, for version 1, whose own numbers leave out
 * what is written back later, or everything. A process has the bytes of the children that it has waited for, and the first
 * one of a box waits for all that nobody else does. */
void counters_read_processes(const char *group, struct backend_counters *ret);

#endif
