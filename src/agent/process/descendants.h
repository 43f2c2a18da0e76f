/* descendants.h - descendants of a process that have left its group, so that a signal to the group does
 * not reach them.
 *
 * Found in /proc: children, their children and so on, whatever is still in the session that the
 * process leads, and those with its mark (mark.h) that have lost their parents, so that the agent has
 * them now. All of them are stopped before any is signalled, so that the search comes to an end.
 * They are remembered by number and time of start, so that they are known when the process itself has
 * died, and a number that is used again is not signalled.
 *
 * What is not found: a process that made a session of its own, lost its parent before the search (a
 * daemon) and has changed its mark, or has none (runsc). It then ends only with the box. Nor more than
 * DESCENDANTS_MAX, nor what still forks after 16 rounds; a box limits the number of its processes. */
#ifndef AGENT_PROCESS_DESCENDANTS_H
#define AGENT_PROCESS_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DESCENDANTS_MAX = 4096 };

struct descendant {
    pid_t pid;
    unsigned long long started; /* in ticks since the machine started */
};

struct descendants {
    uint64_t mark; /* of the process; 0: none */
    struct descendant *list;
    size_t count;
    size_t cap;
};

/* Signals the group of `leader`, which leads its session too and is not reaped, and all that is found
 * outside of the group; that is remembered. Stopped ones go on. */
void descendants_signal(struct descendants *s, pid_t leader, int signum);
/* The leader is dead, and not reaped: kills the rest of its group, the remembered ones, and those that
 * it has left since. */
void descendants_kill(struct descendants *s, pid_t leader);
/* Whether one of the remembered ones lives, or one of the group of `leader`, which is dead. */
bool descendants_has_living(const struct descendants *s, pid_t leader);
/* Forgets them, but not the mark. */
void descendants_forget(struct descendants *s);
/* SIGTERM to all descendants of this process but those that are spared. Stopped ones go on. */
void descendants_end_own(bool (*is_spared)(pid_t pid, void *ctx), void *ctx);
/* Whether a descendant of this process lives that is not spared. */
bool descendants_has_own(bool (*is_spared)(pid_t pid, void *ctx), void *ctx);
/* Kills all descendants of this process. */
void descendants_kill_own(void);

#endif
