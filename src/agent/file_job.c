/* file_job.c - from the request to a helper and back. A job is freed exactly once: when it was answered, or
 * its client has gone. */
#include "agent/file_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/envelope.h"
#include "agent/serve.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"

static bool launch(struct file_job *job);

bool file_job_is_over(const struct file_job *job)
{
    return helper_is_told() || uv_hrtime() >= job->deadline_ns;
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

int file_job_path(struct file_job *job, const struct json *req, const char *field)
{
    const char *path = NULL;
    size_t len;
    int rc = envelope_need_str(req, field, FILE_PATH_MAX - 1, &path, &job->err);

    if (rc != SP_OK)
        return rc;
    if (!file_path_resolve(job->base, job->user->home, path, job->path, sizeof(job->path)))
        return err_set(&job->err, SP_INVALID_FIELD, "'%s' is too long", field);
    len = strlen(job->path);
    while (len > 1 && job->path[len - 1] == '/')
        job->path[--len] = '\0';
    return SP_OK;
}

int file_job_sys(struct file_job *job, int sys)
{
    return file_error_sys(&job->error, job->call->operation, job->path, sys);
}

int file_job_fail(struct file_job *job, int status, const char *type, const char *message)
{
    return file_error_set(&job->error, status, type, job->call->operation, job->path, message);
}

/* --- in the helper --- */

static void drop(struct json_out *o)
{
    struct buf scrap;

    while (o->depth > 0)
        json_end(o);
    buf_init(&scrap, 0);
    json_out_finish(o, &scrap);
    buf_fini(&scrap);
}

static int read_request(struct file_job *job, bool *want_root)
{
    size_t len;
    const char *body = http_body(job->ex, &len);

    job->doc = json_parse(body, len, FILE_BODY_MAX, &job->err);
    if (job->doc == NULL)
        return job->err.code;
    if (!json_is_obj(json_root(job->doc)))
        return err_set(&job->err, SP_BAD_REQUEST, "the body must be an object");
    return json_field_bool(json_root(job->doc), "sudo", want_root, &job->err);
}

static const struct identity *choose(void *ctx)
{
    struct file_job *job = ctx;
    bool want_root = false;

    if (job->call->instead == NULL)
        job->rc = read_request(job, &want_root);
    return want_root ? job->root : job->user;
}

static int run_call(struct file_job *job, struct buf *reply)
{
    struct json_out o;
    int rc;

    if (job->rc != SP_OK)
        return job->rc;
    if (job->call->instead != NULL) {
        json_out_init(&o);
        json_begin_obj(&o, NULL);
        rc = job->call->run(job, NULL, &o);
    } else {
        envelope_ok_begin(&o, NULL);
        rc = job->call->run(job, json_root(job->doc), &o);
    }
    if (rc != SP_OK) {
        drop(&o);
        return rc;
    }
    if (job->call->instead != NULL)
        json_end(&o);
    else
        envelope_ok_close(&o);
    json_out_finish(&o, reply);
    return buf_failed(reply) ? err_set(&job->err, SP_NO_MEMORY, "not enough memory for the answer")
                             : SP_OK;
}

static void run(void *ctx, int fd)
{
    struct file_job *job = ctx;
    struct buf reply;
    int rc;

    buf_init(&reply, FILE_RESULT_BODY_MAX);
    rc = run_call(job, &reply);
    if (rc == SP_OK) {
        file_result_send(fd, 200, &reply);
    } else if (rc == SP_IO) {
        file_result_send_error(fd, &job->error);
    } else {
        buf_reset(&reply);
        file_result_send(fd, envelope_print_err(&reply, &job->err), &reply);
    }
    buf_fini(&reply);
    job->doc = json_doc_free(job->doc);
}

/* --- in the agent --- */

/* The next one that can be started takes the place. */
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

static void refuse(struct http_exchange *ex, const struct file_call *call, int status,
                   const char *message)
{
    if (call->instead != NULL)
        call->instead(ex);
    else
        envelope_fail(ex, status, message);
}

static void fail(struct file_job *job, int status, const char *message)
{
    refuse(job->ex, job->call, status, message);
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

/* False: it was answered that it cannot be, and freed. */
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
    struct file_lane *lane = call->is_long ? &a->files.long_lane : &a->files.short_lane;
    struct file_job *job;

    if (lane->waiting.len >= FILE_LANE_WAITING) {
        refuse(ex, call, 503, "too many file jobs are waiting");
        return;
    }
    job = xcalloc(1, sizeof(*job));
    job->lane = lane;
    job->helpers = &a->processes.helpers;
    job->ex = ex;
    job->call = call;
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
