/* file_search.c - /v1/file/search: the lines of one file that match. Line numbers count from 0, as
 * those of /v1/file/read do. */
#include "agent/api_file_calls.h"
#include "agent/file_regex.h"
#include "agent/file_text.h"
#include "base/cleanup.h"

enum { MATCHES_MAX = 10000 };

struct found {
    struct buf texts; /* "a","b" */
    struct buf numbers;
    uint64_t count;
    bool is_truncated;
};

static void add(struct found *f, uint64_t number, const char *line, size_t len)
{
    if (f->count > 0) {
        buf_putc(&f->texts, ',');
        buf_putc(&f->numbers, ',');
    }
    file_print_text(&f->texts, line, MIN_OF(len, (size_t) FILE_LINE_SHOWN));
    buf_printf(&f->numbers, "%llu", (unsigned long long) number);
    f->count++;
}

static int search(struct file_job *job, struct file_regex *regex, struct found *f)
{
    AUTO_CLOSE int fd = file_open_read(job, NULL);
    struct file_lines lines;
    int sys;

    if (fd < 0)
        return SP_IO;
    file_lines_init(&lines, fd);
    for (uint64_t number = 0;; number++) {
        size_t len;
        const char *line = file_lines_next(&lines, &len);

        if (line == NULL)
            break;
        if (f->count == MATCHES_MAX || f->texts.len > FILE_RESULT_MAX || file_job_is_over(job)) {
            f->is_truncated = true;
            break;
        }
        if (file_regex_match(regex, line, len))
            add(f, number, line, len);
    }
    sys = lines.sys;
    file_lines_fini(&lines);
    return sys == 0 ? SP_OK : file_job_sys(job, sys);
}

static void put_list(struct json_out *o, const char *key, const struct buf *items)
{
    struct buf text;

    buf_init(&text, items->len + 3);
    buf_putc(&text, '[');
    buf_append(&text, buf_str(items), items->len);
    buf_putc(&text, ']');
    json_put_raw(o, key, buf_failed(&text) ? "[]" : buf_str(&text));
    buf_fini(&text);
}

int file_call_search(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct found f = {.count = 0};
    struct file_regex regex;
    const char *pattern = "";
    int rc = file_job_path(job, req, "file");

    if (rc == SP_OK)
        rc = json_field_str(req, "regex", REGEX_LEN_MAX, &pattern, &job->err);
    if (rc == SP_OK)
        rc = file_regex_init(&regex, pattern, 0, &job->err);
    if (rc != SP_OK)
        return rc;
    buf_init(&f.texts, 2 * (size_t) FILE_RESULT_MAX);
    buf_init(&f.numbers, FILE_RESULT_MAX);
    rc = search(job, &regex, &f);
    if (rc == SP_OK) {
        json_put_str(o, "file", job->path);
        put_list(o, "matches", &f.texts);
        put_list(o, "line_numbers", &f.numbers);
        json_put_bool(o, "truncated", f.is_truncated);
    }
    buf_fini(&f.texts);
    buf_fini(&f.numbers);
    file_regex_fini(&regex);
    return rc;
}
