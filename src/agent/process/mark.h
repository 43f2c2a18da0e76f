/* mark.h - a number that all descendants of a process keep, whatever they do with groups, sessions, parents and their
 * environment: the limit of their resident set (RLIMIT_RSS), which Linux keeps for each process and uses for nothing. It
 * is high enough to be none.
 *
 * A program can lower the mark of its own processes, which needs no rights, and is then not found by it: a mark is
 * for finding what programs leave behind, not for holding those that hide. It cannot give its mark to processes that
 * it could not signal as well. Where the kernel has no file that shows limits (runsc), it is asked for each. */
#ifndef AGENT_PROCESS_MARK_H
#define AGENT_PROCESS_MARK_H

#include <stdint.h>
#include <sys/types.h>

/* Of the first process of an agent: others get the numbers after it. They differ between agents that see each other's
 * processes. */
uint64_t mark_first(void);
/* Marks this process. A new one that shares the memory of the agent: a system call only. 0: no mark. */
void mark_set(uint64_t mark);
/* 0: it has none, or is gone. */
uint64_t mark_of(pid_t pid);

#endif
