/* file_call.h - one buffered call of the file API: a JSON request, a helper, an envelope. */
#ifndef AGENT_AIO_FILE_CALL_H
#define AGENT_AIO_FILE_CALL_H

#include "agent/file/dialect.h"
#include "agent/file/job.h"
#include "base/json.h"

struct aio_file_call {
    const char *operation; /* its name in errors */
    /* In the helper. Puts the fields of "data" to o and returns SP_OK; SP_IO when job->error is filled,
     * another code when job->err is. */
    int (*run)(struct file_job *job, const struct json *req, struct json_out *o);
    bool is_long;
};

/* `call` is static. Sends the answer itself. */
void aio_file_start(struct http_exchange *ex, const struct aio_file_call *call);
/* For run(): the required path field, made absolute, to job->path. */
MUST_CHECK int aio_file_path(struct file_job *job, const struct json *req, const char *field);

/* Of transfers. */
extern const struct file_dialect aio_file_dialect;

/* The work of the routes, in api_file_text.c, api_file_editor.c, api_file_find.c, api_file_grep.c. */
int aio_run_read(struct file_job *job, const struct json *req, struct json_out *o);
int aio_run_write(struct file_job *job, const struct json *req, struct json_out *o);
int aio_run_replace(struct file_job *job, const struct json *req, struct json_out *o);
int aio_run_search(struct file_job *job, const struct json *req, struct json_out *o);
int aio_run_editor(struct file_job *job, const struct json *req, struct json_out *o);
int aio_run_find(struct file_job *job, const struct json *req, struct json_out *o);
int aio_run_glob(struct file_job *job, const struct json *req, struct json_out *o);
int aio_run_list(struct file_job *job, const struct json *req, struct json_out *o);
int aio_run_grep(struct file_job *job, const struct json *req, struct json_out *o);

#endif
