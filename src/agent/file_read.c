/* file_read.c - /v1/file/read. The text is exact or there is an error: clients edit by reading and
 * writing back, so that a cut or repaired text would destroy the file. */
#include <errno.h>
#include <string.h>

#include "agent/api_file_calls.h"
#include "agent/file_text.h"
#include "base/cleanup.h"

enum { CHUNK = 64 * 1024 };

struct range {
    uint64_t start; /* first line */
    uint64_t end;   /* line after the last */
    uint64_t line;  /* where the reading is */
};

/* Appends what of the chunk is in the range; false when the range is over. */
static bool take_lines(struct range *r, const char *data, size_t len, struct buf *out)
{
    size_t i = 0;

    while (i < len) {
        const char *nl = memchr(data + i, '\n', len - i);
        size_t n = nl != NULL ? (size_t) (nl - data) + 1 - i : len - i;

        if (r->line >= r->end)
            return false;
        if (r->line >= r->start)
            buf_append(out, data + i, n);
        if (nl != NULL)
            r->line++;
        i += n;
    }
    return r->line < r->end && !buf_failed(out);
}

static int read_range(struct file_job *job, struct range *r, struct buf *out)
{
    AUTO_CLOSE int fd = file_open_read(job, NULL);
    char chunk[CHUNK];
    ssize_t n;

    if (fd < 0)
        return SP_IO;
    do {
        if (file_job_is_over(job))
            return file_job_fail(job, 504, "timeout", "the lines were not reached in time");
        n = read(fd, chunk, sizeof(chunk));
        if (n < 0)
            return file_job_sys(job, errno);
    } while (n > 0 && take_lines(r, chunk, (size_t) n, out));
    if (buf_failed(out))
        return file_job_fail(job, 413, "too_large", "these lines are too large for one answer");
    return SP_OK;
}

static int read_text(struct file_job *job, const struct json *req, struct buf *out)
{
    struct range range = {.end = UINT64_MAX};
    int rc = json_field_u64(req, "start_line", 0, INT64_MAX, &range.start, &job->err);

    if (rc == SP_OK)
        rc = json_field_u64(req, "end_line", 0, INT64_MAX, &range.end, &job->err);
    if (rc != SP_OK)
        return rc;
    if (range.start == 0 && range.end == UINT64_MAX)
        rc = file_slurp(job, out);
    else
        rc = read_range(job, &range, out);
    if (rc == SP_IO && job->error.status == 413)
        job->error.hint = "read a range of lines, or download the file";
    if (rc != SP_OK)
        return rc;
    if (!file_is_utf8(buf_str(out), out->len)) {
        rc = file_job_fail(job, 400, "not_text", "the file is not UTF-8 text");
        job->error.hint = "download the file to get its bytes";
    }
    return rc;
}

int file_call_read(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct buf text;
    int rc = file_job_path(job, req, "file");

    if (rc != SP_OK)
        return rc;
    buf_init(&text, FILE_TEXT_MAX);
    rc = read_text(job, req, &text);
    if (rc == SP_OK) {
        file_put_text(o, "content", buf_str(&text), text.len);
        json_put_str(o, "file", job->path);
    }
    buf_fini(&text);
    return rc;
}
