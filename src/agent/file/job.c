/* job.c - from the request to a helper and back. A job is freed exactly once: when it was answered,
 * or its client has disconnected. */
#include "agent/file/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent.h"
#include "base/mem.h"
#include "base/str.h"

static bool launch(struct file_job *job);

bool file_job_is_over(const struct file_job *job)
{
    return helper_must_stop() || uv_hrtime() >= job->deadline_ns;
}

bool file_path_resolve(const char *base, const char *home, const char *path, char *dst, size_t cap)
{
    int n;

    if (path[0] == '/')
        return str_copy(dst, cap, path);
    if (path[0] == '~' && (path[1] == '/' || path[1] == '\0')) {
        path += path[1] == '/' ? 2 : 1;
        base = home;
    }
    n = snprintf(dst, cap, "%s%s%s", strcmp(base, "/") == 0 && path[0] != '\0' ? "" : base,
                 path[0] != '\0' ? "/" : "", path);
    return n > 0 && (size_t) n < cap;
}

bool file_job_set_path(struct file_job *job, const char *path)
{
    size_t len;

    if (!file_path_resolve(job->base, job->user->home, path, job->path, sizeof(job->path)))
        return false;
    len = strlen(job->path);
    while (len > 1 && job->path[len - 1] == '/')
        job->path[--len] = '\0';
    return true;
}

int file_job_sys(struct file_job *job, int sys)
{
    return file_error_sys(&job->error, job->call.operation, job->path, sys);
}

int file_job_fail(struct file_job *job, int status, const char *type, const char *message)
{
    return file_error_set(&job->error, status, type, job->call.operation, job->path, message);
}

/* --- in the helper --- */

static const struct identity *choose(void *ctx)
{
    struct file_job *job = ctx;

    return job->call.handler->choose(job);
}

static void run(void *ctx, int fd)
{
    struct file_job *job = ctx;
    struct buf reply;
    int status;

    buf_init(&reply, FILE_RESULT_BODY_MAX);
    status = job->call.handler->run(job, &reply);
    file_result_send(fd, status, &reply);
    buf_fini(&reply);
}

/* --- in the agent --- */

/* Starts the next one that can be started. */
static void free_job(struct file_job *job)
{
    struct file_lane *lane = job->lane;
    bool was_running = job->helper != NULL;

    rt_timer_cancel(&job->helpers->loop->rt, &job->hard);
    if (list_is_linked(&job->link))
        list_remove(&lane->waiting, &job->link);
    if (was_running)
        helper_leave(job->helper);
    file_result_fini(&job->result);
    free(job);
    if (!was_running)
        return;
    lane->running--;
    while (lane->running < lane->running_max && lane->waiting.len > 0)
        if (launch(container_of(list_pop_front(&lane->waiting), struct file_job, link)))
            break;
}

static void on_gone(void *ctx)
{
    free_job(ctx);
}

static void fail(struct file_job *job, int status, const char *message)
{
    job->call.handler->refuse(job->ex, status, message);
    free_job(job);
}

static void on_data(void *ctx, const char *data, size_t len)
{
    struct file_job *job = ctx;
    struct file_result *r = &job->result;

    (void) file_result_feed(r, data, len, &data); /* all of it is kept */
    if (r->is_bad)
        fail(job, 500, "the file helper gave no valid answer");
    else if (buf_failed(&r->body))
        fail(job, 503, "not enough memory for the answer");
    else if (file_result_is_done(r)) {
        http_reply(job->ex, (int) r->head.status, "application/json", buf_str(&r->body),
                   r->body.len);
        free_job(job);
    }
}

static void on_end(void *ctx)
{
    fail(ctx, 500, "the file helper died before its answer was complete (out of memory?)");
}

static void on_hard(struct rt_timer *timer)
{
    fail(container_of(timer, struct file_job, hard), 504, "the file system did not answer in time");
}

/* False: it could not be started; that was answered, and the job is freed. */
static bool launch(struct file_job *job)
{
    struct rt *rt = &job->helpers->loop->rt;
    const struct helper_job work = {.choose = choose,
                                    .run = run,
                                    .on_data = on_data,
                                    .on_end = on_end,
                                    .ctx = job,
                                    .cpu_s = 2 * FILE_DEADLINE_NS / NS_PER_S};

    if (rt_now(rt) >= job->deadline_ns) {
        fail(job, 504, "the work did not start in time");
        return false;
    }
    job->helper = helper_start(job->helpers, &work);
    if (job->helper == NULL) {
        fail(job, 503, "no process for this file call: the box has too many, or no memory");
        return false;
    }
    job->lane->running++;
    rt_timer_set(rt, &job->hard, rt_after(job->deadline_ns, FILE_HARD_NS), on_hard);
    return true;
}

void file_job_start(struct http_exchange *ex, const struct file_call *call)
{
    struct agent *a = http_server_ctx(ex);
    struct file_lane *lane = call->is_long ? &a->files->long_lane : &a->files->short_lane;
    struct file_job *job;

    if (lane->waiting.len >= FILE_LANE_WAITING) {
        call->handler->refuse(ex, 503, "too many file jobs are waiting");
        return;
    }
    job = xcalloc(1, sizeof(*job));
    job->lane = lane;
    job->helpers = a->helpers;
    job->ex = ex;
    job->call = *call;
    job->user = &a->user;
    job->root = &a->root;
    job->base = agent_directory(a, &a->user);
    job->env = &a->env;
    job->deadline_ns = rt_after(uv_hrtime(), FILE_DEADLINE_NS);
    file_result_init(&job->result, false);
    http_set_ctx(ex, job, on_gone);
    if (lane->running >= lane->running_max)
        list_push_back(&lane->waiting, &job->link);
    else
        (void) launch(job); /* or it was answered */
}
