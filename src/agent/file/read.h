/* read.h - the text of a file, or some lines of it. The text is exact or there is an error: clients edit by
 * reading and writing back, so that a cut or repaired text would destroy the file. It blocks. */
#ifndef AGENT_FILE_READ_H
#define AGENT_FILE_READ_H

#include "agent/file/job.h"

/* The lines [start, end) of job->path, counted from 0; `end` UINT64_MAX: to the end. At most out->max
 * bytes. SP_OK, or SP_IO and job->error. */
MUST_CHECK int file_read_text(struct file_job *job, uint64_t start, uint64_t end, struct buf *out);

#endif
