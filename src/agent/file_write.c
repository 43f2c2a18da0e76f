/* file_write.c - /v1/file/write. Appending is one write() with O_APPEND, so that two clients that
 * append at once never lose or mix their texts; everything else replaces the file as a whole. */
#include <errno.h>
#include <string.h>

#include "agent/api_file_calls.h"
#include "agent/file_store.h"
#include "base/base64.h"
#include "base/cleanup.h"

struct write_request {
    const char *content;
    const char *encoding;
    bool want_append;
    bool want_leading;
    bool want_trailing;
};

static int read_request(struct file_job *job, const struct json *req, struct write_request *w)
{
    int rc = file_job_path(job, req, "file");

    if (rc == SP_OK)
        rc = json_field_str(req, "content", FILE_BODY_MAX, &w->content, &job->err);
    if (rc == SP_OK && w->content == NULL)
        rc = err_set(&job->err, SP_INVALID_FIELD, "'content' is required");
    if (rc == SP_OK)
        rc = json_field_str(req, "encoding", 16, &w->encoding, &job->err);
    if (rc == SP_OK)
        rc = json_field_bool(req, "append", &w->want_append, &job->err);
    if (rc == SP_OK)
        rc = json_field_bool(req, "leading_newline", &w->want_leading, &job->err);
    if (rc == SP_OK)
        rc = json_field_bool(req, "trailing_newline", &w->want_trailing, &job->err);
    return rc;
}

static int make_bytes(struct file_job *job, const struct write_request *w, struct buf *out)
{
    if (w->want_leading)
        buf_putc(out, '\n');
    if (strcmp(w->encoding, "base64") == 0) {
        if (!base64_decode(w->content, strlen(w->content), out))
            return err_set(&job->err, SP_INVALID_FIELD, "'content' is no base64");
    } else if (strcmp(w->encoding, "utf-8") == 0 || strcmp(w->encoding, "raw") == 0) {
        buf_puts(out, w->content);
    } else {
        return err_set(&job->err, SP_INVALID_FIELD, "'encoding' must be utf-8, base64 or raw");
    }
    if (w->want_trailing)
        buf_putc(out, '\n');
    return buf_failed(out) ? file_job_sys(job, ENOMEM) : SP_OK;
}

static int append(const char *path, const struct buf *bytes)
{
    AUTO_CLOSE int fd = file_open_append(path);

    return fd < 0 ? errno : file_write_all(fd, buf_str(bytes), bytes->len);
}

int file_call_write(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct write_request w = {.encoding = "utf-8"};
    struct buf bytes;
    int rc = read_request(job, req, &w);

    if (rc != SP_OK)
        return rc;
    buf_init(&bytes, (size_t) FILE_BODY_MAX + 2);
    rc = make_bytes(job, &w, &bytes);
    if (rc == SP_OK) {
        int sys = w.want_append ? append(job->path, &bytes)
                                : file_store_put(job->path, buf_str(&bytes), bytes.len);

        if (sys != 0)
            rc = file_job_sys(job, sys);
    }
    if (rc == SP_OK) {
        json_put_str(o, "file", job->path);
        json_put_u64(o, "bytes_written", bytes.len);
    }
    buf_fini(&bytes);
    return rc;
}
