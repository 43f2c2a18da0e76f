/* search.h - the lines of one file that match. It blocks. */
#ifndef AGENT_FILE_SEARCH_H
#define AGENT_FILE_SEARCH_H

#include "agent/file/job.h"
#include "agent/file/regex.h"

struct file_matches {
    struct buf texts;   /* JSON strings with commas */
    struct buf numbers; /* of the lines, from 0, with commas */
    uint64_t count;
    bool is_truncated;
};

void file_matches_init(struct file_matches *f);
void file_matches_fini(struct file_matches *f);
/* In the file job->path. SP_OK, or SP_IO and job->error. */
MUST_CHECK int file_search(struct file_job *job, struct file_regex *regex, struct file_matches *f);

#endif
