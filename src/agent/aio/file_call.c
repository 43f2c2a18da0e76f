/* file_call.c - the file API's requests and answers. A request with "sudo": true is done as root. */
#include "agent/aio/file_call.h"

#include <string.h>

#include "agent/aio/envelope.h"

/* --- in the helper --- */

int aio_file_path(struct file_job *job, const struct json *req, const char *field)
{
    const char *path = NULL;
    int rc = envelope_need_str(req, field, FILE_PATH_MAX - 1, &path, &job->err);

    if (rc == SP_OK && !file_job_set_path(job, path))
        rc = err_set(&job->err, SP_INVALID_FIELD, "'%s' is too long", field);
    return rc;
}

static int read_request(struct file_job *job, bool *want_root)
{
    size_t len;
    const char *body = http_body(job->ex, &len);

    job->request = json_parse(body, len, FILE_BODY_MAX, &job->err);
    if (job->request == NULL)
        return job->err.code;
    if (!json_is_obj(json_root(job->request)))
        return err_set(&job->err, SP_BAD_REQUEST, "the body must be an object");
    return json_field_bool(json_root(job->request), "sudo", want_root, &job->err);
}

static const struct identity *choose(struct file_job *job)
{
    bool want_root = false;

    (void) read_request(job, &want_root); /* run() looks at job->err */
    return want_root ? job->root : job->user;
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

static void print_error(struct buf *out, const struct file_error *e)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "success", false);
    json_put_str(&o, "message", e->message);
    json_begin_obj(&o, "data");
    json_put_str(&o, "path", e->path);
    json_put_str(&o, "operation", e->operation);
    json_put_str(&o, "message", e->message);
    json_put_str(&o, "error_type", e->type);
    json_put_bool(&o, "retryable", file_error_is_retryable(e));
    if (e->sys != 0) {
        json_put_i64(&o, "errno", e->sys);
        json_put_str(&o, "errno_name", strerrorname_np(e->sys));
    }
    json_end(&o);
    json_put_str(&o, "hint", e->hint);
    json_end(&o);
    json_out_finish(&o, out);
}

static void print_stored(struct buf *out, const char *path, uint64_t size)
{
    struct json_out o;

    envelope_ok_begin(&o, NULL);
    json_put_str(&o, "file_path", path);
    json_put_u64(&o, "file_size", size);
    json_put_bool(&o, "success", true);
    envelope_ok_close(&o);
    json_out_finish(&o, out);
}

static int run_call(struct file_job *job, struct buf *reply)
{
    const struct aio_file_call *call = job->call.detail;
    struct json_out o;
    int rc = job->err.code;

    if (rc != SP_OK)
        return rc; /* of the request */
    envelope_ok_begin(&o, NULL);
    rc = call->run(job, json_root(job->request), &o);
    if (rc != SP_OK) {
        drop(&o);
        return rc;
    }
    envelope_ok_close(&o);
    json_out_finish(&o, reply);
    return buf_failed(reply) ? err_set(&job->err, SP_NO_MEMORY, "not enough memory for the answer")
                             : SP_OK;
}

static int run(struct file_job *job, struct buf *reply)
{
    int rc = run_call(job, reply);
    int status = 200;

    if (rc == SP_IO) {
        print_error(reply, &job->error);
        status = job->error.status;
    } else if (rc != SP_OK) {
        buf_reset(reply);
        status = envelope_print_err(reply, &job->err);
    }
    job->request = json_doc_free(job->request);
    return status;
}

/* --- in the agent --- */

void aio_file_start(struct http_exchange *ex, const struct aio_file_call *call)
{
    static const struct file_handler handler = {
        .choose = choose, .run = run, .refuse = envelope_fail};
    const struct file_call file_call = {.operation = call->operation,
                                        .is_long = call->is_long,
                                        .handler = &handler,
                                        .detail = call};

    file_job_start(ex, &file_call);
}

const struct file_dialect aio_file_dialect = {.refuse = envelope_fail,
                                              .refuse_err = envelope_fail_err,
                                              .print_error = print_error,
                                              .print_stored = print_stored};
