/* job.h - one request about files as one job of a helper (core/helper.h). The helper has its own
 * copy of the agent's memory, which contains the request; it writes its answer to its socket. When
 * the client disconnects, the helper is stopped.
 *
 * The handler belongs to the interface that was called: it reads the request, calls the engines,
 * and writes the answer. Engines use the job for its path, its deadline and the error they fill. */
#ifndef AGENT_FILE_JOB_H
#define AGENT_FILE_JOB_H

#include "agent/core/env_table.h"
#include "agent/core/helper.h"
#include "agent/file/error.h"
#include "agent/file/lane.h"
#include "agent/file/result.h"
#include "http/http.h"

#define FILE_DEADLINE_NS (20 * NS_PER_S) /* then what was found is answered, as truncated */
#define FILE_HARD_NS (5 * NS_PER_S)      /* after that; then the helper is killed */

enum {
    FILE_BODY_MAX = 64 * 1024 * 1024,   /* one JSON request */
    FILE_TEXT_MAX = 16 * 1024 * 1024,   /* text in one answer */
    FILE_EDIT_MAX = 64 * 1024 * 1024,   /* file that is edited in memory */
    FILE_RESULT_MAX = 16 * 1024 * 1024, /* names and lines in one answer */
};

struct file_job;

struct file_handler {
    /* In the helper, which is still root but has nothing of the agent open: reads the request and
     * returns the user to run it as. An error in the request goes to job->err, for run(). */
    const struct identity *(*choose)(struct file_job *job);
    /* In the helper, which runs as that user from now on: does the work, prints the whole answer,
     * and returns its HTTP status. It uses the job and nothing else of the agent. */
    int (*run)(struct file_job *job, struct buf *reply);
    /* In the agent: no helper could be started, or it gave no answer. */
    void (*refuse)(struct http_exchange *ex, int status, const char *message);
};

struct file_call {
    const char *operation; /* its name in errors; static */
    bool is_long;          /* goes through the lane of long ones */
    const struct file_handler *handler;
    const void *detail; /* the handler's; static */
};

struct file_job {
    struct list_node link; /* lane->waiting */
    struct file_lane *lane;
    struct helper_table *helpers;
    struct http_exchange *ex;
    struct file_call call;
    struct helper *helper; /* NULL: waits in its lane */
    struct rt_timer hard;  /* the helper does not come to an end by itself */
    struct file_result result;
    /* These live as long as the agent. */
    const struct identity *user; /* the user to run it as */
    const struct identity *root; /* or, if the request asks for it, as this one */
    const char *base;            /* of relative paths */
    const struct env_table *env; /* of commands */
    uint64_t deadline_ns;
    /* The helper's. */
    void *request;            /* the handler's */
    char path[FILE_PATH_MAX]; /* what the request is about, absolute */
    struct file_error error;  /* of engines that return SP_IO */
    struct err err;           /* of those that return another code */
};

/* Starts the job, which sends the answer itself. */
void file_job_start(struct http_exchange *ex, const struct file_call *call);

/* --- in the helper --- */
/* Whether to stop: the client has disconnected, or the time is over. */
bool file_job_is_over(const struct file_job *job);
/* `path`, made absolute, to job->path. False when it does not fit. */
MUST_CHECK bool file_job_set_path(struct file_job *job, const char *path);
/* Fails with errno and job->path. */
int file_job_sys(struct file_job *job, int sys);
int file_job_fail(struct file_job *job, int status, const char *type, const char *message);

/* Absolute as it is; "~" is the home; else under `base`. False when it does not fit. */
MUST_CHECK bool file_path_resolve(const char *base, const char *home, const char *path, char *dst,
                                  size_t cap);

#endif
