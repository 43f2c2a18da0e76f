/* upload.h - a file as the body of a request (multipart/form-data): a part `file` and, before or after
 * it, a part `path`. Any size in the same memory; it appears under its name when it is complete. */
#ifndef AGENT_FILE_UPLOAD_H
#define AGENT_FILE_UPLOAD_H

#include "agent/core/identity.h"
#include "agent/file/dialect.h"

struct file_upload {
    const struct file_dialect *dialect; /* static */
    const struct identity *user;        /* who writes; lives as long as the agent */
    const char *base;                   /* of relative paths; lives as long as the agent */
};

/* For a route with HTTP_STREAM: reads the body and answers. */
void file_upload_start(struct http_exchange *ex, const struct file_upload *request);

#endif
