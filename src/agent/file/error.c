/* error.c - errno as HTTP status and error type, in one table. Any other errno is a failure of the
 * machine: 500. */
#include "agent/file/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const struct kind {
    int sys;
    int status;
    const char *type;
    bool is_retryable;
} kinds[] = {
    {ENOENT, 404, "not_found", false},
    {EACCES, 403, "permission_denied", false},
    {EPERM, 403, "permission_denied", false},
    {EROFS, 403, "read_only", false},
    {ENOTSUP, 400, "not_regular", false},
    {EISDIR, 400, "is_directory", false},
    {ENOTDIR, 400, "not_directory", false},
    {ELOOP, 400, "too_many_links", false},
    {ENAMETOOLONG, 400, "name_too_long", false},
    {EINVAL, 400, "invalid", false},
    {EEXIST, 409, "exists", false},
    {ENOTEMPTY, 409, "not_empty", false},
    {ETXTBSY, 409, "busy", true},
    {EBUSY, 409, "busy", true},
    {EFBIG, 413, "too_large", false},
    {ENOSPC, 507, "no_space", false},
    {EDQUOT, 507, "no_space", false},
    {EMFILE, 503, "no_descriptors", true},
    {ENFILE, 503, "no_descriptors", true},
    {ENOMEM, 503, "no_memory", true},
    {EAGAIN, 503, "busy", true},
};

static const struct kind *kind_of(int sys)
{
    static const struct kind other = {0, 500, "io", true};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (kinds[i].sys == sys)
            return &kinds[i];
    }
    return &other;
}

int file_error_sys(struct file_error *e, const char *operation, const char *path, int sys)
{
    const struct kind *kind = kind_of(sys);

    e->status = kind->status;
    e->sys = sys == ENOTSUP ? 0 : sys; /* plain.h uses it: no call has failed */
    e->type = kind->type;
    e->operation = operation;
    e->hint = sys == EPERM && strstr(path, "proc") != NULL
                  ? "what belongs to a process (/proc/<pid>) is not served: read it by a command"
                  : NULL;
    str_copy_cut(e->path, sizeof(e->path), path);
    (void) snprintf(e->message, sizeof(e->message), "%s: %.190s",
                    sys == ENOTSUP ? "not a regular file" : strerrordesc_np(sys), e->path);
    return SP_IO;
}

int file_error_set(struct file_error *e, int status, const char *type, const char *operation,
                   const char *path, const char *message)
{
    e->status = status;
    e->sys = 0;
    e->type = type;
    e->operation = operation;
    e->hint = NULL;
    str_copy_cut(e->path, sizeof(e->path), path);
    str_copy_cut(e->message, sizeof(e->message), message);
    return SP_IO;
}

bool file_error_is_retryable(const struct file_error *e)
{
    return e->sys != 0 ? kind_of(e->sys)->is_retryable : e->status == 503;
}
