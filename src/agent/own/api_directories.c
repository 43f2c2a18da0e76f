/* api_directories.c - /v1/agent/directories: makes directories for the box's user where only root
 * can make them. The daemon requests those that a client expects. Requests and answers have the
 * form of the file API. */
#include <string.h>

#include "agent/aio/file_call.h"
#include "agent/file/dirs.h"
#include "agent/own/routes.h"
#include "base/str.h"

enum { PATHS_MAX = 32 };

static bool is_clean(const char *path)
{
    size_t len;

    if (path[0] != '/' || strlen(path) >= FILE_PATH_MAX)
        return false;
    do {
        len = strcspn(++path, "/");
        if (len == 0 || strncmp(path, "..", len) == 0) /* "." too */
            return false;
        path += len;
    } while (*path != '\0');
    return true;
}

static int run_directories(struct file_job *job, const struct json *req, struct json_out *o)
{
    const struct json *paths = json_get(req, "paths");
    size_t count = paths != NULL && json_is_arr(paths) ? json_len(paths) : 0;
    int rc = SP_OK;

    if (count == 0 || count > PATHS_MAX)
        return err_set(&job->err, SP_INVALID_FIELD, "'paths' must be a list of 1 to %d paths",
                       PATHS_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *path = json_str(json_at(paths, i));
        int sys;

        if (path == NULL || !is_clean(path))
            return err_set(&job->err, SP_INVALID_FIELD,
                           "'paths' must be absolute, without '.', '..' and empty parts");
        sys = file_make_dirs(path, job->user);
        if (sys == 0 || rc != SP_OK)
            continue; /* the others are made all the same, and the first problem is answered */
        str_copy_cut(job->path, sizeof(job->path), path);
        rc = file_job_sys(job, sys);
    }
    if (rc == SP_OK)
        json_put_u64(o, "count", count);
    return rc;
}

static void handle_directories(struct http_exchange *ex)
{
    static const struct aio_file_call call = {.operation = "make", .run = run_directories};

    aio_file_start(ex, &call);
}

const struct http_route own_directory_routes[] = {
    {HTTP_METHOD_POST, "/v1/agent/directories", handle_directories, 0, 0,
     "directories for the user"},
    {.pattern = NULL},
};
