/* process_stream.h - the output of a job as it comes, for one reader. */
#ifndef AGENT_OWN_PROCESS_STREAM_H
#define AGENT_OWN_PROCESS_STREAM_H

#include "agent/own/stream_event.h"

struct stream_options {
    enum stream_form form;
    bool wants[PROCESS_STREAM_COUNT];
    uint64_t at[PROCESS_STREAM_COUNT]; /* offsets of the first bytes */
    bool want_follow;                  /* until it has ended; else what is there now */
    bool want_start;                   /* an event that names the job comes first */
    bool want_kill;                    /* when the reader goes before the end */
};

/* Answers the request with the stream. */
void process_stream_begin(struct http_exchange *ex, struct process *p,
                          const struct stream_options *options);

#endif
