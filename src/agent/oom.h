/* oom.h - who ran out of memory: the kernel's count of its kills in the agent's memory group, and
 * making the agent the last one that it takes. */
#ifndef AGENT_OOM_H
#define AGENT_OOM_H

#include <stdint.h>

/* The count of the group that this process is in; -1 when there is none to read. `root` is "", or a
 * directory that stands for the top in tests. Where cgroup namespaces hide the host's path, or it
 * shows a path that is not there, the box's own group is at the top of the mount. */
int oom_open(const char *root);
/* Processes killed so far; 0 for -1. */
uint64_t oom_count(int fd);

/* What to write to oom_score_adj of what is started, so that it dies before the agent: raising it
 * needs no privilege. */
int oom_child_score(void);

#endif
