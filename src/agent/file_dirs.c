/* file_dirs.c - /v1/agent/directories: directories for the box's user, where only root could make them. The
 * daemon asks for those that a client expects. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/api_file_calls.h"
#include "agent/envelope.h"
#include "agent/plain.h"
#include "base/cleanup.h"
#include "base/str.h"

enum { PATHS_MAX = 32 };

/* A new one is the user's. So is one of root's that is there already on the file system of the directory
 * above: it was made to hold a mount. What is mounted, and what somebody else owns, stays as it is. */
static int give(int at, int above, bool is_made, const struct identity *user)
{
    struct stat st;
    struct stat up;

    if (fstat(at, &st) != 0 || fstat(above, &up) != 0)
        return errno;
    if (!is_made && (st.st_uid != 0 || st.st_dev != up.st_dev))
        return 0;
    return fchown(at, user->uid, user->gid) == 0 ? 0 : errno;
}

/* Every name of the path, those above the last one as root's. Links in it are not followed: the user may
 * have made them. 0 or errno. */
static int make(const char *path, const struct identity *user)
{
    AUTO_CLOSE int at = plain_open(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0);
    char part[256];

    while (at >= 0 && *path == '/') {
        size_t len = strcspn(++path, "/");
        bool is_made;
        int next;
        int sys;

        if (!str_copy_n(part, sizeof(part), path, len))
            return ENAMETOOLONG;
        path += len;
        is_made = mkdirat(at, part, 0755) == 0;
        if (!is_made && errno != EEXIST)
            return errno;
        next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return errno;
        sys = *path == '\0' ? give(next, at, is_made, user) : 0;
        (void) close(at); /* only read */
        at = next;
        if (sys != 0)
            return sys;
    }
    return at >= 0 ? 0 : errno;
}

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

int file_call_dirs(struct file_job *job, const struct json *req, struct json_out *o)
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
        sys = make(path, job->user);
        if (sys == 0 || rc != SP_OK)
            continue; /* the others are made all the same, and the first problem is answered */
        str_copy_cut(job->path, sizeof(job->path), path);
        rc = file_job_sys(job, sys);
    }
    if (rc == SP_OK)
        json_put_u64(o, "count", count);
    return rc;
}
