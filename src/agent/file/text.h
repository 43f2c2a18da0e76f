/* text.h - files as text: opening, whole contents, lines, and text in answers. For jobs: all
 * of it blocks. */
#ifndef AGENT_FILE_TEXT_H
#define AGENT_FILE_TEXT_H

#include <sys/stat.h>

#include "agent/file/job.h"

enum {
    FILE_LINE_MAX = 32 * 1024, /* of a line, this many bytes are searched */
    FILE_LINE_SHOWN = 4 * 1024 /* and this many are in the answer */
};

/* A regular file for reading; a device or a FIFO is refused instead of waited for. -1 and
 * job->error. ret_st may be NULL. */
int file_open_read(struct file_job *job, struct stat *ret_st);
/* The whole file behind job->path, at most out->max bytes. SP_OK or job->error. */
MUST_CHECK int file_slurp(struct file_job *job, struct buf *out);

struct file_lines {
    char *data;
    size_t start;
    size_t end;
    int fd;  /* stays the caller's */
    int sys; /* errno that ended it */
    bool is_eof;
    bool is_skipping; /* the rest of a line that was cut */
};

void file_lines_init(struct file_lines *l, int fd);
void file_lines_fini(struct file_lines *l);
/* The next line without its line end, valid until the next call; NULL at the end. A line over
 * FILE_LINE_MAX is cut. */
const char *file_lines_next(struct file_lines *l, size_t *ret_len);

/* As a JSON string with quotes; NUL is kept, what is no UTF-8 replaced. */
void file_print_text(struct buf *out, const char *text, size_t len);
void file_put_text(struct json_out *o, const char *key, const char *text, size_t len);
/* A list of what file_print_text() printed, with commas between. */
void file_put_list(struct json_out *o, const char *key, const struct buf *items);

#endif
