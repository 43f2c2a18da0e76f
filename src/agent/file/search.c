/* search.c - the lines of one file that match. */
#include "agent/file/search.h"

#include "agent/file/text.h"
#include "base/cleanup.h"

enum { MATCHES_MAX = 10000 };

static void add(struct file_matches *f, uint64_t number, const char *line, size_t len)
{
    if (f->count > 0) {
        buf_putc(&f->texts, ',');
        buf_putc(&f->numbers, ',');
    }
    file_print_text(&f->texts, line, MIN_OF(len, (size_t) FILE_LINE_SHOWN));
    buf_printf(&f->numbers, "%llu", (unsigned long long) number);
    f->count++;
}

int file_search(struct file_job *job, struct file_regex *regex, struct file_matches *f)
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

void file_matches_init(struct file_matches *f)
{
    *f = (struct file_matches){.count = 0};
    buf_init(&f->texts, 2 * (size_t) FILE_RESULT_MAX);
    buf_init(&f->numbers, FILE_RESULT_MAX);
}

void file_matches_fini(struct file_matches *f)
{
    buf_fini(&f->texts);
    buf_fini(&f->numbers);
}
