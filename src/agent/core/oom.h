/* oom.h - out of memory: the kernel's count of its kills in the agent's memory group, and making
 * the agent the last process that the kernel kills. */
#ifndef AGENT_CORE_OOM_H
#define AGENT_CORE_OOM_H

#include <stdint.h>

/* The count of the group that this process is in; -1 when there is none to read. `root` is "", or a
 * directory that stands for the top in tests. Where cgroup namespaces hide the host's path, or it
 * shows a path that is not there, the box's own group is at the top of the mount. */
int oom_open(const char *root);
/* Processes killed so far; 0 for -1. */
uint64_t oom_count(int fd);

/* What is started has a higher score than the agent, so that it is killed first: the agent has that
 * score while it forks. Setting it needs no privilege, but the file has to be opened before the
 * agent hides its memory. */
struct oom_score {
    int fd; /* -1: cannot be set */
    int own;
    int child;
};
void oom_score_open(struct oom_score *s);
void oom_score_close(struct oom_score *s);
void oom_score_raise(const struct oom_score *s);
void oom_score_lower(const struct oom_score *s);

#endif
