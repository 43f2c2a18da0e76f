/* process_view.h - what the agent's own interface shows of jobs: as JSON, and their output as a
 * stream. */
#ifndef AGENT_OWN_PROCESS_VIEW_H
#define AGENT_OWN_PROCESS_VIEW_H

#include "agent/core/agent.h"
#include "agent/process/process.h"

/* Of these one is set: the output of the other kind is not kept any more. */
struct job {
    struct process *process;
    const struct process_record *record; /* valid until the next job ends */
};

/* The job that the path names; false after 404 was answered. */
MUST_CHECK bool job_of(struct http_exchange *ex, struct job *ret);
/* The same for what needs more than a record: NULL after 404 or 409 was answered. */
struct process *process_of(struct http_exchange *ex);
/* The members of a job, into an open object. */
void job_put(struct json_out *o, const struct rt *rt, const struct job *job);
void process_put(struct json_out *o, const struct process *p);
void job_reply(struct http_exchange *ex, const struct job *job);
void process_reply(struct http_exchange *ex, struct process *p);

/* GET .../output: what was written from an offset on, and with follow=1 what comes. */
void process_stream_output(struct http_exchange *ex);

#endif
