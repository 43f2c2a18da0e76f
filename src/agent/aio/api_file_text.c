/* api_file_text.c - /v1/file/read, write, replace and search: one text file. Runs in the helper.
 * Lines are counted from 0. */
#include <errno.h>
#include <string.h>

#include "agent/aio/file_call.h"
#include "agent/file/read.h"
#include "agent/file/replace.h"
#include "agent/file/search.h"
#include "agent/file/store.h"
#include "agent/file/text.h"
#include "base/base64.h"

int aio_run_read(struct file_job *job, const struct json *req, struct json_out *o)
{
    uint64_t start = 0;
    uint64_t end = UINT64_MAX;
    struct buf text;
    int rc = aio_file_path(job, req, "file");

    if (rc == SP_OK)
        rc = json_field_u64(req, "start_line", 0, INT64_MAX, &start, &job->err);
    if (rc == SP_OK)
        rc = json_field_u64(req, "end_line", 0, INT64_MAX, &end, &job->err);
    if (rc != SP_OK)
        return rc;
    buf_init(&text, FILE_TEXT_MAX);
    rc = file_read_text(job, start, end, &text);
    if (rc == SP_OK) {
        file_put_text(o, "content", buf_str(&text), text.len);
        json_put_str(o, "file", job->path);
    }
    buf_fini(&text);
    return rc;
}

struct write_fields {
    const char *content;
    const char *encoding;
    bool want_append;
    bool want_leading;
    bool want_trailing;
};

static int read_write(struct file_job *job, const struct json *req, struct write_fields *w)
{
    int rc = aio_file_path(job, req, "file");

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

static int make_bytes(struct file_job *job, const struct write_fields *w, struct buf *out)
{
    if (w->want_leading)
        buf_putc(out, '\n');
    if (strcmp(w->encoding, "base64") == 0) {
        if (!base64_decode(w->content, strlen(w->content), out))
            return err_set(&job->err, SP_INVALID_FIELD, "'content' is not valid base64");
    } else if (strcmp(w->encoding, "utf-8") == 0 || strcmp(w->encoding, "raw") == 0) {
        buf_puts(out, w->content);
    } else {
        return err_set(&job->err, SP_INVALID_FIELD, "'encoding' must be utf-8, base64 or raw");
    }
    if (w->want_trailing)
        buf_putc(out, '\n');
    return buf_failed(out) ? file_job_sys(job, ENOMEM) : SP_OK;
}

int aio_run_write(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct write_fields w = {.encoding = "utf-8"};
    struct buf bytes;
    int rc = read_write(job, req, &w);

    if (rc != SP_OK)
        return rc;
    buf_init(&bytes, (size_t) FILE_BODY_MAX + 2);
    rc = make_bytes(job, &w, &bytes);
    if (rc == SP_OK) {
        int sys = w.want_append ? file_append(job->path, buf_str(&bytes), bytes.len)
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

int aio_run_replace(struct file_job *job, const struct json *req, struct json_out *o)
{
    const char *old = NULL;
    const char *new = NULL;
    uint64_t count = 0;
    int rc = aio_file_path(job, req, "file");

    if (rc == SP_OK)
        rc = json_field_str(req, "old_str", FILE_BODY_MAX, &old, &job->err);
    if (rc == SP_OK)
        rc = json_field_str(req, "new_str", FILE_BODY_MAX, &new, &job->err);
    if (rc == SP_OK && (old == NULL || old[0] == '\0' || new == NULL))
        rc = err_set(&job->err, SP_INVALID_FIELD, "'old_str' and 'new_str' are required");
    if (rc == SP_OK)
        rc = file_replace(job, old, new, &count);
    if (rc != SP_OK)
        return rc;
    json_put_str(o, "file", job->path);
    json_put_u64(o, "replaced_count", count);
    return SP_OK;
}

int aio_run_search(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct file_matches found;
    struct file_regex regex;
    const char *pattern = "";
    int rc = aio_file_path(job, req, "file");

    if (rc == SP_OK)
        rc = json_field_str(req, "regex", REGEX_LEN_MAX, &pattern, &job->err);
    if (rc == SP_OK)
        rc = file_regex_init(&regex, pattern, 0, &job->err);
    if (rc != SP_OK)
        return rc;
    file_matches_init(&found);
    rc = file_search(job, &regex, &found);
    if (rc == SP_OK) {
        json_put_str(o, "file", job->path);
        file_put_list(o, "matches", &found.texts);
        file_put_list(o, "line_numbers", &found.numbers);
        json_put_bool(o, "truncated", found.is_truncated);
    }
    file_matches_fini(&found);
    file_regex_fini(&regex);
    return rc;
}
