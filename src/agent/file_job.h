/* file_job.h - one request to the file API as one job on the thread pool, the only work of the agent
 * that leaves the loop. The job has its own copy of the request, so that a client may go away at any
 * time: then the job is told to stop, and its result is dropped.
 *
 * run() is on a thread that is the user while it runs (identity.h), or root for requests with
 * "sudo": true. It sees the job and nothing else of the agent. */
#ifndef AGENT_FILE_JOB_H
#define AGENT_FILE_JOB_H

#include <stdatomic.h>

#include "agent/file_error.h"
#include "agent/file_lane.h"
#include "agent/identity.h"

#define FILE_DEADLINE_NS (20 * NS_PER_S) /* then what was found is answered, as truncated */

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
};

struct file_job {
    uv_work_t work;
    struct list_node link; /* lane->waiting */
    struct file_lane *lane;
    struct http_exchange *ex; /* loop only; NULL when the client has gone */
    const struct file_call *call;
    /* These live as long as the agent. */
    const struct identity *user; /* who it is done as */
    const struct identity *root; /* or, when the request says `sudo`, as */
    const char *base;            /* of relative paths */
    char *body;
    size_t body_len;
    atomic_bool is_cancelled;
    uint64_t deadline_ns;
    char path[FILE_PATH_MAX]; /* what the request is about, absolute */
    struct file_error error;
    struct err err;
    struct buf reply;
    int rc;
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
