/* replace.h - every occurrence of one text becomes another. Bytes are compared, so that the file need not be
 * UTF-8. It blocks. */
#ifndef AGENT_FILE_REPLACE_H
#define AGENT_FILE_REPLACE_H

#include "agent/file/job.h"

/* `text` with every `old` made `new`, to `out`; how many there were. */
uint64_t file_replace_all(const struct buf *text, const char *old, const char *new,
                          struct buf *out);
/* The same in the file job->path; without the text it is left alone. SP_OK, or SP_IO and job->error. */
MUST_CHECK int file_replace(struct file_job *job, const char *old, const char *new,
                            uint64_t *ret_count);

#endif
