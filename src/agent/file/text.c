/* text.c - reads files. Nothing is mapped into memory: a file that shrinks under a mapping kills
 * the process. */
#include "agent/file/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"

enum { READ_SIZE = 64 * 1024 };

int file_open_read(struct file_job *job, struct stat *ret_st)
{
    int fd = plain_open_file(AT_FDCWD, job->path, O_RDONLY, 0, ret_st);

    if (fd < 0)
        (void) file_job_sys(job, errno);
    return fd;
}

int file_slurp(struct file_job *job, struct buf *out)
{
    struct stat st;
    AUTO_CLOSE int fd = file_open_read(job, &st);

    if (fd < 0)
        return SP_IO;
    if (st.st_size > 0)
        (void) buf_reserve(out, MIN_OF((size_t) st.st_size, out->max));
    for (;;) {
        ssize_t n;
        size_t room = MIN_OF((size_t) READ_SIZE, out->max - out->len);

        if (room > 0 && !buf_reserve(out, room))
            return file_job_sys(job, ENOMEM);
        if (room == 0) {
            char more;

            if (read(fd, &more, 1) == 0)
                return SP_OK;
            return file_job_fail(job, 413, "too_large", "the file is too large for this operation");
        }
        n = read(fd, out->data + out->len, room);
        if (n < 0)
            return file_job_sys(job, errno);
        if (n == 0)
            break;
        out->len += (size_t) n;
        out->data[out->len] = '\0';
    }
    return SP_OK;
}

void file_lines_init(struct file_lines *l, int fd)
{
    memset(l, 0, sizeof(*l));
    l->fd = fd;
    l->data = xcalloc(1, (size_t) FILE_LINE_MAX + READ_SIZE + 1);
}

void file_lines_fini(struct file_lines *l)
{
    free(l->data);
    l->data = NULL;
}

/* Reads more behind what is there; false at the end. */
static bool fill(struct file_lines *l)
{
    ssize_t n;

    if (l->is_eof)
        return false;
    memmove(l->data, l->data + l->start, l->end - l->start);
    l->end -= l->start;
    l->start = 0;
    n = read(l->fd, l->data + l->end, READ_SIZE);
    if (n <= 0) {
        l->is_eof = true;
        l->sys = n < 0 ? errno : 0;
        return false;
    }
    l->end += (size_t) n;
    l->data[l->end] = '\0'; /* for readers that look for one */
    return true;
}

/* Drops the rest of a line that was cut. */
static void skip_rest(struct file_lines *l)
{
    while (l->is_skipping) {
        const char *nl = memchr(l->data + l->start, '\n', l->end - l->start);

        l->start = nl != NULL ? (size_t) (nl - l->data) + 1 : l->end;
        if (nl != NULL || !fill(l))
            l->is_skipping = false;
    }
}

const char *file_lines_next(struct file_lines *l, size_t *ret_len)
{
    size_t seen = 0;

    skip_rest(l);
    for (;;) {
        const char *line = l->data + l->start;
        size_t have = l->end - l->start;
        const char *nl = memchr(line + seen, '\n', have - seen);
        size_t len = nl != NULL ? (size_t) (nl - line) : have;

        if (nl == NULL && len <= FILE_LINE_MAX) {
            seen = have;
            if (fill(l))
                continue;
            line = l->data + l->start;
            if (have == 0)
                return NULL;
        }
        l->is_skipping = nl == NULL && len > FILE_LINE_MAX;
        l->start += len + (nl != NULL ? 1 : 0);
        if (len > 0 && line[len - 1] == '\r')
            len--;
        *ret_len = MIN_OF(len, (size_t) FILE_LINE_MAX);
        return line;
    }
}

/* Length of the character at text[i], 0 when it is none or goes past the end. */
static size_t char_at(const char *text, size_t i, size_t len)
{
    char copy[5] = {0};
    size_t n;

    if ((text[i] & 0x80) == 0)
        return 1;
    memcpy(copy, text + i, MIN_OF(len - i, sizeof(copy) - 1));
    n = str_utf8_len(copy);
    return n;
}

void file_print_text(struct buf *out, const char *text, size_t len)
{
    buf_putc(out, '"');
    for (size_t i = 0; i < len;) {
        size_t n = char_at(text, i, len);
        unsigned char c = (unsigned char) text[i];

        if (n == 0)
            buf_puts(out, "\\ufffd");
        else if (n > 1)
            buf_append(out, text + i, n);
        else if (c < ' ' || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else {
            if (c == '"' || c == '\\')
                buf_putc(out, '\\');
            buf_putc(out, (char) c);
        }
        i += n > 0 ? n : 1;
    }
    buf_putc(out, '"');
}

void file_put_text(struct json_out *o, const char *key, const char *text, size_t len)
{
    struct buf raw;

    buf_init(&raw, 6 * len + 3);
    file_print_text(&raw, text, len);
    json_put_raw(o, key, buf_failed(&raw) ? "null" : buf_str(&raw));
    buf_fini(&raw);
}

void file_put_list(struct json_out *o, const char *key, const struct buf *items)
{
    struct buf text;

    buf_init(&text, items->len + 3);
    buf_putc(&text, '[');
    buf_append(&text, buf_str(items), items->len);
    buf_putc(&text, ']');
    json_put_raw(o, key, buf_failed(&text) ? "[]" : buf_str(&text));
    buf_fini(&text);
}
