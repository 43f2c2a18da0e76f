/* process_view.h - what the agent's own process interface shows: a process as JSON, and its output
 * as a stream. */
#ifndef AGENT_OWN_PROCESS_VIEW_H
#define AGENT_OWN_PROCESS_VIEW_H

#include "agent/core/agent.h"
#include "agent/process/process.h"

/* The process that the path names; NULL after 404 was answered. */
struct process *process_of(struct http_exchange *ex);
/* The members of a process, into an open object. */
void process_put(struct json_out *o, const struct process *p);
/* GET .../output: what was written from an offset on, and with follow=1 what comes. */
void process_stream_output(struct http_exchange *ex);

#endif
