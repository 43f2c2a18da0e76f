/* leave.h - a graceful end of the box. */
#ifndef AGENT_PROCESS_LEAVE_H
#define AGENT_PROCESS_LEAVE_H

#include "agent/process/process.h"

/* on_alone: no process is left, or the time is over. Zeroed except for it and ctx. */
struct leave {
    void (*on_alone)(void *ctx);
    void *ctx;
    struct process_table *processes;
    struct rt_timer timer;
    uint64_t until_ns;
    bool is_on;
};

/* SIGTERM to everything in the box. */
void leave_start(struct leave *l, struct process_table *t, uint64_t grace_ns);
/* A child has ended: it may have been the last. */
void leave_look(struct leave *l);
/* Calling it when not started is fine. */
void leave_end(struct leave *l);

#endif
