/* serve.h - what the agent serves inside its box: all interfaces, and their state between
 * requests. */
#ifndef AGENT_SERVE_H
#define AGENT_SERVE_H

#include "agent/core/agent.h"
#include "agent/file/lane.h"
#include "agent/process/process.h"

/* The tables behind the pointers of struct agent. */
struct agent_parts {
    struct process_table processes;
    struct file_lanes files;
};

/* After loop_init(). `spill_dir` is where long outputs are kept. */
void agent_parts_init(struct agent_parts *parts, struct agent *a, const char *spill_dir);
/* Ends what callers have left open: sessions and what runs in them. */
void agent_close_sessions(struct agent *a);

/* The routes of every part in one table, for the server's config; free() it after the server. */
MUST_CHECK struct http_route *agent_routes_new(void);

#endif
