/* read.c - the text of a file. */
#include "agent/file/read.h"

#include <errno.h>
#include <string.h>

#include "agent/file/text.h"
#include "base/cleanup.h"
#include "base/str.h"

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

int file_read_text(struct file_job *job, uint64_t start, uint64_t end, struct buf *out)
{
    struct range range = {.start = start, .end = end};
    int rc = start == 0 && end == UINT64_MAX ? file_slurp(job, out) : read_range(job, &range, out);

    if (rc == SP_IO && job->error.status == 413)
        job->error.hint = "read a range of lines, or download the file";
    if (rc != SP_OK)
        return rc;
    if (!str_is_utf8(buf_str(out), out->len)) {
        rc = file_job_fail(job, 400, "not_text", "the file is not UTF-8 text");
        job->error.hint = "download the file to get its bytes";
    }
    return rc;
}
