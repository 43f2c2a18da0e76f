/* editor.c - a text file in memory: read, changed, put back as a whole. */
#include "agent/file/editor.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/file/replace.h"
#include "agent/file/store.h"
#include "agent/file/text.h"
#include "base/str.h"

void file_edit_init(struct file_edit *e, struct file_job *job)
{
    memset(e, 0, sizeof(*e));
    e->job = job;
    buf_init(&e->before, FILE_EDIT_MAX);
    buf_init(&e->after, FILE_EDIT_MAX);
}

void file_edit_fini(struct file_edit *e)
{
    buf_fini(&e->before);
    buf_fini(&e->after);
}

int file_edit_load(struct file_edit *e)
{
    int rc = file_slurp(e->job, &e->before);

    if (rc != SP_OK)
        return rc;
    e->has_old = true;
    if (str_is_utf8(buf_str(&e->before), e->before.len))
        return SP_OK;
    return file_job_fail(e->job, 400, "not_text", "the file is not UTF-8 text");
}

static int save(struct file_edit *e)
{
    int sys;

    if (buf_failed(&e->after))
        return file_job_fail(e->job, 413, "too_large", "the file would become too large");
    sys = file_store_put(e->job->path, buf_str(&e->after), e->after.len);
    if (sys != 0)
        return file_job_sys(e->job, sys);
    e->has_text = true;
    return SP_OK;
}

void file_print_lines(struct buf *out, const struct buf *text, uint64_t first, uint64_t last)
{
    const char *p = buf_str(text);
    const char *end = p + text->len;

    for (uint64_t number = 1; p < end && number <= last; number++) {
        const char *nl = memchr(p, '\n', (size_t) (end - p));
        const char *next = nl != NULL ? nl : end;

        if (number >= first) {
            buf_printf(out, "%6llu\t", (unsigned long long) number);
            buf_append(out, p, (size_t) (next - p));
            buf_putc(out, '\n');
        }
        p = nl != NULL ? nl + 1 : end;
    }
}

uint64_t file_count_lines(const char *text, size_t len)
{
    uint64_t lines = 1;

    for (const char *p = memchr(text, '\n', len); p != NULL;
         p = memchr(p + 1, '\n', len - (size_t) (p + 1 - text)))
        lines++;
    return lines;
}

int file_edit_create(struct file_edit *e, const char *text)
{
    struct stat st;

    if (lstat(e->job->path, &st) == 0)
        return file_job_sys(e->job, EEXIST);
    buf_puts(&e->after, text);
    return save(e);
}

uint64_t file_edit_find(const struct file_edit *e, const char *what, size_t *first, size_t *last)
{
    const struct buf *text = &e->before;
    const char *start = buf_str(text);
    size_t len = strlen(what);
    uint64_t count = 0;

    for (const char *p = start;; p += len) {
        p = memmem(p, text->len - (size_t) (p - start), what, len);
        if (p == NULL)
            return count;
        *last = (size_t) (p - start);
        *first = count == 0 ? *last : *first;
        count++;
    }
}

int file_edit_replace_at(struct file_edit *e, size_t at, const char *old, const char *new)
{
    size_t end = at + strlen(old);

    buf_append(&e->after, buf_str(&e->before), at);
    buf_puts(&e->after, new);
    buf_append(&e->after, buf_str(&e->before) + end, e->before.len - end);
    return save(e);
}

int file_edit_replace_all(struct file_edit *e, const char *old, const char *new)
{
    (void) file_replace_all(&e->before, old, new, &e->after);
    return save(e);
}

bool file_edit_line_end(const struct file_edit *e, uint64_t line, size_t *ret_at)
{
    const char *text = buf_str(&e->before);
    size_t at = 0;

    for (uint64_t i = 0; i < line; i++) {
        const char *nl = memchr(text + at, '\n', e->before.len - at);

        if (at == e->before.len)
            return false;
        at = nl != NULL ? (size_t) (nl - text) + 1 : e->before.len;
    }
    *ret_at = at;
    return true;
}

int file_edit_insert(struct file_edit *e, size_t at, const char *lines)
{
    const char *text = buf_str(&e->before);

    buf_append(&e->after, text, at);
    if (at > 0 && text[at - 1] != '\n')
        buf_putc(&e->after, '\n');
    buf_puts(&e->after, lines);
    if (at < e->before.len)
        buf_putc(&e->after, '\n');
    buf_append(&e->after, text + at, e->before.len - at);
    return save(e);
}
