/* grep.h - the lines below a directory, or of one file, that match. Binary files (a NUL near the start) and
 * files over max_file_size are passed over. It blocks. */
#ifndef AGENT_FILE_GREP_H
#define AGENT_FILE_GREP_H

#include "agent/file/grep_request.h"
#include "agent/file/job.h"
#include "agent/file/regex.h"

struct file_hit {
    char *file;
    uint64_t line;
    struct buf text;   /* JSON string */
    struct buf before; /* JSON strings with commas */
    struct buf after;
    uint64_t after_left;
};

/* Zeroed but for what the caller wants. */
struct file_grep {
    struct file_job *job; /* its path is the root */
    struct grep_request req;
    /* The result. */
    struct file_hit *hits; /* by file and line */
    size_t count;
    uint64_t files_searched;
    uint64_t files_matched;
    uint64_t files_skipped;
    bool is_truncated;
    /* While it runs. */
    struct file_regex regex;
    size_t cap;
    size_t open; /* first hit that may still want lines after it */
    size_t bytes;
    uint64_t skipped; /* hits before the offset */
};

/* SP_OK; SP_IO and job->error; SP_INVALID_FIELD and job->err for a pattern that cannot be used. Needs
 * file_grep_fini() whatever it returns. */
MUST_CHECK int file_grep_run(struct file_grep *g);
/* Its request, too. */
void file_grep_fini(struct file_grep *g);

#endif
