/* replace.c - every occurrence of one text becomes another. */
#include "agent/file/replace.h"

#include <errno.h>
#include <string.h>

#include "agent/file/store.h"
#include "agent/file/text.h"

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

int file_replace(struct file_job *job, const char *old, const char *new, uint64_t *ret_count)
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
