/* job_request.h - what a caller asks to be run: the fields that jobs and exec share. */
#ifndef AGENT_OWN_JOB_REQUEST_H
#define AGENT_OWN_JOB_REQUEST_H

#include "agent/process/launch.h"

enum {
    JOB_TAG_MAX = 128,
    JOB_TIMEOUT_S_MAX = 7 * 24 * 3600,
};

/* argv or command, cwd, env, user, tag, timeout_s. The request must be launch_init()ed, and what it
 * wants of terminals be set. */
MUST_CHECK int job_read_common(const struct json *root, struct launch *l, struct err *err);
/* cols and rows. */
MUST_CHECK int job_read_size(const struct json *obj, uint16_t *cols, uint16_t *rows,
                             struct err *err);

#endif
