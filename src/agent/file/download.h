/* download.h - a file's bytes as the answer to a request, whole or a range of them; any size in the
 * same memory. */
#ifndef AGENT_FILE_DOWNLOAD_H
#define AGENT_FILE_DOWNLOAD_H

#include "agent/core/identity.h"
#include "agent/file/dialect.h"

struct file_download {
    const struct file_dialect *dialect; /* static */
    const struct identity *user;        /* who reads; lives as long as the agent */
    const char *path;                   /* absolute; copied */
    bool want_abort;                    /* end it when the file changes meanwhile */
};

/* Answers the request, which may have a Range header. */
void file_download_start(struct http_exchange *ex, const struct file_download *request);

#endif
