/* error.h - how a file operation failed: which, on which path, and its HTTP status. */
#ifndef AGENT_FILE_ERROR_H
#define AGENT_FILE_ERROR_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

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
/* The same call may succeed later. */
bool file_error_is_retryable(const struct file_error *e);

#endif
