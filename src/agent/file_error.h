/* file_error.h - how a file operation failed, in the form the sandbox API gives it:
 * {path, operation, message, error_type, retryable, errno?, errno_name?}. */
#ifndef AGENT_FILE_ERROR_H
#define AGENT_FILE_ERROR_H

#include <limits.h>

#include "http/http.h"

enum { FILE_PATH_MAX = PATH_MAX };

struct file_error {
    int status;            /* of HTTP; 0: nothing failed */
    int sys;               /* errno, 0: none */
    const char *type;      /* static */
    const char *operation; /* static */
    const char *hint;      /* static, may be NULL */
    char path[FILE_PATH_MAX];
    char message[256];
};

/* Both fill `e` and return SP_IO. The status and the type follow from errno. */
int file_error_sys(struct file_error *e, const char *operation, const char *path, int sys);
int file_error_set(struct file_error *e, int status, const char *type, const char *operation,
                   const char *path, const char *message);
/* The whole answer as text. */
void file_error_print(const struct file_error *e, struct buf *out);
void file_error_reply(struct http_exchange *ex, const struct file_error *e);

#endif
