/* api_file_calls.h - the work behind the buffered routes of the file API, one function each: see
 * struct file_call. */
#ifndef AGENT_API_FILE_CALLS_H
#define AGENT_API_FILE_CALLS_H

#include "agent/file_job.h"

int file_call_read(struct file_job *job, const struct json *req, struct json_out *o);
int file_call_write(struct file_job *job, const struct json *req, struct json_out *o);
int file_call_replace(struct file_job *job, const struct json *req, struct json_out *o);
int file_call_editor(struct file_job *job, const struct json *req, struct json_out *o);
int file_call_search(struct file_job *job, const struct json *req, struct json_out *o);
int file_call_grep(struct file_job *job, const struct json *req, struct json_out *o);
int file_call_find(struct file_job *job, const struct json *req, struct json_out *o);
int file_call_glob(struct file_job *job, const struct json *req, struct json_out *o);
int file_call_list(struct file_job *job, const struct json *req, struct json_out *o);
int file_call_dirs(struct file_job *job, const struct json *req, struct json_out *o);

/* `text` with every `old` made `new`, to `out`; how many there were. */
uint64_t file_replace_all(const struct buf *text, const char *old, const char *new,
                          struct buf *out);

/* The streamed routes, whole. */
void file_handle_upload(struct http_exchange *ex);
void file_handle_download(struct http_exchange *ex);

#endif
