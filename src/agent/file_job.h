/* file_job.h - one request to the file API as one job of a helper (helper.h). The helper has its own
 * copy of the agent's memory and with it the request; it writes its answer to its socket. When the client
 * goes away, the helper is told to stop.
 *
 * run() is in the helper, which is the user, or root for requests with "sudo": true. It sees the
 * job and nothing else of the agent. */
#ifndef AGENT_FILE_JOB_H
#define AGENT_FILE_JOB_H

#include "agent/env_table.h"
#include "agent/file_error.h"
#include "agent/file_lane.h"
#include "agent/file_result.h"
#include "agent/helper.h"

#define FILE_DEADLINE_NS (20 * NS_PER_S) /* then what was found is answered, as truncated */
#define FILE_HARD_NS (5 * NS_PER_S)      /* after that; then the helper is killed */

enum {
    FILE_BODY_MAX = 64 * 1024 * 1024,   /* one JSON request */
    FILE_TEXT_MAX = 16 * 1024 * 1024,   /* text in one answer */
    FILE_EDIT_MAX = 64 * 1024 * 1024,   /* file that is edited in memory */
    FILE_RESULT_MAX = 16 * 1024 * 1024, /* names and lines in one answer */
};

struct file_job;

struct file_call {
    const char *operation; /* its name in errors */
    /* Puts the fields of "data" to o and returns SP_OK; SP_IO when job->error is filled, another
     * code when job->err is. */
    int (*run)(struct file_job *job, const struct json *req, struct json_out *o);
    bool is_long; /* goes through the lane */
    /* Not NULL: there is no request to read, run() puts the members of the whole answer, and when that
     * cannot be done this answers. */
    void (*instead)(struct http_exchange *ex);
};

struct file_job {
    struct list_node link; /* lane->waiting */
    struct file_lane *lane;
    struct helper_table *helpers;
    struct http_exchange *ex;
    const struct file_call *call;
    struct helper *helper; /* NULL: waits in its lane */
    struct rt_timer hard;  /* the helper does not come to an end by itself */
    struct file_result result;
    /* These live as long as the agent. */
    const struct identity *user; /* who it is done as */
    const struct identity *root; /* or, when the request says `sudo`, as */
    const char *base;            /* of relative paths */
    const struct env_table *env; /* of commands */
    uint64_t deadline_ns;
    /* The helper's. */
    struct json_doc *doc;     /* the request */
    int rc;                   /* of reading it */
    char path[FILE_PATH_MAX]; /* what the request is about, absolute */
    struct file_error error;
    struct err err;
};

/* Starts the job for a buffered route; the answer comes by itself. */
void file_job_start(struct http_exchange *ex, const struct file_call *call);

/* --- for run() --- */
/* The client has gone or the time is over: come to an end. */
bool file_job_is_over(const struct file_job *job);
/* The required path field, made absolute, to job->path. */
MUST_CHECK int file_job_path(struct file_job *job, const struct json *req, const char *field);
/* Fails with errno and job->path. */
int file_job_sys(struct file_job *job, int sys);
int file_job_fail(struct file_job *job, int status, const char *type, const char *message);

/* Absolute as it is; "~" is the home; else under `base`. False when it does not fit. */
MUST_CHECK bool file_path_resolve(const char *base, const char *home, const char *path, char *dst,
                                  size_t cap);

#endif
