/* file_replace.c - /v1/file/replace: every occurrence of one text becomes another. Bytes are
 * compared, so that the file need not be UTF-8. A file without the text is left alone. */
#include <errno.h>
#include <string.h>

#include "agent/api_file_calls.h"
#include "agent/file_store.h"
#include "agent/file_text.h"

uint64_t file_replace_all(const struct buf *text, const char *old, const char *new, struct buf *out)
{
    size_t old_len = strlen(old);
    const char *p = buf_str(text);
    const char *end = p + text->len;
    uint64_t count = 0;

    for (;;) {
        const char *hit = memmem(p, (size_t) (end - p), old, old_len);

        if (hit == NULL)
            break;
        buf_append(out, p, (size_t) (hit - p));
        buf_puts(out, new);
        p = hit + old_len;
        count++;
    }
    buf_append(out, p, (size_t) (end - p));
    return count;
}

static int edit(struct file_job *job, const char *old, const char *new, uint64_t *ret_count)
{
    struct buf text;
    struct buf edited;
    int rc;
    int sys = 0;

    buf_init(&text, FILE_EDIT_MAX);
    buf_init(&edited, FILE_EDIT_MAX);
    rc = file_slurp(job, &text);
    if (rc == SP_OK) {
        *ret_count = file_replace_all(&text, old, new, &edited);
        if (buf_failed(&edited))
            rc = file_job_fail(job, 413, "too_large", "the file would become too large");
        else if (*ret_count > 0)
            sys = file_store_put(job->path, buf_str(&edited), edited.len);
    }
    buf_fini(&text);
    buf_fini(&edited);
    return sys == 0 ? rc : file_job_sys(job, sys);
}

int file_call_replace(struct file_job *job, const struct json *req, struct json_out *o)
{
    const char *old = NULL;
    const char *new = NULL;
    uint64_t count = 0;
    int rc = file_job_path(job, req, "file");

    if (rc == SP_OK)
        rc = json_field_str(req, "old_str", FILE_BODY_MAX, &old, &job->err);
    if (rc == SP_OK)
        rc = json_field_str(req, "new_str", FILE_BODY_MAX, &new, &job->err);
    if (rc == SP_OK && (old == NULL || old[0] == '\0' || new == NULL))
        rc = err_set(&job->err, SP_INVALID_FIELD, "'old_str' and 'new_str' are required");
    if (rc == SP_OK)
        rc = edit(job, old, new, &count);
    if (rc != SP_OK)
        return rc;
    json_put_str(o, "file", job->path);
    json_put_u64(o, "replaced_count", count);
    return SP_OK;
}
