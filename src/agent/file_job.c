/* file_job.c - from the request to the pool and back. A job is freed exactly once: in after(), or
 * where it never ran. */
#include "agent/file_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/envelope.h"
#include "agent/serve.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"

static void launch(struct file_job *job);

bool file_job_is_over(const struct file_job *job)
{
    return atomic_load_explicit(&job->is_cancelled, memory_order_relaxed) ||
           uv_hrtime() >= job->deadline_ns;
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

static void drop(struct json_out *o)
{
    struct buf scrap;

    while (o->depth > 0)
        json_end(o);
    buf_init(&scrap, 0);
    json_out_finish(o, &scrap);
    buf_fini(&scrap);
}

static int run_call(struct file_job *job, const struct json *req, struct json_out *o)
{
    const struct identity *as = job->user;
    bool want_root = false;
    int rc = json_field_bool(req, "sudo", &want_root, &job->err);
    int sys;

    if (rc != SP_OK)
        return rc;
    if (want_root)
        as = job->root;
    sys = identity_enter(as);
    if (sys != 0)
        return file_job_sys(job, sys);
    rc = job->call->run(job, req, o);
    identity_leave(as);
    return rc;
}

static void run(uv_work_t *work)
{
    struct file_job *job = container_of(work, struct file_job, work);
    struct json_doc *doc;
    struct json_out o;

    if (file_job_is_over(job)) {
        job->rc = err_set(&job->err, SP_TIMEOUT, "the work did not start in time");
        return;
    }
    doc = json_parse(job->body, job->body_len, FILE_BODY_MAX, &job->err);
    if (doc == NULL || !json_is_obj(json_root(doc))) {
        job->rc = doc == NULL ? job->err.code
                              : err_set(&job->err, SP_BAD_REQUEST, "the body must be an object");
        (void) json_doc_free(doc);
        return;
    }
    free(TAKE_PTR(job->body)); /* the document has its own copy */
    envelope_ok_begin(&o, NULL);
    job->rc = run_call(job, json_root(doc), &o);
    (void) json_doc_free(doc);
    if (job->rc == SP_OK) {
        envelope_ok_close(&o);
        json_out_finish(&o, &job->reply);
    } else {
        drop(&o);
    }
}

static void free_job(struct file_job *job)
{
    free(job->body);
    buf_fini(&job->reply);
    free(job);
}

static void on_gone(void *ctx)
{
    struct file_job *job = ctx;

    job->ex = NULL;
    if (list_is_linked(&job->link)) {
        list_remove(&job->lane->waiting, &job->link);
        free_job(job);
        return;
    }
    atomic_store(&job->is_cancelled, true);
}

static void answer(struct file_job *job)
{
    if (job->rc == SP_IO)
        file_error_reply(job->ex, &job->error);
    else if (job->rc != SP_OK)
        envelope_fail_err(job->ex, &job->err);
    else if (buf_failed(&job->reply))
        http_reply_error(job->ex, SP_NO_MEMORY, "not enough memory for the answer", 0);
    else
        http_reply(job->ex, 200, "application/json", buf_str(&job->reply), job->reply.len);
}

static void after(uv_work_t *work, int status)
{
    struct file_job *job = container_of(work, struct file_job, work);
    struct file_lane *lane = job->lane;

    assert(status == 0); /* never cancelled: run() looks by itself */
    if (job->ex != NULL)
        answer(job);
    if (job->call->is_long) {
        struct list_node *next;

        lane->running--;
        next = lane->waiting.len > 0 ? list_pop_front(&lane->waiting) : NULL;
        if (next != NULL)
            launch(container_of(next, struct file_job, link));
    }
    free_job(job);
}

static void launch(struct file_job *job)
{
    struct loop *l = http_loop(job->ex);
    int r;

    if (job->call->is_long)
        job->lane->running++;
    r = uv_queue_work(&l->uv, &job->work, run, after);
    assert(r == 0); /* it fails only without a callback */
}

/* Over the limit: refused. */
static bool must_wait(const struct file_job *job)
{
    return job->call->is_long && job->lane->running >= FILE_LANE_RUNNING;
}

void file_job_start(struct http_exchange *ex, const struct file_call *call)
{
    struct agent *a = http_server_ctx(ex);
    struct file_job *job;
    size_t len;
    const char *body = http_body(ex, &len);
    char *copy = try_realloc(NULL, len + 1);

    if (a->files.waiting.head.next == NULL)
        list_init(&a->files.waiting);
    if (copy == NULL || (call->is_long && a->files.waiting.len >= FILE_LANE_WAITING)) {
        free(copy);
        envelope_fail(ex, 503, "too many file jobs are waiting");
        return;
    }
    memcpy(copy, body, len);
    copy[len] = '\0';
    job = xcalloc(1, sizeof(*job));
    job->body = copy;
    job->body_len = len;
    job->lane = &a->files;
    job->ex = ex;
    job->call = call;
    job->user = &a->user;
    job->root = &a->root;
    job->base = agent_directory(a, &a->user);
    job->deadline_ns = rt_after(uv_hrtime(), FILE_DEADLINE_NS);
    buf_init(&job->reply, 256 * 1024 * 1024);
    http_set_ctx(ex, job, on_gone);
    if (must_wait(job))
        list_push_back(&job->lane->waiting, &job->link);
    else
        launch(job);
}
